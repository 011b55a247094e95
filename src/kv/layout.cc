#include "kv/layout.h"

#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/checked.h"

namespace sluice::kv {
namespace {

Status within(std::string_view what, std::uint64_t value, std::uint64_t most) {
  if (value >= 1 && value <= most) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("{} is {}; it may be 1 to {}", what, value, most));
}

Status check_shape(const BlockShape& shape) {
  if (auto s = within("the number of planes", shape.planes, kPlanesMax); !s) return s;
  if (auto s = within("the number of heads", shape.heads, kHeadsMax); !s) return s;
  if (auto s = within("a block's number of tokens", shape.block_tokens, kBlockTokensMax); !s)
    return s;
  return within("an entry's number of bytes", shape.entry_bytes, kEntryBytesMax);
}

// Adds (count - 1) * stride; nothing when that leaves 64 bits.
std::optional<std::uint64_t> extended(std::optional<std::uint64_t> reach, std::uint64_t count,
                                      std::uint64_t stride) {
  if (!reach) return reach;
  const auto more = checked_mul<std::uint64_t>(count - 1, stride);
  return more ? checked_add(*reach, *more) : std::nullopt;
}

}  // namespace

Result<std::uint64_t> block_bytes(const BlockShape& shape) {
  if (auto s = check_shape(shape); !s) return std::unexpected(s.error());
  // The limits keep this below 2^57.
  return std::uint64_t{shape.planes} * shape.heads * shape.block_tokens * shape.entry_bytes;
}

Result<std::uint64_t> part_bytes(const BlockShape& shape, std::uint32_t layers,
                                 std::uint64_t blocks) {
  const auto block = block_bytes(shape);
  if (!block) return block;
  if (auto s = within("a part's number of layers", layers, kLayersMax); !s)
    return std::unexpected(s.error());
  const auto layer = checked_mul(*block, blocks);
  const auto part = layer ? checked_mul<std::uint64_t>(*layer, layers) : std::nullopt;
  if (!part || blocks == 0) {
    return fail(Code::kInvalidArgument,
                fmt::format("a part of {} layers and {} blocks has no size", layers, blocks));
  }
  return *part;
}

Status check(const PagedLayer& layer, const BlockShape& shape) {
  if (auto s = check_shape(shape); !s) return s;
  if (layer.base == nullptr || layer.blocks == 0)
    return fail(Code::kInvalidArgument, "a layer's cache has no address or no blocks");
  std::optional<std::uint64_t> reach = shape.entry_bytes;
  reach = extended(reach, shape.planes, layer.plane_stride);
  reach = extended(reach, layer.blocks, layer.block_stride);
  reach = extended(reach, shape.heads, layer.head_stride);
  reach = extended(reach, shape.block_tokens, layer.token_stride);
  if (!reach || *reach > layer.bytes) {
    return fail(Code::kInvalidArgument,
                fmt::format("a layer's cache of {} blocks reaches past its {} bytes", layer.blocks,
                            layer.bytes));
  }
  return {};
}

Result<HeadRange> heads_of_rank(std::uint32_t heads_total, std::uint32_t rank,
                                std::uint32_t ranks) {
  if (ranks == 0 || rank >= ranks || heads_total == 0)
    return fail(Code::kInvalidArgument, fmt::format("rank {} of {} cannot hold a share of {} heads",
                                                    rank, ranks, heads_total));
  if (heads_total % ranks == 0) {
    const std::uint32_t count = heads_total / ranks;
    return HeadRange{rank * count, count};
  }
  if (ranks % heads_total == 0) return HeadRange{rank / (ranks / heads_total), 1};
  return fail(Code::kInvalidArgument,
              fmt::format("{} heads cannot be shared evenly by {} ranks", heads_total, ranks));
}

}  // namespace sluice::kv
