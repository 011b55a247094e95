#include "kv/paged_copy.h"

#include <cstring>

#include <fmt/format.h>

#include "base/checked.h"
#include "kv/runs.h"

namespace sluice::kv {
namespace {

Status check_heads(const Transfer& t) {
  const HeadMap& heads = t.heads;
  if (heads.count == 0 || !fits(heads.part_first, heads.count, t.part.heads) ||
      !fits(heads.paged_first, heads.count, t.paged.heads)) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("{} heads from {} of {} in the part cannot go to {} of {} in the cache",
                    heads.count, heads.part_first, t.part.heads, heads.paged_first, t.paged.heads));
  }
  return {};
}

}  // namespace

Status check_scatter(std::size_t part_size, const Transfer& t) {
  if (t.part.planes != t.paged.planes || t.part.block_tokens != t.paged.block_tokens ||
      t.part.entry_bytes != t.paged.entry_bytes) {
    return fail(Code::kInvalidArgument,
                fmt::format("the part's blocks ({} planes, {} tokens, {} bytes an entry) are not "
                            "the cache's ({}, {}, {})",
                            t.part.planes, t.part.block_tokens, t.part.entry_bytes, t.paged.planes,
                            t.paged.block_tokens, t.paged.entry_bytes));
  }
  if (t.layers.empty() || t.layers.size() > kLayersMax)
    return fail(Code::kInvalidArgument, fmt::format("a part of {} layers", t.layers.size()));
  const auto bytes = part_bytes(t.part, static_cast<std::uint32_t>(t.layers.size()), t.part_blocks);
  if (!bytes) return std::unexpected(bytes.error());
  if (*bytes != part_size) {
    return fail(Code::kInvalidArgument,
                fmt::format("the part has {} bytes where its shape needs {}", part_size, *bytes));
  }
  if (!fits(t.part_first_block, t.block_ids.size(), t.part_blocks)) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} blocks from {} are not inside the part's {}", t.block_ids.size(),
                            t.part_first_block, t.part_blocks));
  }
  if (auto s = check_heads(t); !s) return s;
  for (const PagedLayer& layer : t.layers) {
    if (auto s = check(layer, t.paged); !s) return s;
    for (const std::uint32_t id : t.block_ids) {
      if (id >= layer.blocks) {
        return fail(Code::kInvalidArgument,
                    fmt::format("block {} is not one of the cache's {}", id, layer.blocks));
      }
    }
  }
  return {};
}

Status check_gather(std::size_t part_size, const Transfer& transfer) {
  if (auto s = check_scatter(part_size, transfer); !s) return s;
  if (transfer.heads.count == transfer.part.heads &&
      transfer.block_ids.size() == transfer.part_blocks)
    return {};
  return fail(Code::kInvalidArgument,
              fmt::format("a part of {} heads and {} blocks cannot be written from {} and {}",
                          transfer.part.heads, transfer.part_blocks, transfer.heads.count,
                          transfer.block_ids.size()));
}

Status gather(std::span<std::byte> part, const Transfer& transfer) {
  if (auto s = check_gather(part.size(), transfer); !s) return s;
  Runs runs(transfer);
  for (auto batch = runs.next(); !batch.empty(); batch = runs.next()) {
    for (const MemoryRun& run : batch) std::memcpy(part.data() + run.offset, run.memory, run.bytes);
  }
  return {};
}

Status scatter(std::span<const std::byte> part, const Transfer& transfer) {
  if (auto s = check_scatter(part.size(), transfer); !s) return s;
  Runs runs(transfer);
  for (auto batch = runs.next(); !batch.empty(); batch = runs.next()) {
    for (const MemoryRun& run : batch) std::memcpy(run.memory, part.data() + run.offset, run.bytes);
  }
  return {};
}

}  // namespace sluice::kv
