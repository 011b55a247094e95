#include "kv/paged_copy.h"

#include <cstring>

#include <fmt/format.h>

#include "base/checked.h"

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

Status check_transfer(std::size_t part_size, const Transfer& t) {
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

// The copy itself. `Out` reads the cache and writes the part, `In` the other way.
template <bool kGather>
class Copier {
 public:
  using Part = std::conditional_t<kGather, std::byte*, const std::byte*>;

  explicit Copier(const Transfer& transfer)
      : t_(transfer),
        head_bytes_(transfer.part.block_tokens * transfer.part.entry_bytes),
        block_bytes_(transfer.part.heads * head_bytes_) {}

  void run(Part part) const {
    for (const PagedLayer& layer : t_.layers) {
      for (std::uint32_t plane = 0; plane < t_.part.planes; ++plane) {
        copy_plane(part + t_.part_first_block * block_bytes_, layer,
                   layer.base + plane * layer.plane_stride);
        part += t_.part_blocks * block_bytes_;
      }
    }
  }

 private:
  static void move(Part part, std::byte* paged, std::uint64_t bytes) {
    if constexpr (kGather) {
      std::memcpy(part, paged, bytes);
    } else {
      std::memcpy(paged, part, bytes);
    }
  }

  bool whole_heads(const PagedLayer& layer) const {
    return layer.token_stride == t_.part.entry_bytes;
  }
  bool whole_blocks(const PagedLayer& layer) const {
    return whole_heads(layer) && layer.head_stride == head_bytes_ &&
           t_.heads.count == t_.part.heads && t_.heads.count == t_.paged.heads;
  }

  void copy_plane(Part part, const PagedLayer& layer, std::byte* plane) const {
    if (!whole_blocks(layer)) {
      for (const std::uint32_t id : t_.block_ids) {
        copy_block(part, layer, plane + id * layer.block_stride);
        part += block_bytes_;
      }
      return;
    }
    const bool adjacent = layer.block_stride == block_bytes_;
    for (std::size_t i = 0; i < t_.block_ids.size();) {
      std::size_t run = 1;
      while (adjacent && i + run < t_.block_ids.size() &&
             t_.block_ids[i + run] == t_.block_ids[i] + run) {
        ++run;
      }
      move(part, plane + t_.block_ids[i] * layer.block_stride, run * block_bytes_);
      part += run * block_bytes_;
      i += run;
    }
  }

  void copy_block(Part part, const PagedLayer& layer, std::byte* block) const {
    for (std::uint32_t h = 0; h < t_.heads.count; ++h) {
      const Part to = part + (t_.heads.part_first + h) * head_bytes_;
      std::byte* const head = block + (t_.heads.paged_first + h) * layer.head_stride;
      if (whole_heads(layer)) {
        move(to, head, head_bytes_);
        continue;
      }
      for (std::uint32_t token = 0; token < t_.part.block_tokens; ++token) {
        move(to + token * t_.part.entry_bytes, head + token * layer.token_stride,
             t_.part.entry_bytes);
      }
    }
  }

  const Transfer& t_;
  const std::uint64_t head_bytes_;
  const std::uint64_t block_bytes_;
};

}  // namespace

Status gather(std::span<std::byte> part, const Transfer& transfer) {
  if (auto s = check_transfer(part.size(), transfer); !s) return s;
  if (transfer.heads.count != transfer.part.heads) {
    return fail(Code::kInvalidArgument,
                fmt::format("a part of {} heads cannot be written from {} of them",
                            transfer.part.heads, transfer.heads.count));
  }
  Copier<true>(transfer).run(part.data());
  return {};
}

Status scatter(std::span<const std::byte> part, const Transfer& transfer) {
  if (auto s = check_transfer(part.size(), transfer); !s) return s;
  Copier<false>(transfer).run(part.data());
  return {};
}

}  // namespace sluice::kv
