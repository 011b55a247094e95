// The hunt for torn reads: one writer that never rests, several readers, an arena of a few extents, so that every read
// races with the reuse of what it reads. Nothing is verified by checksum: the bytes speak for themselves.
#include <array>
#include <cstring>

#include <gtest/gtest.h>

#include "arena_process.h"

namespace sluice::crash {
namespace {

using store::key_named;

constexpr std::uint32_t kKeys = 4;
constexpr std::size_t kObjectBytes = 8 * 1024;
constexpr std::uint32_t kReaders = 3;

struct Board {
  std::atomic<std::uint64_t> reads, misses, torn, writes;
  std::atomic<bool> stop;
};

int write_without_rest(const ArenaProcess& arena, Board& board) {
  auto client = arena.client();
  const NamedTensorSpec spec{.name = "tensor",
                             .spec = {.dtype = DType::kU8, .shape = {kObjectBytes}}};
  for (std::uint32_t sequence = 1; !board.stop; ++sequence) {
    const Identity id{sequence % kKeys, sequence};
    const auto key = key_named(key_name(id.key));
    [[maybe_unused]] const auto removed = client->remove(key);
    // Some are written in place, as an engine does, some are copied in.
    if (sequence % 3 != 0) {
      const auto put =
          put_identity(*client, id, kObjectBytes, {.timeout = kPatience, .checksums = false});
      REQUIRE(put.has_value(), "{}", put.error().message);
    } else {
      auto writer =
          client->reserve(key, std::span(&spec, 1), {}, {.timeout = kPatience, .checksums = false});
      REQUIRE(writer && *writer, "{}", writer ? "duplicate" : writer.error().message);
      write(writer->data(0), id);
      REQUIRE(writer->publish().has_value());
    }
    ++board.writes;
  }
  return 0;
}

// `bytes` are an object's, while a lease on it stands or, in the planted fault, after it has ended.
bool whole(std::span<const std::byte> bytes, std::uint32_t key) noexcept {
  const auto identity = read_back(bytes.last(kObjectBytes));
  return identity && identity->key == key;
}

enum class Reader : std::uint8_t { kCorrect, kSkipsItsLease };

int read_without_rest(const ArenaProcess& arena, Board& board, std::uint64_t reads, Reader reader) {
  auto client = arena.client();
  std::vector<ObjectKey> keys;
  for (std::uint32_t i = 0; i < kKeys; ++i) keys.push_back(key_named(key_name(i)));
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  for (std::uint64_t i = 0; !board.stop; ++i) {
    const auto key = static_cast<std::uint32_t>(i % kKeys);
    auto lease = client->acquire(keys[key]);
    if (!lease) {
      ++misses;
      continue;
    }
    const auto bytes = lease->bytes();
    if (reader == Reader::kSkipsItsLease)
      lease->release();  // the mapping stays, the promise does not
    if (!whole(bytes, key)) {
      ++board.torn;
      if (reader == Reader::kSkipsItsLease) break;
    }
    if (++hits % 1024 == 0 && board.reads.fetch_add(1024) + 1024 >= reads) break;
  }
  board.misses += misses;
  board.stop = true;
  return 0;
}

store::DaemonOptions tiny() {
  return {.arena_bytes = 64u << 10, .objects_max = 16, .touch = false};
}

void hunt(Board& board, std::uint64_t reads, Reader reader) {
  ArenaProcess arena(tiny());
  arena.start();
  std::vector<Child> processes;
  processes.emplace_back([&] { return write_without_rest(arena, board); });
  for (std::uint32_t i = 0; i < kReaders; ++i) {
    processes.emplace_back([&] { return read_without_rest(arena, board, reads, reader); });
  }
  std::uint64_t shown = 0;
  const Instant give_up = deadline_after(
      now(), reader == Reader::kSkipsItsLease ? seconds(60) : std::chrono::hours(12));
  eventually(
      [&] {
        if (soak() && board.reads / 10'000'000 != shown) {
          shown = board.reads / 10'000'000;
          std::printf("%lu reads\n", board.reads.load()), std::fflush(stdout);
        }
        return board.stop.load() || now() >= give_up;
      },
      std::chrono::hours(24));
  board.stop = true;
  for (Child& process : processes) EXPECT_EQ(process.wait(), 0);
  std::printf("%lu reads, %lu misses, %lu writes, %lu torn\n", board.reads.load(),
              board.misses.load(), board.writes.load(), board.torn.load());
}

TEST(TornReads, NoneIsFoundUnderALease) {
  Shared<Board> board;
  const std::uint64_t reads = soak() ? 100'000'000 : 400'000;
  hunt(*board, reads, Reader::kCorrect);
  EXPECT_GE(board->reads, reads);
  EXPECT_GT(board->writes, 100u) << "nothing was reused, so nothing was shown";
  EXPECT_EQ(board->torn, 0u);
}

// The same hunt finds what it is for: a reader that looks at the bytes after its lease has ended.
TEST(TornReads, AreFoundWhenAReaderSkipsItsLease) {
  Shared<Board> board;
  hunt(*board, UINT64_MAX, Reader::kSkipsItsLease);
  EXPECT_GT(board->torn, 0u) << "the hunt cannot find a torn read";
}

}  // namespace
}  // namespace sluice::crash
