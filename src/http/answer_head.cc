#include "http/answer_head.h"

#include <array>
#include <iterator>

#include <fmt/format.h>

#include "http/framing.h"

namespace sluice::http {

std::string_view reason_phrase(unsigned status) noexcept {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "";
  }
}

bool is_framing_field(std::string_view name) noexcept {
  static constexpr std::array<std::string_view, 8> kNames{
      "connection", "transfer-encoding", "content-length",   "keep-alive",
      "te",         "trailer",           "proxy-connection", "upgrade"};
  for (const auto known : kNames) {
    if (equal_ignoring_case(known, name)) return true;
  }
  return false;
}

Status append_answer_head(const AnswerHead& head, std::string& out) {
  if (head.status < 200 || head.status > 599) {
    return fail(Code::kInvalidArgument, fmt::format("{} is no answer's status", head.status));
  }
  const std::size_t start = out.size();
  auto to = std::back_inserter(out);
  fmt::format_to(to, "HTTP/1.1 {} {}\r\n", head.status, reason_phrase(head.status));
  bool dated = head.date.empty();
  for (const auto& [name, value] : head.headers) {
    if (!is_token(name) || !is_field_value(value)) {
      out.resize(start);
      return fail(Code::kInvalidArgument,
                  fmt::format("the answer's field '{}' holds what no field may", name));
    }
    if (is_framing_field(name)) continue;
    dated = dated || equal_ignoring_case(name, "date");
    out.append(name).append(": ").append(value).append("\r\n");
  }
  if (!dated) out.append("Date: ").append(head.date).append("\r\n");
  if (head.body == AnswerBody::kLength || (head.body == AnswerBody::kNone && head.says_length)) {
    fmt::format_to(to, "Content-Length: {}\r\n", head.length);
  } else if (head.body == AnswerBody::kChunked) {
    out.append("Transfer-Encoding: chunked\r\n");
  }
  if (!head.keep_alive) {
    out.append("Connection: close\r\n");
  } else if (head.request_version < 11) {
    out.append("Connection: keep-alive\r\n");
  }
  out.append("\r\n");
  return {};
}

std::string_view HttpDate::text(std::time_t now) {
  if (now != at_) {
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    // Names of days and months are English whatever the locale.
    static constexpr std::array<std::string_view, 7> kDays{"Sun", "Mon", "Tue", "Wed",
                                                           "Thu", "Fri", "Sat"};
    static constexpr std::array<std::string_view, 12> kMonths{
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    text_ = fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                        kDays[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                        kMonths[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900,
                        parts.tm_hour, parts.tm_min, parts.tm_sec);
    at_ = now;
  }
  return text_;
}

std::string error_object(std::string_view message, std::string_view type, std::string_view code) {
  return fmt::format(R"({{"error":{{"message":"{}","type":"{}","param":null,"code":"{}"}}}})",
                     message, type, code);
}

}  // namespace sluice::http
