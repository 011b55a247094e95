// Writers that were stopped, leases that outlive the daemon, stray writes, forks: nobody's bytes change under anybody.
#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "arena_process.h"

namespace sluice::crash {
namespace {

using store::key_named;

constexpr std::size_t kMiB = 1u << 20;

// Fills what is left of the arena with pinned objects of 64 KiB, keys from `first` on. Returns how many there were.
std::uint32_t fill(Client& client, std::uint32_t first) {
  for (std::uint32_t key = first;; ++key) {
    const auto put =
        put_identity(client, {key, 1}, 65'000, {.timeout = milliseconds(500), .hard_pin = true});
    if (put) continue;
    EXPECT_EQ(put.error().code, Code::kOutOfSpace) << put.error().message;
    return key - first;
  }
}

void expect_all_whole(Client& client, std::uint32_t first, std::uint32_t count) {
  for (std::uint32_t key = first; key < first + count; ++key) {
    auto lease = client.get(key_named(key_name(key)), Verify::kAlways);
    ASSERT_TRUE(lease) << lease.error().message;
    EXPECT_EQ(identity_of(*lease), (Identity{key, 1}));
  }
}

TEST(PausedWriter, ContinuedAfterItsKeyExpiredItChangesNobodysBytes) {
  struct Board {
    std::atomic<std::uint64_t> passes;
    std::atomic<bool> finish;
    std::atomic<int> code;
  };
  Shared<Board> board;
  ArenaProcess arena({.arena_bytes = 4 * kMiB, .objects_max = 200, .touch = false});
  arena.start();
  constexpr std::uint32_t kLate = 1;
  Child writer([&] {
    auto client = arena.client();
    const NamedTensorSpec spec{.name = "tensor", .spec = {.dtype = DType::kU8, .shape = {kMiB}}};
    auto late = client->reserve(key_named(key_name(kLate)), std::span(&spec, 1), {},
                                {.write_timeout = milliseconds(30)});
    REQUIRE(late && *late);
    while (!board->finish) {
      write(late->data(0), {kLate, static_cast<std::uint32_t>(board->passes)});
      ++board->passes;
    }
    const auto outcome = late->publish();
    board->code = outcome ? -1 : static_cast<int>(outcome.error().code);
    return 0;
  });
  ASSERT_TRUE(eventually([&] { return board->passes >= 2; }));
  writer.signal(SIGSTOP);
  {
    auto client = arena.client();
    const auto key = key_named(key_name(kLate));
    ASSERT_TRUE(eventually([&] { return client->lookup(key) == Presence::kAbsent; }));
    // The key is free: somebody else writes it, and everything else that the arena has room for.
    ASSERT_EQ(put_identity(*client, {kLate, 1}, 65'000, {.hard_pin = true}),
              PutOutcome::kPublished);
    const std::uint32_t filled = fill(*client, 100);
    EXPECT_GT(filled, 30u);
    EXPECT_LT(filled, 48u) << "the stopped writer's megabyte was given away";

    const std::uint64_t before = board->passes;
    writer.signal(SIGCONT);
    ASSERT_TRUE(eventually([&] { return board->passes >= before + 5; }));
    expect_all_whole(*client, 100, filled);
    expect_all_whole(*client, kLate, 1);
    board->finish = true;
    EXPECT_EQ(writer.wait(), 0);
    EXPECT_EQ(board->code, static_cast<int>(Code::kConflict)) << "another object has its key now";
    expect_all_whole(*client, 100, filled);
    EXPECT_EQ(fill(*client, 200), 16u) << "its word that it stopped gives the megabyte back";
  }
  expect_nothing_left(arena);
}

TEST(Restart, LeasesAndReservationsOfTheLivingOutliveTheDaemon) {
  struct Board {
    std::atomic<bool> ready, release, released, publish;
  };
  Shared<Board> board;
  ArenaProcess arena({.arena_bytes = 4 * kMiB, .objects_max = 200, .touch = false});
  arena.start();
  Child engine([&] {
    auto client = arena.client();
    REQUIRE(put_identity(*client, {1, 1}, kMiB, {}).has_value());
    auto lease = client->get(key_named(key_name(1)));
    REQUIRE(lease.has_value());
    const NamedTensorSpec spec{.name = "tensor", .spec = {.dtype = DType::kU8, .shape = {kMiB}}};
    // Pinned: the arena is full when it is published, and the daemon evicts above its watermark.
    auto writer =
        client->reserve(key_named(key_name(2)), std::span(&spec, 1), {}, {.hard_pin = true});
    REQUIRE(writer && *writer);
    board->ready = true;
    while (!board->release) {
      write(writer->data(0), {2, 1});
      REQUIRE(identity_of(*lease) == (Identity{1, 1}), "bytes changed under a lease");
    }
    lease->release();
    board->released = true;
    REQUIRE(eventually([&] { return board->publish.load(); }));
    const auto outcome = writer->publish();
    REQUIRE(outcome == PutOutcome::kPublished, "{}",
            outcome ? std::string() : outcome.error().message);
    return 0;
  });
  ASSERT_TRUE(eventually([&] { return board->ready.load(); }));
  for (int restart = 0; restart < 3; ++restart) {
    arena.kill_daemon();
    arena.start();
  }
  {
    auto client = arena.client();
    ASSERT_TRUE(client->remove(key_named(key_name(1))));
    EXPECT_EQ(client->lookup(key_named(key_name(2))), Presence::kPending);
    const std::uint32_t filled = fill(*client, 100);
    EXPECT_GT(filled, 20u);
    EXPECT_LT(filled, 32u) << "leased or reserved bytes were given away";
    arena.kill_daemon();
    arena.start();
    board->release = true;
    ASSERT_TRUE(eventually([&] { return board->released.load(); }));
    EXPECT_EQ(fill(*client, 200), 16u) << "what was leased is free now";
    board->publish = true;
    EXPECT_EQ(engine.wait(), 0);
    expect_all_whole(*client, 100, filled);
    expect_all_whole(*client, 200, 16);
    expect_all_whole(*client, 2, 1);
  }
  expect_nothing_left(arena);
}

TEST(StrayWrite, OfOneEngineIsSeenByNobodyAndNotByItselfInTheNextObject) {
  ArenaProcess arena(
      {.arena_bytes = kMiB, .objects_max = 20, .reserved_bytes_per_client = kMiB, .touch = false});
  arena.start();
  Child engine([&] {
    auto client = arena.client();
    for (std::uint32_t sequence = 1; sequence <= 50; ++sequence) {
      // Nearly the whole arena, so that every object takes the pages of the one before it.
      REQUIRE(put_identity(*client, {1, sequence}, 800'000, {}).has_value());
      auto lease = client->get(key_named(key_name(1)), Verify::kNever);
      REQUIRE(lease.has_value());
      const auto mine = lease->private_bytes();
      REQUIRE(std::memcmp(mine.data(), lease->bytes().data(), mine.size()) == 0,
              "a stale page in object {}", sequence);
      std::ranges::fill(mine, std::byte{0xEE});
      REQUIRE(identity_of(*lease) == (Identity{1, sequence}), "a stray write reached the arena");
      lease->release();
      REQUIRE(client->remove(key_named(key_name(1))).has_value());
    }
    return 0;
  });
  EXPECT_EQ(engine.wait(), 0);
  expect_nothing_left(arena);
}

// Threads put and get while the main thread forks: a child finds its handles detached, at once, and its own memory is not
// touched when it drops them.
TEST(Fork, UnderLoadTheChildIsDetachedAtOnceAndTheParentGoesOn) {
  ArenaProcess arena({.arena_bytes = 8 * kMiB, .objects_max = 200, .touch = false});
  arena.start();
  Child engine([&] {
    auto client = arena.client({.grant_ahead_bytes = kMiB});
    // Reads go through a mapping of their own: what orders them and the writes is the daemon, which ThreadSanitizer does
    // not see.
    auto reader = arena.client();
    auto lease = [&] {
      REQUIRE(put_identity(*client, {1, 1}, 50'000, {.hard_pin = true}).has_value());
      return reader->get(key_named(key_name(1)));
    }();
    REQUIRE(lease.has_value());
    std::atomic<bool> stop{false};
    std::vector<std::thread> load;
    for (std::uint32_t t = 0; t < 3; ++t) {
      load.emplace_back([&, t] {
        for (std::uint32_t i = 0; !stop; ++i) {
          REQUIRE(put_identity(*client, {100 + t * 10 + i % 10, 1}, 20'000, {}).has_value());
          auto own = reader->get(key_named(key_name(100 + t * 10 + i % 10)));
          REQUIRE(!own || identity_of(*own).has_value());
          [[maybe_unused]] const auto status = client->stats();
        }
      });
    }
    for (int i = 0; i < 60; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(10);  // a child that hangs ends by this signal
        constexpr std::size_t kBytes = 16 * kMiB;
        auto* own = static_cast<unsigned char*>(
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        REQUIRE(own != MAP_FAILED);
        std::memset(own, 0x5A, kBytes);
        REQUIRE(reader->get(key_named(key_name(1))).error().code == Code::kDetached);
        REQUIRE(client->lookup(key_named(key_name(1))) == Presence::kAbsent);
        REQUIRE(put_identity(*client, {2, 1}, 100, {}).error().code == Code::kDetached);
        REQUIRE(client->list("").empty() && !client->attached() && lease->bytes().empty());
        lease->release();
        client.reset();
        reader.reset();
        REQUIRE(std::all_of(own, own + kBytes, [](unsigned char c) { return c == 0x5A; }));
        ::_exit(0);
      }
      int status = -1;
      REQUIRE(child > 0 && ::waitpid(child, &status, 0) == child);
      REQUIRE(status == 0, "fork {}: the child ended with {:#x}", i, static_cast<unsigned>(status));
      REQUIRE(identity_of(*lease) == (Identity{1, 1}));
    }
    stop = true;
    for (std::thread& thread : load) thread.join();
    return 0;
  });
  EXPECT_EQ(engine.wait(), 0);
  expect_nothing_left(arena);
}

}  // namespace
}  // namespace sluice::crash
