// paged_copy.h: between an engine's paged cache and a part of a hand-off, at the speed of memcpy.
//
// gather() reads blocks by their ids into a part; scatter() writes a part into blocks. Several
// layers go in one call. What lies together on both sides is copied together: tokens, heads, and
// neighbouring blocks where the strides allow it.
//
// Blocks of a scatter are distinct, or which of two writes stays is not said.
//
// Invariant: nothing outside the layers' bytes and the part's bytes is touched; all arguments are
//            checked before the first byte moves.
// Threads:   pure but for the copy; the caller keeps both sides alive and still.
// Failure:   kInvalidArgument naming what does not fit. Then nothing was copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sluice/error.h>

#include "kv/layout.h"

namespace sluice::kv {

struct Transfer {
  BlockShape part;   // heads: those of the rank that wrote the part
  BlockShape paged;  // heads: those of this rank; the rest is the same
  std::span<const PagedLayer> layers;
  std::span<const std::uint32_t> block_ids;  // paged, in the request's order
  std::uint64_t part_blocks = 0;             // blocks the part holds
  std::uint64_t part_first_block = 0;        // block_ids[0] is this block of the part
  HeadMap heads;
};

// What the two below refuse. `part_size`: bytes there are for the part. A gather fills all of it.
Status check_gather(std::size_t part_size, const Transfer& transfer);
Status check_scatter(std::size_t part_size, const Transfer& transfer);

Status gather(std::span<std::byte> part, const Transfer& transfer);
Status scatter(std::span<const std::byte> part, const Transfer& transfer);

}  // namespace sluice::kv
