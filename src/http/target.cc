#include "http/target.h"

#include <fmt/format.h>

#include "http/limits.h"

namespace sluice::http {
namespace {

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool unreserved(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '~';
}

}  // namespace

Result<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = text.size() - i > 2 ? hex_digit(text[i + 1]) : -1;
    const int low = text.size() - i > 2 ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0 || (high == 0 && low == 0)) {
      return fail(Code::kInvalidArgument, "the address holds a broken percent escape");
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::string percent_encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (unreserved(c)) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Result<Target> parse_target(std::string_view target) {
  if (target.empty() || target.front() != '/' || target.size() > kTargetBytesMax) {
    return fail(Code::kInvalidArgument, "the address must be a path of at most 8 KiB");
  }
  const std::size_t mark = target.find('?');
  Target out{.path = std::string(target.substr(0, mark)), .query = {}};
  std::string_view rest =
      mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(pair.size() < rest.size() ? pair.size() + 1 : pair.size());
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    auto name = percent_decode(pair.substr(0, equals));
    auto value = percent_decode(equals == std::string_view::npos ? std::string_view()
                                                                 : pair.substr(equals + 1));
    if (!name) return std::unexpected(name.error());
    if (!value) return std::unexpected(value.error());
    if (!out.query.emplace(*name, *value).second) {
      return fail(Code::kInvalidArgument, fmt::format("the query names '{}' twice", *name));
    }
  }
  return out;
}

}  // namespace sluice::http
