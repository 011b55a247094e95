// Parts on their way through a real arena, beside a copy by hand.
#include "kv/part.h"

#include <algorithm>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "kv/test_cache.h"
#include "store/test_arena.h"

namespace sluice::kv {
namespace {

using store::key_named;
using store::TestArena;

Writer reserved(Client& client, std::string_view name, const Transfer& t) {
  const auto bytes = part_bytes(t.part, static_cast<std::uint32_t>(t.layers.size()), t.part_blocks);
  const NamedTensorSpec spec{
      .name = "kv",
      .spec = {.dtype = DType::kU8, .shape = {static_cast<std::int64_t>(bytes.value())}}};
  auto writer = client.reserve(key_named(name), std::span(&spec, 1));
  EXPECT_TRUE(writer && *writer);
  return std::move(*writer);
}

TEST(Part, EveryLayoutArrivesInTheOtherCacheVerified) {
  auto random = seeded();
  TestArena arena;
  auto prefill = arena.client();
  auto decode = arena.client();
  for (int round = 0; round < 40; ++round) {
    const BlockShape shape = random_shape(random);
    TestCache from(shape, 3, 20, random_order(random), random() % 3 * 5, random);
    TestCache to(shape, 3, 30, random_order(random), random() % 3 * 5, random);
    const auto source = some_blocks(20, 20, random);
    const Transfer out = whole(from, source);
    const std::string name = "part" + std::to_string(round);
    Writer writer = reserved(*prefill, name, out);
    ASSERT_TRUE(write_part(writer, 0, out));
    ASSERT_EQ(writer.publish(), PutOutcome::kPublished);

    const auto lease = decode->acquire(key_named(name));
    ASSERT_TRUE(lease);
    const TensorView tensor = lease->tensors()->front();
    const std::size_t skip = random() % 20;
    const auto target = some_blocks(30, 20 - skip, random);
    TestCache expected = to.copy();
    Transfer in = whole(to, target), by_hand = whole(expected, target);
    in.part_blocks = by_hand.part_blocks = 20;
    in.part_first_block = by_hand.part_first_block = skip;
    const auto part = lease->bytes().subspan(tensor.data_offset, tensor.data_bytes);
    ASSERT_TRUE(scatter(part, by_hand));
    ASSERT_TRUE(read_part(*lease, tensor, in, Verify::kOnce));
    EXPECT_TRUE(lease->verified());
    EXPECT_EQ(to.bytes(), expected.bytes());
    std::vector<std::byte> gathered(part.size());
    ASSERT_TRUE(gather(gathered, out));
    EXPECT_TRUE(std::ranges::equal(gathered, part));
  }
}

TEST(Part, ADamagedOneFailsAndItsDamageReachesNoBlock) {
  auto random = seeded();
  TestArena arena;
  auto prefill = arena.client();
  auto decode = arena.client();
  const BlockShape shape{.planes = 1, .heads = 2, .block_tokens = 16, .entry_bytes = 256};
  TestCache from(shape, 4, 64, Order::kBlockHeadToken, 0, random);
  TestCache to(shape, 4, 64, Order::kBlockTokenHead, 0, random);
  const auto ids = some_blocks(64, 64, random);
  const Transfer out = whole(from, ids), in = whole(to, ids);
  Writer writer = reserved(*prefill, "damaged", out);
  ASSERT_TRUE(write_part(writer, 0, out));
  ASSERT_EQ(writer.publish(), PutOutcome::kPublished);
  const auto lease = decode->acquire(key_named("damaged"));
  ASSERT_TRUE(lease);
  const TensorView tensor = lease->tensors()->front();
  const std::uint64_t layer_bytes = tensor.data_bytes / 4;
  const auto at = lease->descriptor().offset + tensor.data_offset + 3 * layer_bytes + 1;
  const UniqueFd file(::open((arena.directory() + "/data.0").c_str(), O_RDWR | O_CLOEXEC));
  const std::byte wrong = ~lease->bytes()[tensor.data_offset + 3 * layer_bytes + 1];
  ASSERT_EQ(::pwrite(file.get(), &wrong, 1, static_cast<off_t>(at)), 1);

  const auto before = to.bytes();
  const Status failed = read_part(*lease, tensor, in, Verify::kOnce);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kCorrupt);
  EXPECT_FALSE(lease->verified());
  EXPECT_EQ(to.bytes()[3], before[3]) << "of the layer that lies in the damaged chunk";
}

TEST(Part, WhatDoesNotFitIsRefusedBeforeAByteMoves) {
  auto random = seeded();
  TestArena arena;
  auto client = arena.client();
  const BlockShape shape{.planes = 1, .heads = 2, .block_tokens = 3, .entry_bytes = 4};
  TestCache cache(shape, 2, 4, Order::kBlockHeadToken, 0, random);
  const auto ids = some_blocks(4, 3, random);
  const Transfer good = whole(cache, ids);
  Writer writer = reserved(*client, "fits", good);
  Transfer less = good;
  less.block_ids = less.block_ids.first(2);
  EXPECT_EQ(write_part(writer, 0, less).error().code, Code::kInvalidArgument);
  less.part_blocks = 2;
  EXPECT_EQ(write_part(writer, 0, less).error().code, Code::kInvalidArgument);
  EXPECT_EQ(write_part(writer, 1, good).error().code, Code::kInvalidArgument);
  ASSERT_TRUE(write_part(writer, 0, good));
  ASSERT_EQ(writer.publish(), PutOutcome::kPublished);
  const auto lease = client->acquire(key_named("fits"));
  ASSERT_TRUE(lease);
  const auto before = cache.bytes();
  EXPECT_EQ(read_part(*lease, lease->tensors()->front(), less, Verify::kOnce).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(cache.bytes(), before);
}

}  // namespace
}  // namespace sluice::kv
