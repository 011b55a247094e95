// Two mappings of one arena in one process: the daemon's on its thread, clients' on many, while
// daemons come and go. Run under ThreadSanitizer this is where a race between threads of one
// client, or of the daemon, shows.
#include <array>
#include <atomic>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "store/test_arena.h"

namespace sluice::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint32_t kKeys = 12;
constexpr std::size_t kBytes = 30'000;

class Storm {
 public:
  explicit Storm(unsigned seed) : seed_(seed) {
    arena_.options().keep_on_stop = true;
    arena_.stop();
    arena_.start();
    for (auto& client : clients_) client = arena_.client({.grant_ahead_bytes = 256u << 10});
    for (std::uint32_t i = 0; i < kKeys; ++i) {
      keys_.push_back(key_named("k" + std::to_string(i)));
      bytes_.push_back(pattern(kBytes + i * 1000, i));
    }
  }

  // Writers do so many rounds; the others go on for as long as a writer does.
  void run(int rounds, int restarts) {
    using Job = void (Storm::*)(Client&, std::uint32_t, unsigned);
    writers_ = 6;
    std::vector<std::jthread> threads;
    const auto start = [&](Client& client, Job job, bool writes) {
      threads.emplace_back([this, &client, job, writes, rounds, seed = seed_ + threads.size()] {
        std::mt19937_64 random(seed);
        for (int i = 0; writes ? i < rounds : writers_ > 0; ++i) {
          (this->*job)(client, static_cast<std::uint32_t>(random() % kKeys),
                       static_cast<unsigned>(random()));
        }
        if (writes) --writers_;
      });
    };
    // Payload is written through one client's mapping and read through the other's: what orders the
    // two is a store of the daemon through a third mapping, which ThreadSanitizer cannot see.
    for (const Job job : {&Storm::put, &Storm::put, &Storm::write_in_place, &Storm::write_in_place,
                          &Storm::remove}) {
      start(*clients_[0], job, true);
    }
    start(*clients_[1], &Storm::remove, true);
    for (int i = 0; i < 3; ++i) start(*clients_[1], &Storm::read, false);
    for (auto& client : clients_) {
      start(*client, &Storm::wait, false);
      start(*client, &Storm::look_around, false);
    }
    for (int i = 0; i < restarts; ++i) {
      const std::uint64_t seen = reads_;
      while (writers_ > 0 && reads_ < seen + 20) std::this_thread::yield();
      arena_.stop();
      arena_.start();
    }
    threads.clear();
    EXPECT_GT(reads_, 0u);
    EXPECT_GT(published_, 0u);
  }

  // Nothing of it is left once all is removed.
  void expect_clean() {
    for (auto& client : clients_) client.reset();
    auto client = arena_.client({.grant_ahead_bytes = 0});
    ASSERT_TRUE(client->invalidate("sluice1@"));
    const Instant give_up = deadline_after(now(), seconds(20));
    while (client->stats().used_bytes != 0 && now() < give_up) std::this_thread::yield();
    EXPECT_EQ(client->stats().used_bytes, 0u);
    EXPECT_EQ(client->stats().objects, 0u);
  }

 private:
  static void expect_trouble_only(const Error& e) {
    const bool expected = e.code == Code::kUnavailable || e.code == Code::kPending ||
                          e.code == Code::kNotFound || e.code == Code::kExpired ||
                          e.code == Code::kOutOfSpace;
    EXPECT_TRUE(expected) << e.message;
  }

  void put(Client& client, std::uint32_t key, unsigned) {
    const TensorInput input = bytes_tensor(bytes_[key]);
    const auto outcome = client.put(keys_[key], std::span(&input, 1), {}, {.timeout = seconds(30)});
    if (!outcome) return expect_trouble_only(outcome.error());
    published_ += *outcome == PutOutcome::kPublished;
  }

  void write_in_place(Client& client, std::uint32_t key, unsigned number) {
    const NamedTensorSpec spec{.name = "tensor", .spec = bytes_tensor(bytes_[key]).spec};
    auto writer = client.reserve(keys_[key], std::span(&spec, 1), {}, {.timeout = seconds(30)});
    if (!writer) return expect_trouble_only(writer.error());
    if (!*writer || number % 4 == 0) return;
    std::ranges::copy(bytes_[key], writer->data(0).begin());
    if (const auto outcome = writer->publish(); !outcome) expect_trouble_only(outcome.error());
  }

  void read(Client& client, std::uint32_t key, unsigned number) {
    auto lease = client.get(keys_[key]);
    if (!lease) return expect_trouble_only(lease.error());
    ++reads_;
    EXPECT_TRUE(holds(*lease, bytes_[key]));
    if (number % 2 == 0) {
      const auto own = lease->private_bytes();
      // Threads of one process share it.
      __atomic_fetch_xor(reinterpret_cast<unsigned char*>(own.data()) + number % own.size(), 1,
                         __ATOMIC_RELAXED);
      EXPECT_TRUE(holds(*lease, bytes_[key]));
    }
    std::vector<std::byte> copy(lease->bytes().size());
    EXPECT_TRUE(lease->copy_to(copy));
    auto adopted = client.adopt(lease->descriptor());
    EXPECT_TRUE(adopted) << adopted.error().message;
  }

  void remove(Client& client, std::uint32_t key, unsigned number) {
    if (number % 3 == 0) {
      if (const auto pinned = client.pin(keys_[key], milliseconds(1)); !pinned)
        expect_trouble_only(pinned.error());
    }
    if (const auto removed = client.remove(keys_[key], seconds(30)); !removed)
      expect_trouble_only(removed.error());
  }

  void wait(Client& client, std::uint32_t, unsigned) {
    EXPECT_TRUE(client.wait(keys_, milliseconds(1)));
  }

  void look_around(Client& client, std::uint32_t, unsigned number) {
    std::array<Presence, kKeys> presence{};
    client.lookup(keys_, presence);
    EXPECT_TRUE(client.post(std::to_string(number)));
    [[maybe_unused]] const auto clients = client.clients();
    [[maybe_unused]] const auto objects = client.list("");
    [[maybe_unused]] const auto stats = client.stats();
    [[maybe_unused]] const bool attached = client.attached();
  }

  unsigned seed_;
  TestArena arena_{{.arena_bytes = 2u << 20, .segment_bytes = 1u << 20, .objects_max = 100}};
  std::array<std::unique_ptr<Client>, 2> clients_;
  std::vector<ObjectKey> keys_;
  std::vector<std::vector<std::byte>> bytes_;
  std::atomic<std::uint64_t> reads_{0}, published_{0};
  std::atomic<int> writers_{0};
};

TEST(Threads, OfOneClientMayDoEverythingAtOnce) {
  Storm storm(test_seed());
  storm.run(600, 0);
  storm.expect_clean();
}

TEST(Threads, MayGoOnWhileDaemonsComeAndGo) {
  Storm storm(test_seed());
  storm.run(400, 5);
  storm.expect_clean();
}

// A put that waits for a daemon keeps nobody else of its process waiting.
TEST(Threads, OneThatWaitsForADaemonHoldsUpNoOther) {
  TestArena arena;
  arena.options().keep_on_stop = true;
  arena.stop();
  arena.start();
  auto client = arena.client();
  ASSERT_TRUE(put_bytes(*client, "k", pattern(1000, 1)));
  arena.stop();
  std::jthread slow([&] {
    const auto put = put_bytes(*client, "slow", pattern(1000, 2), {.timeout = milliseconds(3000)});
    EXPECT_EQ(put.error().code, Code::kUnavailable);
  });
  const Instant start = now();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(client->get(key_named("k")));
    EXPECT_TRUE(client->wait(std::array{key_named("absent")}, milliseconds(5)));
    EXPECT_EQ(
        put_bytes(*client, "quick", pattern(1000, 3), {.timeout = milliseconds(20)}).error().code,
        Code::kUnavailable);
    EXPECT_FALSE(client->attached());
    EXPECT_EQ(client->list("").size(), 1u);
  }
  EXPECT_LT(now() - start, 2000 * kNsPerMs);
}

}  // namespace
}  // namespace sluice::store
