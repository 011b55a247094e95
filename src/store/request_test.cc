// One submission out of a page that its client may have filled with anything.
#include "store/request.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "store/test_arena.h"

namespace sluice::store {
namespace {

constexpr std::string_view kKey = "sluice1@tenant:default@model:m%2Fn@id:a-b_c.d~e";

std::unique_ptr<Submission> submission(Op op, std::string_view key = kKey) {
  auto s = std::make_unique<Submission>();
  s->op = static_cast<std::uint32_t>(op);
  s->key_bytes = static_cast<std::uint16_t>(key.size());
  const std::size_t mark = key.find("@id:");
  s->id_at = static_cast<std::uint16_t>(mark == std::string_view::npos ? 0 : mark + 4);
  std::ranges::copy(key, s->key.begin());
  return s;
}

TEST(Request, AGoodOneIsReadWhole) {
  auto s = submission(Op::kReserve);
  s->kind = 3;
  s->extent_bytes = 123;
  s->deadline_ns = 77;
  const auto r = read_request(*s, 9);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->number, 9u);
  EXPECT_EQ(r->op, Op::kReserve);
  EXPECT_EQ(r->kind, 3);
  EXPECT_EQ(r->extent_bytes, 123u);
  EXPECT_EQ(r->deadline_ns, 77u);
  EXPECT_EQ(r->key, kKey);
  EXPECT_EQ(r->prefix(), "sluice1@tenant:default@model:m%2Fn");
  EXPECT_EQ(r->id(), "a-b_c.d~e");
}

TEST(Request, UnknownOperationsKindsAndFlagsAreRefused) {
  for (const std::uint32_t op : {0u, 8u, 1000u, UINT32_MAX}) {
    auto s = submission(Op::kRemove);
    s->op = op;
    EXPECT_FALSE(read_request(*s, 1)) << op;
  }
  auto s = submission(Op::kRemove);
  s->kind = kKindsMax;
  EXPECT_FALSE(read_request(*s, 1));
  s = submission(Op::kRemove);
  s->flags = 256;
  EXPECT_FALSE(read_request(*s, 1));
}

TEST(Request, AKeyThatIsNoneIsRefusedWhereOneIsNeeded) {
  for (const Op op : {Op::kReserve, Op::kRemove, Op::kPin, Op::kPublish}) {
    for (const std::string_view key :
         {"id:a", "@id:a", "p@id:", "p@id", "p@ID:a", "p q@id:a", "p\n@id:a", "p\xC3\xA4@id:a"}) {
      EXPECT_FALSE(read_request(*submission(op, key), 1)) << static_cast<int>(op) << " " << key;
    }
    auto s = submission(op);
    s->key_bytes = kKeyBytesMax + 1;
    EXPECT_FALSE(read_request(*s, 1));
    for (const int shift : {-1, 1}) {
      s = submission(op);
      s->id_at = static_cast<std::uint16_t>(s->id_at + shift);
      EXPECT_FALSE(read_request(*s, 1)) << "the id does not begin there";
    }
  }
  EXPECT_FALSE(read_request(*submission(Op::kReserve, ""), 1));
  EXPECT_FALSE(read_request(*submission(Op::kInvalidate, ""), 1)) << "would end everything";
  EXPECT_TRUE(read_request(*submission(Op::kPublish, ""), 1)) << "the key stands in its slot";
  EXPECT_TRUE(read_request(*submission(Op::kGrant, ""), 1));
  EXPECT_TRUE(read_request(*submission(Op::kInvalidate, "sluice1@tenant:a"), 1))
      << "any prefix of a key's text";
}

TEST(Request, NoGarbageGetsPastTheLimits) {
  std::mt19937_64 random(test_seed());
  auto s = std::make_unique<Submission>();
  for (int i = 0; i < 20'000; ++i) {
    auto* words = reinterpret_cast<std::uint64_t*>(s.get());
    for (std::size_t w = 1; w < sizeof(Submission) / 8; ++w) words[w] = random();
    s->op = static_cast<std::uint32_t>(random() % 9);
    s->kind = static_cast<std::uint32_t>(random() % 9);
    s->flags = static_cast<std::uint32_t>(random() % 300);
    s->key_bytes = static_cast<std::uint16_t>(random() % 1100);
    if (random() % 2 == 0) std::ranges::fill(s->key, 'k');
    const std::size_t at = random() % 1000;
    if (random() % 2 == 0)
      std::memcpy(s->key.data() + at, "@id:", 4), s->id_at = static_cast<std::uint16_t>(at + 4);
    const auto r = read_request(*s, 1);
    if (!r) continue;
    ASSERT_LE(r->key.size(), kKeyBytesMax);
    ASSERT_LT(r->kind, kKindsMax);
    if (r->op == Op::kReserve || r->op == Op::kRemove || r->op == Op::kPin) {
      ASSERT_FALSE(r->id().empty());
      ASSERT_FALSE(r->prefix().empty());
      ASSERT_EQ(std::string(r->prefix()) + "@id:" + std::string(r->id()), r->key);
    }
  }
}

}  // namespace
}  // namespace sluice::store
