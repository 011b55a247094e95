#include "proxy/json_text.h"

#include <cstdint>
#include <optional>

namespace sluice::proxy {
namespace {

// The four hex digits at the front.
std::optional<std::uint32_t> hex4(std::string_view text) noexcept {
  if (text.size() < 4) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : text.substr(0, 4)) {
    value <<= 4;
    if (c >= '0' && c <= '9') {
      value |= static_cast<std::uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value |= static_cast<std::uint32_t>(c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      value |= static_cast<std::uint32_t>(c - 'A' + 10);
    } else {
      return std::nullopt;
    }
  }
  return value;
}

// How many characters the escape behind a backslash takes; 0 when it means nothing.
std::size_t escape_length(std::string_view text) noexcept {
  constexpr std::string_view kPlain = "\"\\/bfnrt";
  if (text.empty()) return 0;
  if (kPlain.find(text.front()) != std::string_view::npos) return 1;
  if (text.front() != 'u') return 0;
  const auto first = hex4(text.substr(1));
  if (!first) return 0;
  if (*first < 0xD800 || *first > 0xDFFF) return 5;
  if (*first > 0xDBFF || text.substr(5, 2) != "\\u") return 0;
  const auto second = hex4(text.substr(7));
  return second && *second >= 0xDC00 && *second <= 0xDFFF ? 11 : 0;
}

}  // namespace

bool escapes_are_valid(std::string_view text) noexcept {
  for (std::size_t at = 0; (at = text.find('\\', at)) != std::string_view::npos;) {
    const std::size_t length = escape_length(text.substr(at + 1));
    if (length == 0) return false;
    at += 1 + length;
  }
  return true;
}

}  // namespace sluice::proxy
