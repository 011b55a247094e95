#include "tensor/utf8.h"

#include <cstddef>
#include <cstdint>

namespace sluice::tensor {
namespace {

struct Lead {
  std::size_t continuation_bytes;
  std::uint32_t bits;      // of the code point, from the lead byte
  std::uint32_t at_least;  // smaller code points would be overlong
};

// continuation_bytes 0 for a byte that may not start a character of more than one byte.
Lead lead_of(unsigned char byte) noexcept {
  if ((byte & 0xE0u) == 0xC0u) return {1, byte & 0x1Fu, 0x80};
  if ((byte & 0xF0u) == 0xE0u) return {2, byte & 0x0Fu, 0x800};
  if ((byte & 0xF8u) == 0xF0u) return {3, byte & 0x07u, 0x10000};
  return {0, 0, 0};
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at++]);
    if (byte < 0x80u) continue;
    const Lead lead = lead_of(byte);
    if (lead.continuation_bytes == 0 || lead.continuation_bytes > text.size() - at) return false;
    std::uint32_t point = lead.bits;
    for (std::size_t i = 0; i < lead.continuation_bytes; ++i) {
      const auto next = static_cast<unsigned char>(text[at++]);
      if ((next & 0xC0u) != 0x80u) return false;
      point = (point << 6) | (next & 0x3Fu);
    }
    const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
    if (point < lead.at_least || point > 0x10FFFF || surrogate) return false;
  }
  return true;
}

}  // namespace sluice::tensor
