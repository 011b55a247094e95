// Copies between objects and memory that does not lie in one piece, with a real daemon loop.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <random>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/unique_fd.h"
#include "store/test_arena.h"

namespace sluice::store {
namespace {

constexpr std::byte kGuard{0xA5};

NamedTensorSpec bytes_spec(std::size_t bytes, std::string name = "tensor") {
  return {.name = std::move(name),
          .spec = {.dtype = DType::kU8, .shape = {static_cast<std::int64_t>(bytes)}}};
}

// Gives `runs` in batches of one to five.
RunSource source_of(std::vector<MemoryRun> runs, std::uint64_t seed = 1) {
  return [runs = std::move(runs), at = std::size_t{0}, random = std::mt19937_64(seed)]() mutable {
    const std::size_t count = std::min<std::size_t>(1 + random() % 5, runs.size() - at);
    const std::span<const MemoryRun> batch(runs.data() + at, count);
    at += count;
    return batch;
  };
}

// MemoryRun lengths from a byte to a chunk and more, `bytes` in all.
std::vector<std::uint64_t> lengths(std::uint64_t bytes, std::mt19937_64& random) {
  std::vector<std::uint64_t> out;
  while (bytes != 0) {
    const std::uint64_t most = std::array<std::uint64_t, 4>{9, 700, 9000, 400'000}[random() % 4];
    out.push_back(std::min(1 + random() % most, bytes));
    bytes -= out.back();
  }
  return out;
}

// The runs that make up `data`, one behind the other.
std::vector<MemoryRun> runs_over(std::vector<std::byte>& data,
                                 const std::vector<std::uint64_t>& sizes) {
  std::vector<MemoryRun> out;
  std::uint64_t at = 0;
  for (const std::uint64_t size : sizes) {
    out.push_back({.offset = at, .memory = data.data() + at, .bytes = size});
    at += size;
  }
  return out;
}

Lease acquired(Client& client, std::string_view name) {
  auto lease = client.acquire(key_named(name));
  EXPECT_TRUE(lease) << lease.error().message;
  return lease ? std::move(*lease) : Lease();
}

// Flips a bit of the object's byte `at`, as a broken machine would.
void damage(const TestArena& arena, const Lease& lease, std::uint64_t at) {
  const UniqueFd fd(
      ::open((arena.directory() + "/data." + std::to_string(lease.descriptor().segment)).c_str(),
             O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(fd);
  const auto offset = static_cast<off_t>(lease.descriptor().offset + at);
  std::byte byte{};
  ASSERT_EQ(::pread(fd.get(), &byte, 1, offset), 1);
  byte ^= std::byte{4};
  ASSERT_EQ(::pwrite(fd.get(), &byte, 1, offset), 1);
}

TEST(Runs, AnObjectThatWasFilledIsTheOneThatAPutMakes) {
  std::mt19937_64 random(test_seed());
  TestArena arena;
  auto client = arena.client();
  for (const std::size_t bytes : {1ul, 320ul, kChunkBytes - 320, kChunkBytes, 1'500'007ul}) {
    const std::string name = "filled" + std::to_string(bytes);
    auto data = pattern(bytes, bytes);
    const auto spec = bytes_spec(bytes);
    auto writer = client->reserve(key_named(name), std::span(&spec, 1));
    ASSERT_TRUE(writer && *writer);
    const auto filled =
        writer->fill(0, source_of(runs_over(data, lengths(bytes, random)), random()));
    ASSERT_TRUE(filled) << filled.error().message;
    ASSERT_EQ(writer->publish(), PutOutcome::kPublished);
    const Lease lease = acquired(*client, name);
    EXPECT_TRUE(holds(lease, data)) << bytes;
    EXPECT_TRUE(lease.verify(Verify::kAlways)) << bytes;
    // Its digests are those of a put: other ones would be called divergent.
    EXPECT_EQ(put_bytes(*client, name, data), PutOutcome::kDuplicate) << bytes;
  }
}

TEST(Runs, OneTensorOfSeveralIsFilledAroundWhatStandsAlready) {
  TestArena arena;
  auto client = arena.client();
  auto first = pattern(300'001, 1), second = pattern(500'003, 2);
  const std::array specs{bytes_spec(first.size(), "a"), bytes_spec(second.size(), "b")};
  auto writer = client->reserve(key_named("two"), specs);
  ASSERT_TRUE(writer && *writer);
  std::ranges::copy(second, writer->data(1).begin());
  ASSERT_TRUE(writer->fill(0, source_of({{0, first.data(), first.size()}})));
  ASSERT_EQ(writer->publish(), PutOutcome::kPublished);
  const Lease lease = acquired(*client, "two");
  ASSERT_TRUE(lease.verify(Verify::kAlways));
  const auto tensors = lease.tensors();
  ASSERT_TRUE(tensors && tensors->size() == 2);
  std::vector<std::byte> out(second.size(), kGuard);
  ASSERT_TRUE(lease.copy_runs((*tensors)[1], source_of({{0, out.data(), out.size()}})));
  EXPECT_EQ(out, second);
}

TEST(Runs, WhatIsWrittenAfterAFillIsFoundOutByTheReader) {
  TestArena arena;
  auto client = arena.client();
  auto data = pattern(2 * kChunkBytes, 3);
  const auto spec = bytes_spec(data.size());
  auto writer = client->reserve(key_named("late"), std::span(&spec, 1));
  ASSERT_TRUE(writer && *writer);
  ASSERT_TRUE(writer->fill(0, source_of({{0, data.data(), data.size()}})));
  writer->data(0)[kChunkBytes + 5] ^= std::byte{1};
  ASSERT_EQ(writer->publish(), PutOutcome::kPublished);
  EXPECT_EQ(client->get(key_named("late")).error().code, Code::kCorrupt);
}

TEST(Runs, AFillWithAGapIsRefusedAndPublishStandsForWhatIsThere) {
  TestArena arena;
  auto client = arena.client();
  auto data = pattern(1000, 4);
  const auto spec = bytes_spec(data.size());
  auto writer = client->reserve(key_named("gap"), std::span(&spec, 1));
  ASSERT_TRUE(writer && *writer);
  const auto refused = [&](std::size_t tensor, std::vector<MemoryRun> runs) {
    const auto filled = writer->fill(tensor, source_of(std::move(runs)));
    return !filled && filled.error().code == Code::kInvalidArgument;
  };
  std::byte* const at = data.data();
  EXPECT_TRUE(refused(0, {}));
  EXPECT_TRUE(refused(0, {{0, at, 999}}));
  EXPECT_TRUE(refused(0, {{0, at, 1001}}));
  EXPECT_TRUE(refused(0, {{0, at, 400}, {401, at, 599}}));
  EXPECT_TRUE(refused(0, {{0, at, 400}, {399, at, 600}}));
  EXPECT_TRUE(refused(0, {{1, at, 1000}}));
  EXPECT_TRUE(refused(0, {{0, at, 400}, {400, at, ~std::uint64_t{0}}}));
  EXPECT_TRUE(refused(1, {{0, at, 1000}}));
  std::ranges::copy(data, writer->data(0).begin());
  EXPECT_EQ(writer->publish(), PutOutcome::kPublished);
  EXPECT_EQ(writer->fill(0, source_of({{0, at, 1000}})).error().code, Code::kDetached);
  const Lease lease = acquired(*client, "gap");
  EXPECT_TRUE(lease.verify(Verify::kAlways));
  EXPECT_TRUE(holds(lease, data));
}

TEST(Runs, ExactlyTheBytesThatWereNamedArriveAndTheObjectCountsAsVerified) {
  std::mt19937_64 random(test_seed());
  TestArena arena;
  auto client = arena.client();
  const auto data = pattern(1'700'001, 5);
  ASSERT_EQ(put_bytes(*client, "out", data), PutOutcome::kPublished);
  for (int round = 0; round < 20; ++round) {
    auto reader = arena.client();
    const Lease lease = acquired(*reader, "out");
    const auto tensors = lease.tensors();
    ASSERT_TRUE(tensors);
    std::vector<std::byte> to(data.size(), kGuard);
    std::vector<std::byte> expected = to;
    std::vector<MemoryRun> runs;
    for (const MemoryRun& run : runs_over(to, lengths(data.size(), random))) {
      if (random() % 3 == 0) continue;
      runs.push_back(run);
      std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(run.offset), run.bytes,
                  expected.begin() + static_cast<std::ptrdiff_t>(run.offset));
    }
    ASSERT_FALSE(lease.verified());
    ASSERT_TRUE(lease.copy_runs(tensors->front(), source_of(runs, random())));
    EXPECT_TRUE(lease.verified());
    EXPECT_EQ(to, expected);
    // Once more, without checking.
    std::ranges::fill(to, kGuard);
    ASSERT_TRUE(lease.copy_runs(tensors->front(), source_of(runs, random())));
    EXPECT_EQ(to, expected);
  }
}

TEST(Runs, NoByteOfADamagedChunkIsCopied) {
  TestArena arena;
  auto writer = arena.client();
  const auto data = pattern(4 * kChunkBytes, 6);
  ASSERT_EQ(put_bytes(*writer, "bad", data), PutOutcome::kPublished);
  auto reader = arena.client();
  const Lease lease = acquired(*reader, "bad");
  const auto tensor = lease.tensors()->front();
  const std::uint64_t start = 2 * kChunkBytes - tensor.data_offset;  // of the third chunk
  damage(arena, lease, 3 * kChunkBytes - 1);
  std::vector<std::byte> to(data.size(), kGuard);
  const auto whole = [&] { return source_of({{0, to.data(), to.size()}}); };
  const auto failed = lease.copy_runs(tensor, whole());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kCorrupt);
  EXPECT_FALSE(lease.verified());
  EXPECT_TRUE(std::all_of(to.begin() + static_cast<std::ptrdiff_t>(start), to.end(),
                          [](std::byte b) { return b == kGuard; }));
  // Nor when nothing is wanted from that chunk: the object is not what was published.
  EXPECT_FALSE(lease.copy_runs(tensor, source_of({{0, to.data(), 100}}), Verify::kAlways));
  EXPECT_TRUE(lease.copy_runs(tensor, whole(), Verify::kNever));
  EXPECT_NE(to, data);
}

TEST(Runs, RunsThatGoBackOrPastTheEndAreRefused) {
  TestArena arena;
  auto client = arena.client();
  const auto data = pattern(1000, 7);
  ASSERT_EQ(put_bytes(*client, "order", data), PutOutcome::kPublished);
  std::vector<std::byte> to(3000, kGuard);
  const auto code = [&](std::vector<MemoryRun> runs) {
    const Lease lease = acquired(*client, "order");
    const auto copied =
        lease.copy_runs(lease.tensors()->front(), source_of(std::move(runs)), Verify::kAlways);
    return copied ? std::nullopt : std::optional(copied.error().code);
  };
  EXPECT_EQ(code({{900, to.data(), 101}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{1, to.data(), ~std::uint64_t{0}}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{~std::uint64_t{0}, to.data(), 2}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{100, to.data(), 100}, {199, to.data(), 1}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{100, to.data(), 100}, {1000, to.data(), 1}}), Code::kInvalidArgument);
  const Lease lease = acquired(*client, "order");
  TensorView outside = lease.tensors()->front();
  outside.data_bytes += 1;
  EXPECT_EQ(lease.copy_runs(outside, source_of({})).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Lease().copy_runs(outside, source_of({})).error().code, Code::kDetached);
}

TEST(Runs, ObjectsWithoutChecksumsAreCopiedAllTheSame) {
  TestArena arena;
  auto client = arena.client();
  auto data = pattern(1'200'000, 8);
  const auto spec = bytes_spec(data.size());
  auto writer = client->reserve(key_named("plain"), std::span(&spec, 1), {}, {.checksums = false});
  ASSERT_TRUE(writer && *writer);
  std::mt19937_64 random(test_seed());
  ASSERT_TRUE(writer->fill(0, source_of(runs_over(data, lengths(data.size(), random)))));
  ASSERT_EQ(writer->publish(), PutOutcome::kPublished);
  const Lease lease = acquired(*client, "plain");
  EXPECT_FALSE(lease.has_checksums());
  std::vector<std::byte> to(data.size());
  ASSERT_TRUE(lease.copy_runs(lease.tensors()->front(),
                              source_of(runs_over(to, lengths(to.size(), random)))));
  EXPECT_EQ(to, data);
}

}  // namespace
}  // namespace sluice::store
