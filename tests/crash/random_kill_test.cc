// Daemon, producers and consumers are killed at random times under load; every byte that a consumer sees belongs to one
// object, and what was acknowledged and is pinned is never lost.
#include <algorithm>
#include <array>
#include <random>

#include <gtest/gtest.h>

#include "arena_process.h"

namespace sluice::crash {
namespace {

using store::key_named;

constexpr std::uint32_t kProducers = 2;
constexpr std::uint32_t kConsumers = 2;
constexpr std::uint32_t kKeysEach = 12;   // pinned, of each producer
constexpr std::uint32_t kChurnKeys = 40;  // unpinned, of everybody
constexpr std::uint32_t kChurnFrom = 1000;

// What its producer last knew about a pinned key: 0 unknown or absent, else the sequence that is published.
struct Board {
  std::array<std::atomic<std::uint32_t>, kProducers * kKeysEach> published;
  std::array<std::atomic<std::uint32_t>, kProducers * kKeysEach> sequence;  // last one used
  std::atomic<std::uint64_t> puts, gets, misses, expired;
  std::atomic<bool> stop;
};

std::size_t size_of_object(Identity id) noexcept {
  return 512 + ((id.key * 7919u + id.sequence * 104729u) % 60'000) / 8 * 8;
}

// Failures that a dying daemon or a full arena may cause; everything else ends the child.
bool is_trouble(const Error& e) noexcept {
  return e.code == Code::kUnavailable || e.code == Code::kTimedOut || e.code == Code::kOutOfSpace ||
         e.code == Code::kPending || e.code == Code::kExpired;
}

class Producer {
 public:
  Producer(const ArenaProcess& arena, Board& board, std::uint32_t number, std::uint64_t seed)
      : board_(board),
        number_(number),
        random_(seed),
        client_(arena.client({.grant_ahead_bytes = 256u << 10})) {}

  int run() {
    while (!board_.stop) {
      if (random_() % 2 == 0) {
        churn();
      } else {
        replace(number_ * kKeysEach + static_cast<std::uint32_t>(random_() % kKeysEach));
      }
    }
    return 0;
  }

 private:
  // Takes a pinned key away and publishes its next version. The board says so only while it is certain.
  void replace(std::uint32_t key) {
    board_.published[key] = 0;
    const auto name = key_named(key_name(key));
    if (const auto removed = client_->remove(name, seconds(2)); !removed) {
      REQUIRE(removed.error().code == Code::kNotFound || is_trouble(removed.error()), "{}",
              removed.error().message);
      if (removed.error().code != Code::kNotFound) return;
    }
    if (random_() % 8 == 0) return;
    const Identity id{key, ++board_.sequence[key]};
    const auto outcome = random_() % 2 == 0 ? put(id) : write_in_place(id);
    if (!outcome) {
      const Error& e = outcome.error();
      // An earlier attempt, of this process or its predecessor, may have been served after it was given up.
      REQUIRE(is_trouble(e) || e.code == Code::kConflict, "{}", e.message);
      return;
    }
    if (*outcome == PutOutcome::kPublished) board_.published[key] = id.sequence;
    ++board_.puts;
  }

  Result<PutOutcome> put(Identity id) {
    return put_identity(*client_, id, size_of_object(id),
                        {.timeout = seconds(2), .hard_pin = true});
  }

  Result<PutOutcome> write_in_place(Identity id) {
    const NamedTensorSpec spec{
        .name = "tensor",
        .spec = {.dtype = DType::kU8, .shape = {static_cast<std::int64_t>(size_of_object(id))}}};
    // Some reservations expire under the writer's hands.
    const auto write_timeout = random_() % 4 == 0 ? milliseconds(1) : milliseconds(5000);
    auto writer =
        client_->reserve(key_named(key_name(id.key)), std::span(&spec, 1), {},
                         {.timeout = seconds(2), .write_timeout = write_timeout, .hard_pin = true});
    if (!writer) return std::unexpected(writer.error());
    if (!*writer) return PutOutcome::kDuplicate;
    write(writer->data(0), id);
    auto outcome = writer->publish();
    if (!outcome && outcome.error().code == Code::kExpired) ++board_.expired;
    return outcome;
  }

  void churn() {
    const std::uint32_t key = kChurnFrom + static_cast<std::uint32_t>(random_() % kChurnKeys);
    const Identity id{key, static_cast<std::uint32_t>(random_())};
    const auto outcome =
        put_identity(*client_, id, size_of_object({key, 1}), {.timeout = seconds(2)});
    REQUIRE(outcome || is_trouble(outcome.error()), "{}", outcome.error().message);
    ++board_.puts;
  }

  Board& board_;
  std::uint32_t number_;
  std::mt19937_64 random_;
  std::unique_ptr<Client> client_;
};

class Consumer {
 public:
  Consumer(const ArenaProcess& arena, Board& board, std::uint64_t seed)
      : board_(board), random_(seed), client_(arena.client()) {}

  int run() {
    std::vector<Lease> kept;  // some leases live on while their objects are removed
    std::vector<Identity> whose;
    while (!board_.stop) {
      const bool pinned = random_() % 2 == 0;
      const std::uint32_t key = static_cast<std::uint32_t>(
          pinned ? random_() % board_.published.size() : kChurnFrom + random_() % kChurnKeys);
      const std::uint32_t before = pinned ? board_.published[key].load() : 0;
      auto lease = client_->get(key_named(key_name(key)),
                                random_() % 2 == 0 ? Verify::kNever : Verify::kAlways);
      if (!lease) {
        const Code code = lease.error().code;
        REQUIRE(code == Code::kNotFound || code == Code::kPending, "{}", lease.error().message);
        const bool lost = before != 0 && board_.published[key].load() == before;
        REQUIRE(!lost, "k{}, version {}, was acknowledged and is lost", key, before);
        ++board_.misses;
        continue;
      }
      const auto identity = identity_of(*lease);
      REQUIRE(identity && identity->key == key, "k{} is not whole", key);
      const bool stands = before != 0 && board_.published[key].load() == before;
      REQUIRE(!stands || identity->sequence == before, "k{}: version {} instead of {}", key,
              identity->sequence, before);
      ++board_.gets;
      if (random_() % 4 == 0) {
        kept.push_back(std::move(*lease));
        whose.push_back(*identity);
      }
      if (kept.size() > 6) {
        REQUIRE(identity_of(kept.front()) == whose.front(), "bytes changed under a lease");
        kept.erase(kept.begin());
        whose.erase(whose.begin());
      }
    }
    return 0;
  }

 private:
  Board& board_;
  std::mt19937_64 random_;
  std::unique_ptr<Client> client_;
};

class Scene {
 public:
  explicit Scene(unsigned seed)
      : random_(seed),
        arena_({.arena_bytes = 4u << 20,
                .segment_bytes = 2u << 20,
                .objects_max = 200,
                .touch = false}) {
    arena_.start();
    for (std::uint32_t i = 0; i < processes_.size(); ++i) start(i);
  }

  void kill_one() {
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 25'000));
    const std::size_t which = random_() % 6;  // the daemon a third of the time
    if (which >= processes_.size()) {
      arena_.kill_daemon();
      arena_.start();
      return;
    }
    EXPECT_EQ(processes_[which].kill_and_wait(), -SIGKILL) << "it had ended by itself: see above";
    start(static_cast<std::uint32_t>(which));
  }

  void finish() {
    board_->stop = true;
    for (Child& process : processes_) EXPECT_EQ(process.wait(), 0);
    arena_.kill_daemon();
    arena_.start();
    {
      auto client = arena_.client();
      for (std::uint32_t key = 0; key < board_->published.size(); ++key) {
        const std::uint32_t sequence = board_->published[key];
        if (sequence == 0) continue;
        auto lease = client->get(key_named(key_name(key)), Verify::kAlways);
        ASSERT_TRUE(lease) << "k" << key
                           << " was acknowledged and is lost: " << lease.error().message;
        EXPECT_EQ(identity_of(*lease), (Identity{key, sequence}));
      }
    }
    expect_nothing_left(arena_);
    std::printf("%lu puts, %lu gets, %lu misses, %lu expired\n", board_->puts.load(),
                board_->gets.load(), board_->misses.load(), board_->expired.load());
    EXPECT_GT(board_->puts, 0u);
    EXPECT_GT(board_->gets, 0u);
  }

 private:
  void start(std::uint32_t i) {
    const std::uint64_t seed = random_();
    processes_[i] = i < kProducers ? Child([&] { return Producer(arena_, *board_, i, seed).run(); })
                                   : Child([&] { return Consumer(arena_, *board_, seed).run(); });
  }

  std::mt19937_64 random_;
  Shared<Board> board_;
  ArenaProcess arena_;
  std::array<Child, kProducers + kConsumers> processes_;
};

TEST(RandomKills, NothingAcknowledgedIsLostAndNoByteIsWrong) {
  const unsigned seed = store::test_seed();
  const int kills = soak() ? 5000 : 100;
  Scene scene(seed);
  for (int i = 0; i < kills && !HasFailure(); ++i) {
    scene.kill_one();
    if (soak() && i % 100 == 99) std::printf("%d of %d kills\n", i + 1, kills), std::fflush(stdout);
  }
  scene.finish();
  std::printf("%d kills\n", kills);
}

}  // namespace
}  // namespace sluice::crash
