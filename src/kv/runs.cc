#include "kv/runs.h"

namespace sluice::kv {

Runs::Runs(const Transfer& transfer)
    : t_(transfer),
      head_bytes_(transfer.part.block_tokens * transfer.part.entry_bytes),
      block_bytes_(transfer.part.heads * head_bytes_) {}

std::optional<MemoryRun> Runs::unit() {
  const PagedLayer& layer = t_.layers[layer_];
  const bool whole_heads = layer.token_stride == t_.part.entry_bytes || t_.part.block_tokens == 1;
  const bool all_heads = whole_heads && layer.head_stride == head_bytes_;
  const std::uint64_t tokens = whole_heads ? 1 : t_.part.block_tokens;  // units of a head
  const std::uint64_t heads = all_heads ? 1 : t_.heads.count;  // of which a block has so many
  const std::uint64_t block = unit_ / (heads * tokens);
  if (block >= t_.block_ids.size()) return std::nullopt;
  const std::uint64_t head = unit_ / tokens % heads;
  const std::uint64_t token = unit_ % tokens;
  ++unit_;
  const std::uint64_t plane_of_part =
      (layer_ * t_.part.planes + plane_) * t_.part_blocks * block_bytes_;
  return MemoryRun{
      .offset = plane_of_part + (t_.part_first_block + block) * block_bytes_ +
                (t_.heads.part_first + head) * head_bytes_ + token * t_.part.entry_bytes,
      .memory = layer.base + plane_ * layer.plane_stride +
                t_.block_ids[block] * layer.block_stride +
                (t_.heads.paged_first + head) * layer.head_stride + token * layer.token_stride,
      .bytes = all_heads     ? t_.heads.count * head_bytes_
               : whole_heads ? head_bytes_
                             : t_.part.entry_bytes};
}

bool Runs::next_plane() {
  unit_ = 0;
  if (++plane_ < t_.part.planes) return true;
  plane_ = 0;
  return ++layer_ < t_.layers.size();
}

std::span<const MemoryRun> Runs::next() {
  std::size_t count = 0;
  bool joined_to_last = false;  // whether the last run may grow
  while (!ended_) {
    const auto found = unit();
    if (!found) {
      ended_ = !next_plane();
      joined_to_last = false;
      continue;
    }
    MemoryRun& last = batch_[count == 0 ? 0 : count - 1];
    if (joined_to_last && last.offset + last.bytes == found->offset &&
        last.memory + last.bytes == found->memory) {
      last.bytes += found->bytes;
      continue;
    }
    if (count == batch_.size()) {
      --unit_;  // begins the next batch
      break;
    }
    batch_[count++] = *found;
    joined_to_last = true;
  }
  return std::span(batch_).first(count);
}

}  // namespace sluice::kv
