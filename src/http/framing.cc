#include "http/framing.h"

#include <array>
#include <charconv>
#include <limits>
#include <optional>

namespace sluice::http {

namespace {

constexpr std::size_t kMethodBytesMax = 32;

constexpr std::array<bool, 256> make_token_table() {
  std::array<bool, 256> table{};
  for (unsigned c = '0'; c <= '9'; ++c) table[c] = true;
  for (unsigned c = 'a'; c <= 'z'; ++c) table[c] = table[c - 'a' + 'A'] = true;
  for (const char c : std::string_view("!#$%&'*+-.^_`|~"))
    table[static_cast<unsigned char>(c)] = true;
  return table;
}

constexpr std::array<bool, 256> make_value_table() {
  std::array<bool, 256> table{};
  for (unsigned c = 0x20; c < 256; ++c) table[c] = c != 0x7f;
  table['\t'] = true;
  return table;
}

constexpr auto kToken = make_token_table();
constexpr auto kValue = make_value_table();

constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool all_of(std::string_view text, const std::array<bool, 256>& table) noexcept {
  for (const char c : text) {
    if (!table[static_cast<unsigned char>(c)]) return false;
  }
  return true;
}

std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

HeadCheck refuse(std::string_view code, std::string_view what, unsigned status = 400) noexcept {
  return {.verdict = Verdict::kRefused, .refusal = {.status = status, .code = code, .what = what}};
}

// Digits only, nothing that overflows.
std::optional<std::uint64_t> parse_length(std::string_view text) noexcept {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  // Sums of a length and an offset must stay inside 64 bits for everybody.
  if (value > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  return value;
}

// The fields whose meaning is the framing's. Each may be given once, but for Connection.
struct Known {
  std::optional<std::string_view> host, content_length, transfer_encoding, expect;
  bool close = false;
  bool keep_alive = false;
  Refusal refusal;  // status 0: none
};

void refuse_field(Known& known, std::string_view code, std::string_view what) noexcept {
  if (known.refusal.status == 0) known.refusal = {.status = 400, .code = code, .what = what};
}

void once(Known& known, std::optional<std::string_view>& place, std::string_view value,
          std::string_view code, std::string_view what) noexcept {
  if (place) refuse_field(known, code, what);
  place = value;
}

void note_connection(Known& known, std::string_view value) noexcept {
  while (!value.empty()) {
    const std::size_t comma = value.find(',');
    const std::string_view option = trim(value.substr(0, comma));
    value = comma == std::string_view::npos ? std::string_view() : value.substr(comma + 1);
    if (option.empty()) continue;
    if (!is_token(option)) {
      refuse_field(known, "bad_connection", "the Connection field is no list of options");
    } else if (equal_ignoring_case(option, "close")) {
      known.close = true;
    } else if (equal_ignoring_case(option, "keep-alive")) {
      known.keep_alive = true;
    }
  }
}

void note(Known& known, const FieldView& field) noexcept {
  switch (field.name.size()) {
    case 4:
      if (equal_ignoring_case(field.name, "host")) {
        once(known, known.host, field.value, "bad_host", "the Host field is given twice");
      }
      break;
    case 6:
      if (equal_ignoring_case(field.name, "expect")) {
        once(known, known.expect, field.value, "bad_expect", "the Expect field is given twice");
      }
      break;
    case 10:
      if (equal_ignoring_case(field.name, "connection")) note_connection(known, field.value);
      break;
    case 14:
      if (equal_ignoring_case(field.name, "content-length")) {
        once(known, known.content_length, field.value, "two_lengths",
             "Content-Length is given twice");
      }
      break;
    case 16:
      // Some programs honour it as if it were Connection.
      if (equal_ignoring_case(field.name, "proxy-connection")) note_connection(known, field.value);
      break;
    case 17:
      if (equal_ignoring_case(field.name, "transfer-encoding")) {
        once(known, known.transfer_encoding, field.value, "two_encodings",
             "Transfer-Encoding is given twice");
      }
      break;
    default:
      break;
  }
}

// The lines of a header, one after the other.
class Lines {
 public:
  Lines(std::string_view bytes, const HeadLimits& limits) : bytes_(bytes), limits_(limits) {}

  // kComplete: `line` is the next one without its CRLF.
  HeadCheck next(std::string_view& line) noexcept {
    const std::string_view rest = bytes_.substr(position_);
    const std::size_t feed = rest.find('\n');
    if (feed == std::string_view::npos) {
      if (bytes_.size() >= limits_.bytes_max) return too_large();
      return partial(rest);
    }
    if (feed == 0 || rest[feed - 1] != '\r') {
      return refuse("bare_lf", "a line of the header ends with LF instead of CRLF");
    }
    line = rest.substr(0, feed - 1);
    if (!is_field_value(line)) return control_character(line);
    position_ += feed + 1;
    if (position_ > limits_.bytes_max) return too_large();
    return {.verdict = Verdict::kComplete};
  }

  std::size_t position() const noexcept { return position_; }

 private:
  static HeadCheck too_large() noexcept {
    return refuse("header_too_large", "the header is larger than the server takes", 431);
  }

  static HeadCheck control_character(std::string_view line) noexcept {
    return line.find('\r') != std::string_view::npos
               ? refuse("bare_cr", "a CR in the header is not followed by LF")
               : refuse("control_character", "the header holds a control character");
  }

  // What has come of a line: wrong already, or to be continued.
  static HeadCheck partial(std::string_view text) noexcept {
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    if (!is_field_value(text)) return control_character(text);
    return {.verdict = Verdict::kIncomplete};
  }

  std::string_view bytes_;
  const HeadLimits& limits_;
  std::size_t position_ = 0;
};

HeadCheck read_field(std::string_view line, FieldView& field) noexcept {
  if (line.front() == ' ' || line.front() == '\t') {
    return refuse("folded_field", "a field is folded over several lines");
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) {
    return refuse("bad_field", "a line of the header has no colon");
  }
  field.name = line.substr(0, colon);
  if (!is_token(field.name)) {
    return refuse("bad_field_name", "the name of a field is empty or holds what no name may");
  }
  field.value = trim(line.substr(colon + 1));
  return {.verdict = Verdict::kComplete};
}

HeadCheck read_fields(Lines& lines, const HeadLimits& limits, std::vector<FieldView>& fields,
                      Known& known) {
  for (std::string_view line;;) {
    if (const auto check = lines.next(line); check.verdict != Verdict::kComplete) return check;
    if (line.empty()) break;
    FieldView field;
    if (const auto check = read_field(line, field); check.verdict != Verdict::kComplete) {
      return check;
    }
    if (fields.size() >= limits.fields_max) {
      return refuse("too_many_fields", "the header has more fields than the server takes", 431);
    }
    fields.push_back(field);
    note(known, field);
  }
  if (known.refusal.status != 0) {
    return {.verdict = Verdict::kRefused, .refusal = known.refusal};
  }
  return {.verdict = Verdict::kComplete, .bytes = lines.position()};
}

// Length or chunks, whichever is said; kNone when nothing is.
HeadCheck read_framing(const Known& known, HeadView& out) noexcept {
  out.body = BodyKind::kNone;
  out.length = 0;
  if (known.transfer_encoding) {
    if (known.content_length) {
      return refuse("length_and_chunked", "Content-Length stands beside Transfer-Encoding");
    }
    if (out.version < 11) {
      return refuse("bad_transfer_encoding", "HTTP/1.0 has no Transfer-Encoding");
    }
    if (!equal_ignoring_case(*known.transfer_encoding, "chunked")) {
      return refuse("bad_transfer_encoding", "the only transfer coding understood is chunked");
    }
    out.body = BodyKind::kChunked;
  } else if (known.content_length) {
    const auto length = parse_length(*known.content_length);
    if (!length) return refuse("bad_length", "Content-Length is not a number of bytes");
    out.body = BodyKind::kLength;
    out.length = *length;
  }
  out.keep_alive = !known.close && (out.version >= 11 || known.keep_alive);
  return {.verdict = Verdict::kComplete};
}

std::optional<unsigned> parse_version(std::string_view text) noexcept {
  if (text == "HTTP/1.1") return 11;
  if (text == "HTTP/1.0") return 10;
  return std::nullopt;
}

// Visible ASCII: what a target may be made of.
bool is_visible(std::string_view text) noexcept {
  for (const char c : text) {
    if (c <= 0x20 || c >= 0x7f) return false;
  }
  return !text.empty();
}

// A host and perhaps a port, or nothing: no spaces, no separators of a URL, no user.
bool is_host(std::string_view text) noexcept {
  if (text.empty()) return true;
  return is_visible(text) && text.find_first_of("/\\?#@\"<>^`{|},") == std::string_view::npos;
}

// Path and query of a target in one of the forms that a request may have.
std::optional<std::string_view> origin_form(std::string_view method,
                                            std::string_view target) noexcept {
  if (!is_visible(target)) return std::nullopt;
  if (target.front() == '/') return target;
  if (target == "*") return method == "OPTIONS" ? std::optional(target) : std::nullopt;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    const std::string_view rest = target.substr(scheme.size());
    const std::size_t path = rest.find_first_of("/?#");
    const std::string_view authority = rest.substr(0, path);
    if (authority.empty() || !is_host(authority)) return std::nullopt;
    if (path == std::string_view::npos) return std::string_view("/");
    if (rest[path] != '/') return std::nullopt;
    return rest.substr(path);
  }
  return std::nullopt;
}

HeadCheck read_request_line(std::string_view line, RequestView& out) noexcept {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos) {
    return refuse("bad_request_line", "the first line is no request");
  }
  out.method = line.substr(0, first);
  if (!is_token(out.method) || out.method.size() > kMethodBytesMax || out.method == "CONNECT") {
    return refuse("bad_method", "the method is none that the server takes");
  }
  const auto version = parse_version(line.substr(last + 1));
  if (first == last || !version) {
    return refuse("bad_version", "the request's version is neither HTTP/1.1 nor HTTP/1.0");
  }
  out.version = *version;
  const auto target = origin_form(out.method, line.substr(first + 1, last - first - 1));
  if (!target) return refuse("bad_target", "the request's target is not well-formed");
  out.target = *target;
  return {.verdict = Verdict::kComplete};
}

HeadCheck read_status_line(std::string_view line, ResponseView& out) noexcept {
  const auto version = parse_version(line.substr(0, 8));
  const bool well_formed = line.size() >= 13 && line[8] == ' ' && line[12] == ' ';
  unsigned status = 0;
  if (!version) return refuse("bad_status_line", "the first line is no answer");
  if (well_formed) {
    const auto [end, error] = std::from_chars(line.data() + 9, line.data() + 12, status);
    if (error != std::errc() || end != line.data() + 12) status = 0;
  }
  if (status < 100 || status > 999) return refuse("bad_status_line", "the first line is no answer");
  out.version = *version;
  out.status = status;
  return {.verdict = Verdict::kComplete};
}

// What requests and answers have in common: the first line, the fields, and how the body is framed.
template <class View, class ReadFirstLine>
HeadCheck read_head(std::string_view bytes, const HeadLimits& limits, ReadFirstLine read_first_line,
                    Known& known, View& out) {
  out.fields.clear();
  Lines lines(bytes, limits);
  std::string_view line;
  if (const auto check = lines.next(line); check.verdict != Verdict::kComplete) return check;
  if (const auto check = read_first_line(line, out); check.verdict != Verdict::kComplete) {
    return check;
  }
  const auto end = read_fields(lines, limits, out.fields, known);
  if (end.verdict != Verdict::kComplete) return end;
  if (const auto check = read_framing(known, out); check.verdict != Verdict::kComplete) {
    return check;
  }
  return end;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

bool is_token(std::string_view text) noexcept {
  return !text.empty() && all_of(text, kToken);
}

bool is_field_value(std::string_view text) noexcept {
  return all_of(text, kValue);
}

HeadCheck check_request(std::string_view bytes, const HeadLimits& limits, RequestView& out) {
  Known known;
  const auto end = read_head(bytes, limits, read_request_line, known, out);
  if (end.verdict != Verdict::kComplete) return end;
  if (!known.host && out.version >= 11) {
    return refuse("missing_host", "an HTTP/1.1 request needs a Host field");
  }
  if (known.host && !is_host(*known.host)) {
    return refuse("bad_host", "the Host field names no host");
  }
  if (known.expect && !equal_ignoring_case(*known.expect, "100-continue")) {
    return refuse("bad_expect", "the only expectation understood is 100-continue", 417);
  }
  out.expects_continue = known.expect.has_value() && out.version >= 11;
  return end;
}

HeadCheck check_response(std::string_view bytes, const HeadLimits& limits, bool to_head,
                         ResponseView& out) {
  Known known;
  const auto end = read_head(bytes, limits, read_status_line, known, out);
  if (end.verdict != Verdict::kComplete) return end;
  if (to_head || out.status < 200 || out.status == 204 || out.status == 304) {
    out.body = BodyKind::kNone;
  } else if (out.body == BodyKind::kNone) {
    out.body = BodyKind::kUntilClose;
    out.keep_alive = false;
  }
  return end;
}

}  // namespace sluice::http
