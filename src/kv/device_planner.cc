#include "kv/device_planner.h"

#include <bit>
#include <limits>

#include <fmt/format.h>

namespace sluice::kv {
namespace {

// Rows are the blocks of a launch's grid, pieces its threads' loop; both stay below 2^31.
constexpr std::uint64_t kNumbersMax = std::numeric_limits<std::int32_t>::max();

// What lies together in every layer, and in the part.
struct Together {
  bool tokens = true;
  bool heads = true;
};

Together together_in(const Transfer& t, std::uint64_t head_bytes) {
  Together out;
  for (const PagedLayer& layer : t.layers) {
    out.tokens &= t.part.block_tokens == 1 || layer.token_stride == t.part.entry_bytes;
    out.heads &= t.heads.count == 1 || layer.head_stride == head_bytes;
  }
  out.heads &= out.tokens;
  return out;
}

// The largest vector that divides all of them.
std::uint32_t vector_bytes_of(const PlannedCopy& copy) {
  const DevicePlan& p = copy.plan;
  std::uint64_t bits = reinterpret_cast<std::uintptr_t>(p.part) | p.part_plane_bytes |
                       p.part_block_bytes | p.part_head_bytes | p.part_token_bytes | p.span_bytes |
                       kVectorBytesMax;
  for (const DeviceLayer& layer : copy.layers) {
    bits |= reinterpret_cast<std::uintptr_t>(layer.base) | layer.plane_stride | layer.block_stride |
            layer.head_stride | layer.token_stride;
  }
  return std::uint32_t{1} << std::countr_zero(bits);
}

}  // namespace

Result<PlannedCopy> plan_copy(std::byte* part, const Transfer& t) {
  const std::uint64_t head_bytes = t.part.block_tokens * t.part.entry_bytes;
  const std::uint64_t block_bytes = t.part.heads * head_bytes;
  const Together together = together_in(t, head_bytes);
  PlannedCopy copy;
  DevicePlan& p = copy.plan;
  p.part = part + t.part_first_block * block_bytes + t.heads.part_first * head_bytes;
  p.part_plane_bytes = t.part_blocks * block_bytes;
  p.part_block_bytes = block_bytes;
  p.part_head_bytes = head_bytes;
  p.part_token_bytes = t.part.entry_bytes;
  p.planes = t.part.planes;
  p.heads = together.heads ? 1 : t.heads.count;
  p.tokens = together.tokens ? 1 : t.part.block_tokens;
  p.span_bytes = together.heads    ? t.heads.count * head_bytes
                 : together.tokens ? head_bytes
                                   : t.part.entry_bytes;
  const std::uint64_t span_pieces = (p.span_bytes + kPieceBytes - 1) / kPieceBytes;
  const std::uint64_t spans = std::uint64_t{p.heads} * p.tokens;
  const std::uint64_t planes = std::uint64_t{p.planes} * t.layers.size();
  if (t.block_ids.size() > kNumbersMax / planes || span_pieces > kNumbersMax / spans) {
    return fail(Code::kLimit,
                fmt::format("a copy of {} planes of {} blocks, each {} spans of {} bytes, has more "
                            "pieces than one launch can number",
                            planes, t.block_ids.size(), spans, p.span_bytes));
  }
  p.blocks = static_cast<std::uint32_t>(t.block_ids.size());
  p.rows = static_cast<std::uint32_t>(planes * p.blocks);
  p.span_pieces = static_cast<std::uint32_t>(span_pieces);
  p.row_pieces = static_cast<std::uint32_t>(spans * span_pieces);
  copy.layers.reserve(t.layers.size());
  for (const PagedLayer& layer : t.layers) {
    copy.layers.push_back({.base = layer.base + t.heads.paged_first * layer.head_stride,
                           .plane_stride = layer.plane_stride,
                           .block_stride = layer.block_stride,
                           .head_stride = layer.head_stride,
                           .token_stride = layer.token_stride});
  }
  p.vector_bytes = vector_bytes_of(copy);
  return copy;
}

}  // namespace sluice::kv
