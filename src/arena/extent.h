// extent.h: a run of whole pages inside one data segment, and the 64-bit name of its first page.
//
// Invariant: offset and bytes are multiples of kPageBytes, bytes > 0. A start packed into 64 bits
//            (16 bits segment, 48 bits page) unpacks to itself. The length is kept beside it,
//            never inside.
// Threads:   values.
// Limits:    kSegmentsMax segments of fewer than 2^48 pages.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/checked.h"
#include "base/limits.h"

namespace sluice::arena {

struct Extent {
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;  // of the first byte in the segment
  std::uint64_t bytes = 0;

  bool operator==(const Extent&) const = default;
};

// What a slot stores of an extent besides its length. Zero is page 0 of segment 0, so "no extent"
// needs another mark.
using PackedExtent = std::uint64_t;

inline constexpr unsigned kPackedPageBits = 48;
inline constexpr std::uint64_t kPackedPagesMax = std::uint64_t{1} << kPackedPageBits;
static_assert(kSegmentsMax <= 1u << 16, "a segment number has 16 bits in a packed extent");
static_assert((kPageBytes & (kPageBytes - 1)) == 0, "a page is a power of two");

constexpr bool page_aligned(std::uint64_t n) noexcept {
  return (n & (kPageBytes - 1)) == 0;
}

// Requires extent.segment < 2^16, a page-aligned offset and fewer than 2^48 pages before it.
constexpr PackedExtent pack_extent(const Extent& extent) noexcept {
  return std::uint64_t{extent.segment} << kPackedPageBits | extent.offset / kPageBytes;
}

constexpr Extent unpack_extent(PackedExtent start, std::uint64_t bytes) noexcept {
  return {.segment = static_cast<std::uint32_t>(start >> kPackedPageBits),
          .offset = (start & (kPackedPagesMax - 1)) * kPageBytes,
          .bytes = bytes};
}

// True when an extent read from shared memory lies inside a segment of `segment_bytes`.
constexpr bool inside(const Extent& extent, std::uint64_t segment_bytes) noexcept {
  return page_aligned(extent.offset) && page_aligned(extent.bytes) && extent.bytes != 0 &&
         fits(extent.offset, extent.bytes, segment_bytes);
}

static_assert(std::is_trivially_copyable_v<Extent> && sizeof(Extent) == 24);
static_assert(unpack_extent(pack_extent({.segment = 65535,
                                         .offset = (kPackedPagesMax - 1) * kPageBytes,
                                         .bytes = 4096}),
                            4096) == Extent{.segment = 65535,
                                            .offset = (kPackedPagesMax - 1) * kPageBytes,
                                            .bytes = 4096});

}  // namespace sluice::arena
