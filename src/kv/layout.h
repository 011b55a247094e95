// layout.h: how the KV of one request lies in an engine's paged cache, and in a part of a hand-off.
//
// Paged: one tensor for each layer, indexed (plane, block, head, token), with any strides; what one
// token of one head occupies is contiguous (`entry_bytes`) and opaque. A plane is one of K and V
// where they lie apart; an engine that keeps both in one entry has a single plane.
// Part:  dense, [layers of the group][planes][blocks][heads][tokens of a block][entry], so that a
//        range of blocks of one layer is contiguous whatever the paged strides are.
//
// Invariant: check() accepts only a paged layer all of whose entries lie inside its bytes.
// Threads:   plain values and pure functions, any thread.
// Limits:    the constants below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sluice/error.h>

namespace sluice::kv {

inline constexpr std::uint32_t kLayersMax = 4096;
inline constexpr std::uint32_t kPlanesMax = 2;
inline constexpr std::uint32_t kHeadsMax = 65536;
inline constexpr std::uint32_t kBlockTokensMax = 65536;
inline constexpr std::uint64_t kEntryBytesMax = std::uint64_t{1} << 24;

// What one block of one layer holds.
struct BlockShape {
  std::uint32_t planes = 1;
  std::uint32_t heads = 0;         // of this rank
  std::uint32_t block_tokens = 0;  // tokens a block holds
  std::uint64_t entry_bytes = 0;   // of one token of one head in one plane

  bool operator==(const BlockShape&) const = default;
};

// Bytes of one block of one layer, all planes. kInvalidArgument for a zero or for a number above
// its limit, named.
Result<std::uint64_t> block_bytes(const BlockShape& shape);

// Bytes of a part.
Result<std::uint64_t> part_bytes(const BlockShape& shape, std::uint32_t layers,
                                 std::uint64_t blocks);

// One layer's paged cache. Strides in bytes; never negative.
struct PagedLayer {
  std::byte* base = nullptr;
  std::uint64_t bytes = 0;  // that may be touched from base on
  std::uint32_t blocks = 0;
  std::uint64_t plane_stride = 0;
  std::uint64_t block_stride = 0;
  std::uint64_t head_stride = 0;
  std::uint64_t token_stride = 0;
};

// kInvalidArgument when the last entry would end outside the layer's bytes.
Status check(const PagedLayer& layer, const BlockShape& shape);

// Consecutive heads. Ranks of an engine share the heads of a layer between them.
struct HeadRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  bool operator==(const HeadRange&) const = default;
};

// Which of `heads_total` heads a rank holds. With more ranks than heads, neighbours hold the same
// one. kInvalidArgument when they cannot be shared evenly.
Result<HeadRange> heads_of_rank(std::uint32_t heads_total, std::uint32_t rank, std::uint32_t ranks);

// Which heads move: `part.first` in the part's shape is `paged.first` in the layer's.
struct HeadMap {
  std::uint32_t part_first = 0;
  std::uint32_t paged_first = 0;
  std::uint32_t count = 0;  // zero: none

  bool operator==(const HeadMap&) const = default;
};

}  // namespace sluice::kv
