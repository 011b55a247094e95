#include "incoming.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace sluice::stub {
namespace {

constexpr std::size_t kHeadBytesMax = 64 * 1024;
constexpr std::size_t kBodyBytesMax = std::size_t{256} << 20;

std::optional<std::size_t> number(std::string_view digits, int base) {
  std::size_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, value, base);
  if (digits.empty() || error != std::errc{} || at != end || value > kBodyBytesMax) return {};
  return value;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

bool has_control_bytes(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && byte != '\t') || byte == 0x7f;
  });
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool take_request_line(std::string_view line, Incoming& out) {
  const auto one = line.find(' ');
  const auto two = line.rfind(' ');
  if (one == std::string_view::npos || two == one || line.substr(two + 1) != "HTTP/1.1")
    return false;
  out.method = line.substr(0, one);
  out.target = line.substr(one + 1, two - one - 1);
  return !out.method.empty() && out.target.starts_with('/') &&
         out.target.find(' ') == std::string::npos;
}

bool take_field(std::string_view line, Incoming& out) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  std::string name = lower(line.substr(0, colon));
  if (name.find_first_of(" \t") != std::string::npos) return false;
  out.headers.emplace_back(std::move(name), trimmed(line.substr(colon + 1)));
  return true;
}

bool take_framing(Incoming& out) {
  bool has_length = false;
  for (const auto& [name, value] : out.headers) {
    if (name == "content-length") {
      const auto length = number(value, 10);
      if (has_length || !length) return false;
      has_length = true;
      out.body_bytes = *length;
    } else if (name == "transfer-encoding") {
      if (out.chunked || lower(value) != "chunked") return false;
      out.chunked = true;
    } else if (name == "connection") {
      out.keep_alive = lower(value) != "close";
    }
  }
  return !(has_length && out.chunked);
}

}  // namespace

std::string_view Incoming::header(std::string_view name) const noexcept {
  const auto found =
      std::ranges::find(headers, name, [](const auto& field) { return field.first; });
  return found == headers.end() ? std::string_view{} : std::string_view(found->second);
}

Parsed parse_head(std::string_view text, Incoming& out) {
  const auto end = text.substr(0, kHeadBytesMax).find("\r\n\r\n");
  if (end == std::string_view::npos) {
    return text.size() >= kHeadBytesMax ? Parsed::kMalformed : Parsed::kIncomplete;
  }
  out = {};
  out.head_bytes = end + 4;
  bool first = true;
  for (std::string_view rest = text.substr(0, end + 2); !rest.empty();) {
    const auto stop = rest.find("\r\n");
    const std::string_view line = rest.substr(0, stop);
    rest.remove_prefix(stop + 2);
    if (has_control_bytes(line)) return Parsed::kMalformed;
    if (!(first ? take_request_line(line, out) : take_field(line, out))) return Parsed::kMalformed;
    first = false;
  }
  const bool one_host =
      std::ranges::count(out.headers, "host", [](const auto& field) { return field.first; }) == 1;
  return one_host && take_framing(out) ? Parsed::kComplete : Parsed::kMalformed;
}

Parsed parse_chunked(std::string_view text, std::string& body, std::size_t& used) {
  body.clear();
  const std::size_t whole = text.size();
  while (true) {
    const auto line_end = text.find("\r\n");
    if (line_end == std::string_view::npos) {
      return text.size() > 1024 ? Parsed::kMalformed : Parsed::kIncomplete;
    }
    const auto size = number(text.substr(0, std::min(line_end, text.find(';'))), 16);
    if (!size) return Parsed::kMalformed;
    text.remove_prefix(line_end + 2);
    if (*size == 0) break;
    if (text.size() < 2 || text.size() - 2 < *size) return Parsed::kIncomplete;
    if (text.substr(*size, 2) != "\r\n") return Parsed::kMalformed;
    body.append(text.substr(0, *size));
    text.remove_prefix(*size + 2);
  }
  while (true) {  // trailers
    const auto line_end = text.find("\r\n");
    if (line_end == std::string_view::npos) return Parsed::kIncomplete;
    text.remove_prefix(line_end + 2);
    if (line_end == 0) break;
  }
  used = whole - text.size();
  return Parsed::kComplete;
}

}  // namespace sluice::stub
