// runs.h: the contiguous stretches that a transfer between a paged cache and a part is made of.
//
// In the order of the part. What lies together on both sides is one run: tokens, heads, and
// neighbouring blocks where the strides and the block ids allow it. A run never crosses a plane or
// a layer.
//
// Invariant: runs ascend in the part and do not overlap there; together they are exactly the
//            transfer's entries.
// Threads:   one owner. The transfer outlives it and was accepted by check().
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include <sluice/client.h>

#include "kv/paged_copy.h"

namespace sluice::kv {

class Runs {
 public:
  explicit Runs(const Transfer& transfer);

  // The next runs; none at the end. Valid until the next call. Offsets are those in the part.
  std::span<const MemoryRun> next();

 private:
  static constexpr std::size_t kBatchMax = 128;

  // The next piece of the current plane that is contiguous whatever its neighbours are; nothing
  // behind the plane's last.
  std::optional<MemoryRun> unit();
  bool next_plane();  // false: there is none

  const Transfer& t_;
  const std::uint64_t head_bytes_, block_bytes_;
  std::size_t layer_ = 0;
  std::uint32_t plane_ = 0;
  std::uint64_t unit_ = 0;  // in the plane
  bool ended_ = false;
  std::array<MemoryRun, kBatchMax> batch_;
};

}  // namespace sluice::kv
