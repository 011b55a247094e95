// The daemon dies at every named kill point in turn, between the two writes of each multi-word update, and the next one
// goes on as if nothing had happened: the workload's calls all succeed, and the oracle knows every byte.
#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "arena_process.h"
#include "kill_points.h"

namespace sluice::crash {
namespace {

using store::key_named;

constexpr std::size_t kObjectBytes = 8000;
constexpr std::uint32_t kHeld =
    500;  // keys of the two reservations that outlive the daemon's death

enum class Expect : std::uint32_t { kUntouched, kPresent, kAbsent };

struct Board {
  std::array<std::atomic<Expect>, 600> keys;
  std::atomic<bool> workload_done, publish_held, held_published;
};

PutOptions patient(bool pinned = true) {
  return {.timeout = kPatience, .write_timeout = std::chrono::minutes(30), .hard_pin = pinned};
}

NamedTensorSpec spec_of(std::size_t bytes) {
  return {.name = "tensor",
          .spec = {.dtype = DType::kU8, .shape = {static_cast<std::int64_t>(bytes)}}};
}

class Workload {
 public:
  Workload(const ArenaProcess& arena, Board& board)
      : arena_(arena), board_(board), client_(arena.client()) {}

  int run() {
    auto held = reserve(kHeld);
    auto held_too = reserve(kHeld + 1);
    write(held.data(0), {kHeld, 1});
    for (std::uint32_t i = 0; i < 6; ++i) put(i, PutOutcome::kPublished);
    for (std::uint32_t i = 10; i < 13; ++i) {
      auto writer = reserve(i);
      write(writer.data(0), {i, 1});
      const auto outcome = writer.publish();
      REQUIRE(outcome == PutOutcome::kPublished, "{}: {}", i,
              outcome ? std::string() : outcome.error().message);
      board_.keys[i] = Expect::kPresent;
    }
    remove(0);
    remove(11);
    for (std::uint32_t i = 20; i < 23; ++i) reserve(i);  // dropped at once: abandoned
    put(1, PutOutcome::kDuplicate);
    REQUIRE(put_identity(*client_, {2, 77}, kObjectBytes, patient()) ==
            PutOutcome::kDivergentDuplicate);
    a_client_that_dies();
    a_reservation_that_expires(30);
    a_generation_that_ends();
    a_put_that_overtakes_a_reservation(60);
    evictions();
    for (const std::uint32_t i : {20u, 21u, 22u, 30u}) board_.keys[i] = Expect::kAbsent;

    board_.workload_done = true;
    REQUIRE(eventually([&] { return board_.publish_held.load(); }));
    write(held_too.data(0), {kHeld + 1, 1});
    for (Writer* writer : {&held, &held_too}) {
      const auto outcome = writer->publish();
      REQUIRE(outcome == PutOutcome::kPublished, "{}",
              outcome ? std::string() : outcome.error().message);
    }
    board_.keys[kHeld] = board_.keys[kHeld + 1] = Expect::kPresent;
    board_.held_published = true;
    return 0;
  }

 private:
  Writer reserve(std::uint32_t key) {
    const auto spec = spec_of(kObjectBytes);
    auto writer = client_->reserve(key_named(key_name(key)), std::span(&spec, 1), {}, patient());
    REQUIRE(writer && *writer, "{}: {}", key, writer ? "duplicate" : writer.error().message);
    return std::move(*writer);
  }

  void put(std::uint32_t key, PutOutcome expected) {
    const auto outcome = put_identity(*client_, {key, 1}, kObjectBytes, patient());
    REQUIRE(outcome == expected, "{}: {}", key,
            outcome ? "another outcome" : outcome.error().message);
    board_.keys[key] = Expect::kPresent;
  }

  void remove(std::uint32_t key) {
    const auto removed = client_->remove(key_named(key_name(key)), kPatience);
    // Served a second time by the next daemon, it finds the object gone.
    REQUIRE(removed || removed.error().code == Code::kNotFound, "{}", removed.error().message);
    board_.keys[key] = Expect::kAbsent;
  }

  void a_client_that_dies() {
    Child doomed([&] {
      auto client = arena_.client();
      const auto spec = spec_of(kObjectBytes);
      std::vector<Writer> writers;
      for (std::uint32_t i = 40; i < 43; ++i) {
        auto writer = client->reserve(key_named(key_name(i)), std::span(&spec, 1), {}, patient());
        REQUIRE(writer && *writer, "{}", writer ? "duplicate" : writer.error().message);
        writers.push_back(std::move(*writer));
      }
      auto lease = client->get(key_named(key_name(1)));
      REQUIRE(lease.has_value());
      ::kill(::getpid(), SIGKILL);
      return 1;
    });
    REQUIRE(doomed.wait() == -SIGKILL);
    for (std::uint32_t i = 40; i < 43; ++i) {
      REQUIRE(
          eventually([&] { return client_->lookup(key_named(key_name(i))) == Presence::kAbsent; }),
          "a reservation of the dead stands");
      board_.keys[i] = Expect::kAbsent;
    }
  }

  void a_reservation_that_expires(std::uint32_t key) {
    const auto spec = spec_of(kObjectBytes);
    PutOptions options = patient();
    options.write_timeout = milliseconds(1);
    auto writer = client_->reserve(key_named(key_name(key)), std::span(&spec, 1), {}, options);
    REQUIRE(writer && *writer);
    REQUIRE(
        eventually([&] { return client_->lookup(key_named(key_name(key))) == Presence::kAbsent; }));
    const auto late = writer->publish();
    REQUIRE(!late && late.error().code == Code::kExpired, "{}",
            late ? "published" : late.error().message);
  }

  void a_generation_that_ends() {
    for (std::uint32_t i = 50; i < 53; ++i) put(i, PutOutcome::kPublished);
    const std::string prefix = key_named("k5").text();
    const auto ended = client_->invalidate(prefix, kPatience);
    REQUIRE(ended.has_value(), "{}", ended.error().message);
    for (std::uint32_t i = 50; i < 53; ++i) board_.keys[i] = Expect::kAbsent;
    put(5, PutOutcome::kPublished);  // "k5" itself went too
  }

  void a_put_that_overtakes_a_reservation(std::uint32_t key) {
    auto writer = reserve(key);
    write(writer.data(0), {key, 1});
    put(key, PutOutcome::kPublished);
    const auto outcome = writer.publish();
    REQUIRE(outcome == PutOutcome::kDuplicate, "{}",
            outcome ? "published" : outcome.error().message);
  }

  // Unpinned objects, more than the arena holds; nobody says which of them are left.
  void evictions() {
    for (std::uint32_t i = 100; i < 130; ++i) {
      const auto outcome = put_identity(*client_, {i, 1}, 60'000, patient(false));
      REQUIRE(outcome == PutOutcome::kPublished, "{}: {}", i,
              outcome ? "another outcome" : outcome.error().message);
    }
  }

  const ArenaProcess& arena_;
  Board& board_;
  std::unique_ptr<Client> client_;
};

void expect_reservations_stand(const ArenaProcess& arena) {
  const ControlFile control(arena.directory());
  const auto& reserved = control->header().counters.reserved_bytes;
  const auto slots = control.slots_in(store::SlotState::kReserved);
  EXPECT_EQ(slots.size(), 2u);
  // What a daemon counts is what stands in the slots: nothing was granted twice, nothing was lost.
  EXPECT_EQ(reserved.load(), control.bytes_of(slots));
  EXPECT_EQ(reserved.load(), 2 * 12288u);
  EXPECT_TRUE(control.slots_in(store::SlotState::kExpired).empty());
}

void expect_oracle_holds(const ArenaProcess& arena, const Board& board) {
  auto client = arena.client();
  for (std::uint32_t key = 0; key < board.keys.size(); ++key) {
    const Expect expected = board.keys[key].load();
    if (expected == Expect::kUntouched) continue;
    auto lease = client->get(key_named(key_name(key)), Verify::kAlways);
    if (expected == Expect::kAbsent) {
      EXPECT_FALSE(lease) << key_name(key) << " is back";
      continue;
    }
    ASSERT_TRUE(lease) << key_name(key)
                       << " was acknowledged and is lost: " << lease.error().message;
    EXPECT_EQ(identity_of(*lease), (Identity{key, 1}));
  }
  for (const ObjectInfo& object : client->list("")) {
    auto lease = client->get(*ObjectKey::parse(object.key), Verify::kAlways);
    ASSERT_TRUE(lease) << object.key << ": " << lease.error().message;
    const auto identity = identity_of(*lease);
    ASSERT_TRUE(identity) << object.key << " is not whole";
    EXPECT_TRUE(object.key.ends_with("@id:" + key_name(identity->key))) << object.key;
  }
}

// Returns false when the workload ends without `hit` passes of the point.
bool dies_there_and_goes_on(const std::string& point, unsigned hit) {
  SCOPED_TRACE("kill point " + point + ", hit " + std::to_string(hit));
  ArenaProcess arena(
      {.arena_bytes = 1u << 20, .segment_bytes = 512u << 10, .objects_max = 60, .touch = false});
  Shared<Board> board;
  arena.start([&] { arm_kill_point(point, hit); });
  Child workload([&] { return Workload(arena, *board).run(); });

  bool died = false;
  int result = 0;
  const bool over = eventually([&] {
    if (!died && arena.daemon().ended(&result)) {
      EXPECT_EQ(result, -SIGKILL);
      died = true;
      arena.start();
    }
    return board->workload_done.load() || workload.ended(&result);
  });
  EXPECT_TRUE(over) << "the workload hangs";
  EXPECT_TRUE(board->workload_done) << "the workload failed with " << result;
  if (!board->workload_done || !died) return died;
  expect_reservations_stand(arena);
  board->publish_held = true;
  EXPECT_EQ(workload.wait(), 0);
  EXPECT_TRUE(board->held_published);
  expect_oracle_holds(arena, *board);
  expect_nothing_left(arena);
  return true;
}

// What a process sleeps in, as the kernel names it.
std::string sleeps_in(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/wchan");
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(KillPoints, AWaitEndsWithThePublishThoughTheDaemonDiedBeforeItWokeAnybody) {
  for (const char* point :
       {"install.between_slots", "install.after_grant", "serve.before_answer"}) {
    SCOPED_TRACE(point);
    ArenaProcess arena({.arena_bytes = 1u << 20, .objects_max = 60, .touch = false});
    // The second answer is the publish's; the first is its grant's.
    arena.start(
        [&] { arm_kill_point(point, std::string_view(point) == "serve.before_answer" ? 2 : 1); });
    const auto key = key_named(key_name(1));
    Child consumer([&] {
      const auto presence = arena.client()->wait(std::span(&key, 1), kPatience);
      REQUIRE(presence && presence->front() == Presence::kPresent);
      return 0;
    });
    ASSERT_TRUE(eventually([&] { return sleeps_in(consumer.pid()).starts_with("futex"); }));
    Child producer([&] {
      const auto outcome = put_identity(*arena.client(), {1, 1}, kObjectBytes, patient());
      REQUIRE(outcome == PutOutcome::kPublished);
      return 0;
    });
    ASSERT_EQ(arena.daemon().wait(), -SIGKILL);
    arena.start();
    EXPECT_EQ(producer.wait(), 0);
    int result = -1;
    EXPECT_TRUE(eventually([&] { return consumer.ended(&result); }, seconds(20)))
        << "the consumer sleeps on";
    EXPECT_EQ(result, 0);
  }
}

TEST(KillPoints, TheDaemonMayDieAtEachOfThem) {
  const auto names = kill_point_names();
  ASSERT_GE(names.size(), 15u) << "found in " << SLUICE_STORE_SOURCES;
  int deaths = 0;
  for (const std::string& name : names) {
    for (const unsigned hit : {1u, 2u, 4u, 8u}) {
      const bool died = dies_there_and_goes_on(name, hit);
      deaths += died;
      EXPECT_TRUE(died || hit > 1)
          << name << ": the workload never passes it, so nothing is known about it";
      if (!died || testing::Test::HasFailure()) break;
    }
    if (testing::Test::HasFailure()) break;
  }
  std::printf("%d deaths at %zu kill points\n", deaths, names.size());
}

}  // namespace
}  // namespace sluice::crash
