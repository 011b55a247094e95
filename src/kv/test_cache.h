// test_cache.h: for tests: paged caches of random content in any layout, and the format of a part
// written down once more, entry by entry.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kv/paged_copy.h"

namespace sluice::kv {

inline std::mt19937_64 seeded() {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device{}();
  std::cout << "SLUICE_TEST_SEED=" << seed << "\n";
  return std::mt19937_64(seed);
}

// Which of the four indices moves slowest, ..., fastest.
enum class Order { kBlockHeadToken, kBlockTokenHead, kHeadBlockToken, kPlaneInside };

inline Order random_order(std::mt19937_64& random) {
  return static_cast<Order>(random() % 4);
}

// From entries of a byte to blocks of several KiB, so that every width of copying has its turn.
inline BlockShape random_shape(std::mt19937_64& random) {
  constexpr std::array<std::uint64_t, 9> kEntryBytes{1, 6, 16, 24, 64, 100, 256, 320, 1040};
  return {.planes = 1 + static_cast<std::uint32_t>(random() % 2),
          .heads = 1 + static_cast<std::uint32_t>(random() % 4),
          .block_tokens = 1 + static_cast<std::uint32_t>(random() % 9),
          .entry_bytes = kEntryBytes[random() % kEntryBytes.size()]};
}

// A cache of several layers with guard bytes around and between everything.
class TestCache {
 public:
  TestCache(BlockShape shape, std::uint32_t layers, std::uint32_t blocks, Order order,
            std::uint64_t gap, std::mt19937_64& random)
      : shape_(shape) {
    const std::uint64_t entry = shape.entry_bytes;
    PagedLayer layout{.blocks = blocks};
    std::uint64_t size = 0;
    switch (order) {
      case Order::kBlockHeadToken:
        layout.token_stride = entry;
        layout.head_stride = shape.block_tokens * entry;
        layout.block_stride = shape.heads * layout.head_stride + gap;
        layout.plane_stride = blocks * layout.block_stride;
        size = shape.planes * layout.plane_stride;
        break;
      case Order::kBlockTokenHead:
        layout.head_stride = entry;
        layout.token_stride = shape.heads * entry;
        layout.block_stride = shape.block_tokens * layout.token_stride + gap;
        layout.plane_stride = blocks * layout.block_stride;
        size = shape.planes * layout.plane_stride;
        break;
      case Order::kHeadBlockToken:
        layout.token_stride = entry;
        layout.block_stride = shape.block_tokens * entry + gap;
        layout.head_stride = blocks * layout.block_stride;
        layout.plane_stride = shape.heads * layout.head_stride;
        size = shape.planes * layout.plane_stride;
        break;
      case Order::kPlaneInside:
        layout.token_stride = entry;
        layout.plane_stride = shape.block_tokens * entry;
        layout.head_stride = shape.planes * layout.plane_stride;
        layout.block_stride = shape.heads * layout.head_stride + gap;
        size = blocks * layout.block_stride;
        break;
    }
    bytes_.resize(layers);
    for (auto& layer : bytes_) {
      layer.resize(size);
      std::ranges::generate(layer, [&] { return std::byte(random()); });
      layout.base = layer.data();
      layout.bytes = size;
      layers_.push_back(layout);
    }
  }

  TestCache(TestCache&&) = default;

  std::byte* entry(std::uint32_t layer, std::uint32_t plane, std::uint32_t block,
                   std::uint32_t head, std::uint32_t token) {
    const PagedLayer& l = layers_.at(layer);
    return l.base + plane * l.plane_stride + block * l.block_stride + head * l.head_stride +
           token * l.token_stride;
  }

  TestCache copy() const {
    TestCache out(*this);
    for (std::size_t i = 0; i < out.layers_.size(); ++i) out.layers_[i].base = out.bytes_[i].data();
    return out;
  }

  const BlockShape& shape() const { return shape_; }
  std::span<const PagedLayer> layers() const { return layers_; }
  const std::vector<std::vector<std::byte>>& bytes() const { return bytes_; }

 private:
  TestCache(const TestCache&) = default;

  BlockShape shape_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<PagedLayer> layers_;
};

inline std::vector<std::uint32_t> some_blocks(std::uint32_t blocks, std::size_t count,
                                              std::mt19937_64& random) {
  std::vector<std::uint32_t> ids(blocks);
  std::iota(ids.begin(), ids.end(), 0u);
  if (random() % 2 == 0) std::ranges::shuffle(ids, random);  // otherwise neighbours
  ids.resize(count);
  return ids;
}

inline Transfer whole(const TestCache& cache, std::span<const std::uint32_t> ids) {
  return {.part = cache.shape(),
          .paged = cache.shape(),
          .layers = cache.layers(),
          .block_ids = ids,
          .part_blocks = ids.size(),
          .heads = {0, 0, cache.shape().heads}};
}

// Some heads of a part of `written` blocks, from some block on: what other tensor-parallel sizes and
// prefix caches ask a scatter for. `ids` keeps the blocks.
inline Transfer some_heads(const TestCache& cache, const BlockShape& written,
                           std::vector<std::uint32_t>& ids, std::mt19937_64& random) {
  const std::uint32_t cache_heads = cache.shape().heads;
  const std::uint64_t blocks = 1 + random() % cache.layers().front().blocks;
  const std::uint64_t skip = random() % blocks;
  ids = some_blocks(cache.layers().front().blocks, blocks - skip, random);
  Transfer t = whole(cache, ids);
  t.part = written;
  t.part_blocks = blocks;
  t.part_first_block = skip;
  t.heads.count = 1 + static_cast<std::uint32_t>(random() % std::min(written.heads, cache_heads));
  t.heads.part_first = static_cast<std::uint32_t>(random() % (written.heads - t.heads.count + 1));
  t.heads.paged_first = static_cast<std::uint32_t>(random() % (cache_heads - t.heads.count + 1));
  return t;
}

inline std::vector<std::byte> part_for(const Transfer& t) {
  return std::vector<std::byte>(
      part_bytes(t.part, static_cast<std::uint32_t>(t.layers.size()), t.part_blocks).value());
}

inline std::vector<std::byte> random_part_for(const Transfer& t, std::mt19937_64& random) {
  std::vector<std::byte> part = part_for(t);
  std::ranges::generate(part, [&] { return std::byte(random()); });
  return part;
}

inline const std::byte* dense_entry(const std::vector<std::byte>& part, const Transfer& t,
                                    std::uint32_t layer, std::uint32_t plane, std::uint64_t block,
                                    std::uint32_t head, std::uint32_t token) {
  std::uint64_t at = layer;
  at = at * t.part.planes + plane;
  at = at * t.part_blocks + block;
  at = at * t.part.heads + head;
  at = at * t.part.block_tokens + token;
  return part.data() + at * t.part.entry_bytes;
}

}  // namespace sluice::kv
