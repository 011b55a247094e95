#include "base/checksum.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice {
namespace {

std::vector<std::byte> random_bytes(std::size_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> out(n);
  for (auto& b : out) b = static_cast<std::byte>(random());
  return out;
}

TEST(Checksum, CopyAndHashEqualsCopyThenHashAtEverySizeAndAlignment) {
  for (const std::size_t n : {0ul, 1ul, 31ul, 240ul, 8191ul, 8192ul, kChunkBytes - 1, kChunkBytes,
                              kChunkBytes + 1, 3 * kChunkBytes + 77}) {
    for (const std::size_t shift : {0ul, 1ul, 16ul}) {
      const auto from = random_bytes(n, 7);
      std::vector<std::byte> to(n + shift + 8, std::byte{0xAA});
      std::vector<std::uint64_t> fused(chunk_count(n)), plain(chunk_count(n));
      copy_and_hash(std::span(to).subspan(shift, n), from, fused);
      hash_chunks(from, plain);
      EXPECT_EQ(fused, plain) << n;
      EXPECT_TRUE(n == 0 || std::memcmp(to.data() + shift, from.data(), n) == 0) << n;
      EXPECT_EQ(to[n + shift], std::byte{0xAA}) << "wrote past the end";
    }
  }
}

TEST(Checksum, CopyBytesCopiesAllAndNothingElseAtEverySizeAndAlignment) {
  constexpr std::size_t kMiB = 1024 * 1024;  // about where copies begin to go past the caches
  for (const std::size_t n :
       {0ul, 1ul, 31ul, 4096ul, kMiB - 1, kMiB, kMiB + 1, 2 * kMiB + 127, 3 * kMiB + 129}) {
    for (const std::size_t to_shift : {0ul, 1ul, 31ul, 32ul}) {
      const std::size_t from_shift = (to_shift + 5) % 33;
      const auto from = random_bytes(n + from_shift, 13);
      std::vector<std::byte> to(n + to_shift + 64, std::byte{0xAA});
      copy_bytes(std::span(to).subspan(to_shift, n), std::span(from).subspan(from_shift));
      EXPECT_TRUE(std::equal(from.begin() + from_shift, from.end(), to.begin() + to_shift))
          << n << " at " << to_shift;
      const auto untouched = [](std::byte b) { return b == std::byte{0xAA}; };
      EXPECT_TRUE(std::all_of(to.begin(), to.begin() + to_shift, untouched))
          << "wrote before the start";
      EXPECT_TRUE(std::all_of(to.end() - 64, to.end(), untouched)) << "wrote past the end";
    }
  }
}

TEST(Checksum, ChunkDigestIsPlainXxh3OfTheChunk) {
  const auto from = random_bytes(kChunkBytes + 5, 9);
  std::vector<std::uint64_t> digests(2);
  hash_chunks(from, digests);
  EXPECT_EQ(digests[0], hash64(std::span(from).first(kChunkBytes)));
  EXPECT_EQ(digests[1], hash64(std::span(from).last(5)));
}

TEST(Checksum, PiecesHashLikeTheWholeTheyMake) {
  const auto whole = random_bytes(2 * kChunkBytes + 1000, 11);
  for (const std::size_t head : {0ul, 320ul, kChunkBytes - 1, kChunkBytes, kChunkBytes + 320}) {
    std::vector<std::byte> to(whole.size());
    std::memcpy(to.data(), whole.data(), head);
    const Piece pieces[] = {
        {.bytes = head},
        {.bytes = 100, .from = whole.data() + head},
        {.bytes = whole.size() - head - 100, .from = whole.data() + head + 100}};
    std::vector<std::uint64_t> digests(3), plain(3);
    copy_pieces_and_hash(to, pieces, digests);
    hash_chunks(whole, plain);
    EXPECT_EQ(digests, plain) << head;
    EXPECT_EQ(to, whole) << head;
  }
}

TEST(Checksum, PiecesOfAnySizeInAnyOrderOfCallsMakeTheWhole) {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const auto seed = given != nullptr ? std::stoull(given) : std::random_device{}();
  std::printf("SLUICE_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  const auto whole = random_bytes(3 * kChunkBytes + 777, 17);
  std::vector<std::uint64_t> plain(4);
  hash_chunks(whole, plain);
  for (int round = 0; round < 40; ++round) {
    // Some of the bytes stand in place, the rest is to be copied.
    std::vector<std::byte> memory(whole.size() + 64, std::byte{0xAA});
    const auto to = std::span(memory).subspan(random() % 2 == 0 ? 0 : random() % 64, whole.size());
    std::vector<std::uint64_t> digests(4);
    CopyAndHash copy(to, digests);
    for (std::size_t at = 0; at < whole.size();) {
      const std::size_t most = std::array<std::size_t, 5>{1, 80, 2000, 8192, 300'000}[random() % 5];
      const std::size_t n = std::min(1 + random() % most, whole.size() - at);
      const bool in_place = random() % 4 == 0;
      if (in_place) std::memcpy(to.data() + at, whole.data() + at, n);
      copy.add({.bytes = n, .from = in_place ? nullptr : whole.data() + at});
      at += n;
    }
    EXPECT_EQ(copy.left(), 0u);
    copy.finish();
    EXPECT_EQ(digests, plain);
    EXPECT_TRUE(std::ranges::equal(to, whole));
  }
}

TEST(Checksum, RunsAreCopiedWholeAndNothingElseIsTouched) {
  const auto from = random_bytes(3 << 20, 19);
  for (const std::uint64_t total : {std::uint64_t{0}, std::uint64_t{1} << 30}) {
    std::vector<std::byte> to(from.size(), std::byte{0xAA});
    std::vector<std::byte> expected = to;
    std::vector<CopyRun> runs;
    std::size_t at = 0;
    for (const std::size_t n :
         {0ul, 1ul, 31ul, 1023ul, 1024ul, 1025ul, 4099ul, 65'536ul, 1ul << 20}) {
      at += 7;  // a gap, and another alignment on each side
      runs.push_back({.to = to.data() + at, .from = from.data() + at + 3, .bytes = n});
      std::memcpy(expected.data() + at, from.data() + at + 3, n);
      at += n;
    }
    copy_runs(runs, total);
    EXPECT_EQ(to, expected) << total;
  }
}

TEST(Checksum, KnownValueOfTheEmptyInput) {
  EXPECT_EQ(hash64({}), 0x2D06800538D394C2ull);
}

}  // namespace
}  // namespace sluice
