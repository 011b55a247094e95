// What a client is promised, with a real daemon loop and real shared memory in one process.
#include <array>
#include <cstring>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "base/limits.h"
#include "base/unique_fd.h"
#include "store/scrub.h"
#include "store/test_arena.h"

namespace sluice::store {
namespace {

using std::chrono::milliseconds;

TEST(Client, WhatWasPutIsReadWithoutACopy) {
  TestArena arena;
  auto writer = arena.client();
  auto reader = arena.client();
  const auto data = pattern(300'000, 1);
  ASSERT_EQ(put_bytes(*writer, "a", data), PutOutcome::kPublished);
  EXPECT_EQ(reader->lookup(key_named("a")), Presence::kPresent);
  auto lease = reader->get(key_named("a"));
  ASSERT_TRUE(lease) << lease.error().message;
  EXPECT_TRUE(lease->verified());
  EXPECT_TRUE(holds(*lease, data));
  auto again = reader->get(key_named("a"));
  ASSERT_TRUE(again);
  EXPECT_EQ(lease->bytes().data(), again->bytes().data());
}

TEST(Client, AMissSaysSo) {
  TestArena arena;
  auto client = arena.client();
  EXPECT_EQ(client->lookup(key_named("nothing")), Presence::kAbsent);
  EXPECT_EQ(client->get(key_named("nothing")).error().code, Code::kNotFound);
  EXPECT_EQ(client->remove(key_named("nothing")).error().code, Code::kNotFound);
}

TEST(Client, AttributesAndSeveralTensorsTravelTogether) {
  TestArena arena;
  auto client = arena.client();
  const auto a = pattern(4096, 2), b = pattern(600'000, 3);
  const std::array inputs{
      TensorInput{.name = "hidden", .spec = {.dtype = DType::kBF16, .shape = {32, 64}}, .data = a},
      TensorInput{
          .name = "deepstack.0", .spec = {.dtype = DType::kF32, .shape = {150'000}}, .data = b}};
  const Attributes attributes{{"image_grid_thw", std::vector<std::int64_t>{1, 24, 32}},
                              {"modality", std::string("image")}};
  ASSERT_TRUE(client->put(key_named("bundle"), inputs, attributes));
  auto lease = client->get(key_named("bundle"));
  ASSERT_TRUE(lease) << lease.error().message;
  const auto tensors = lease->tensors();
  ASSERT_TRUE(tensors && tensors->size() == 2);
  for (const auto& [view, data] : {std::pair((*tensors)[0], a), std::pair((*tensors)[1], b)}) {
    EXPECT_EQ(view.data_offset % 64, 0u);
    EXPECT_EQ(std::memcmp(lease->bytes().data() + view.data_offset, data.data(), data.size()), 0)
        << view.name;
  }
  EXPECT_EQ(*lease->attributes(), attributes);
}

TEST(Client, AReservationIsPendingUntilPublishedAndAMissWhenAbandoned) {
  TestArena arena;
  auto producer = arena.client();
  auto other = arena.client();
  const NamedTensorSpec spec{.name = "tensor", .spec = {.dtype = DType::kU8, .shape = {5000}}};
  {
    auto writer = producer->reserve(key_named("r"), std::span(&spec, 1));
    ASSERT_TRUE(writer && *writer);
    EXPECT_EQ(other->lookup(key_named("r")), Presence::kPending);
    EXPECT_EQ(other->get(key_named("r")).error().code, Code::kPending);
    EXPECT_EQ(other->reserve(key_named("r"), std::span(&spec, 1)).error().code, Code::kPending);
    std::ranges::fill(writer->data(0), std::byte{7});
    EXPECT_EQ(writer->publish(), PutOutcome::kPublished);
    EXPECT_EQ(writer->publish().error().code, Code::kDetached);
  }
  EXPECT_EQ(other->lookup(key_named("r")), Presence::kPresent);
  auto duplicate = other->reserve(key_named("r"), std::span(&spec, 1));
  ASSERT_TRUE(duplicate);
  EXPECT_FALSE(*duplicate);
  {
    auto writer = producer->reserve(key_named("dropped"), std::span(&spec, 1));
    ASSERT_TRUE(writer);
  }
  ASSERT_TRUE(producer->put(key_named("barrier"), std::array{bytes_tensor(pattern(10, 1))}));
  EXPECT_EQ(other->lookup(key_named("dropped")), Presence::kAbsent);
}

TEST(Client, TheFirstPublishedObjectStays) {
  TestArena arena;
  auto a = arena.client();
  auto b = arena.client();
  const auto first = pattern(10'000, 1), other = pattern(10'000, 2);
  ASSERT_EQ(put_bytes(*a, "k", first), PutOutcome::kPublished);
  EXPECT_EQ(put_bytes(*b, "k", first), PutOutcome::kDuplicate);
  EXPECT_EQ(put_bytes(*b, "k", other), PutOutcome::kDivergentDuplicate);
  EXPECT_EQ(put_bytes(*b, "k", pattern(9'999, 1)).error().code, Code::kConflict);
  EXPECT_TRUE(holds(*a->get(key_named("k")), first));
  EXPECT_EQ(a->stats().duplicates_total, 2u);
  EXPECT_EQ(a->stats().divergent_duplicates_total, 1u);
  EXPECT_EQ(a->stats().conflicts_total, 1u);
}

TEST(Client, ALateReservationLosesToAPutOfTheSameKeyAndNothingIsLost) {
  TestArena arena;
  auto slow = arena.client();
  auto fast = arena.client();
  const auto data = pattern(5000, 4);
  const NamedTensorSpec spec{.name = "tensor", .spec = {.dtype = DType::kU8, .shape = {5000}}};
  auto writer = slow->reserve(key_named("k"), std::span(&spec, 1));
  ASSERT_TRUE(writer);
  ASSERT_EQ(put_bytes(*fast, "k", data), PutOutcome::kPublished);
  std::ranges::copy(data, writer->data(0).begin());
  EXPECT_EQ(writer->publish(), PutOutcome::kDuplicate);
  EXPECT_TRUE(holds(*slow->get(key_named("k")), data));
}

TEST(Client, AnExpiredReservationCannotBePublished) {
  TestArena arena;
  auto client = arena.client();
  const NamedTensorSpec spec{.name = "tensor", .spec = {.dtype = DType::kU8, .shape = {5000}}};
  auto writer = client->reserve(key_named("late"), std::span(&spec, 1), {},
                                {.write_timeout = milliseconds(1)});
  ASSERT_TRUE(writer);
  // The loop's own heartbeat expires it; a request of another key passes only after that.
  while (client->lookup(key_named("late")) == Presence::kPending) {
    ASSERT_TRUE(client->wait(std::array{key_named("late")}, milliseconds(50)));
  }
  EXPECT_GT(client->stats().used_bytes, 0u) << "the writer has not stopped: its bytes stay taken";
  EXPECT_EQ(writer->publish().error().code, Code::kExpired);
  EXPECT_EQ(client->stats().expired_total, 1u);
}

TEST(Client, RemovalWaitsForTheLastReader) {
  TestArena arena;
  auto client = arena.client({.grant_ahead_bytes = 0});
  const auto data = pattern(1u << 20, 5);
  ASSERT_TRUE(put_bytes(*client, "k", data));
  auto lease = client->get(key_named("k"));
  ASSERT_TRUE(lease);
  ASSERT_TRUE(client->remove(key_named("k")));
  EXPECT_EQ(client->lookup(key_named("k")), Presence::kAbsent);
  // Fill everything that is free: the removed object's bytes must not be among it.
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(put_bytes(*client, "fill" + std::to_string(i), pattern(1u << 20, 100 + i)));
  EXPECT_TRUE(holds(*lease, data));
}

TEST(Client, AFullArenaEvictsWhatNobodyUsesAndNeverWhatIsLeased) {
  TestArena arena;
  auto client = arena.client({.grant_ahead_bytes = 0});
  const auto kept = pattern(1u << 20, 1);
  ASSERT_TRUE(put_bytes(*client, "kept", kept));
  auto lease = client->get(key_named("kept"));
  for (int i = 0; i < 100; ++i) {
    const auto put = put_bytes(*client, "n" + std::to_string(i), pattern(1u << 20, i));
    ASSERT_TRUE(put) << i << ": " << put.error().message;
  }
  EXPECT_TRUE(holds(*lease, kept));
  EXPECT_EQ(client->lookup(key_named("kept")), Presence::kPresent);
  EXPECT_GT(client->stats().evictions_total, 80u);
  EXPECT_LE(client->stats().used_bytes, 16u << 20);
}

TEST(Client, OutOfSpaceComesAtTheCallersDeadlineAndSaysWhatToDo) {
  TestArena arena;
  auto client = arena.client({.grant_ahead_bytes = 0});
  for (int i = 0; i < 14; ++i) {
    ASSERT_TRUE(
        put_bytes(*client, "p" + std::to_string(i), pattern(1u << 20, i), {.hard_pin = true}));
  }
  const auto full =
      put_bytes(*client, "more", pattern(4u << 20, 99), {.timeout = milliseconds(30)});
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kOutOfSpace);
  EXPECT_THAT(full.error().message, testing::HasSubstr("--size"));
  for (int i = 0; i < 14; ++i) ASSERT_TRUE(client->unpin(key_named("p" + std::to_string(i))));
  EXPECT_TRUE(put_bytes(*client, "more", pattern(4u << 20, 99)));
}

TEST(Client, SoftPinsGoLast) {
  TestArena arena(
      {.arena_bytes = 16u << 20, .objects_max = 1000, .reserved_bytes_per_client = 16u << 20});
  auto client = arena.client({.grant_ahead_bytes = 0});
  ASSERT_TRUE(
      put_bytes(*client, "pinned", pattern(1u << 20, 1), {.soft_pin = std::chrono::minutes(5)}));
  for (int i = 0; i < 50; ++i)
    ASSERT_TRUE(put_bytes(*client, "n" + std::to_string(i), pattern(1u << 20, i)));
  EXPECT_EQ(client->lookup(key_named("pinned")), Presence::kPresent);
  ASSERT_TRUE(put_bytes(*client, "all", pattern(15u << 20, 2)))
      << "nothing else is left: the soft pin gives way";
  EXPECT_EQ(client->lookup(key_named("pinned")), Presence::kAbsent);
}

TEST(Client, WaitEndsWithThePublishOrWithTheDeadline) {
  TestArena arena;
  auto producer = arena.client();
  auto consumer = arena.client();
  const std::array keys{key_named("x"), key_named("y")};
  auto early = consumer->wait(keys, milliseconds(5));
  ASSERT_TRUE(early);
  EXPECT_THAT(*early, testing::Each(Presence::kAbsent));
  std::thread later([&] {
    ASSERT_TRUE(put_bytes(*producer, "x", pattern(100, 1)));
    ASSERT_TRUE(put_bytes(*producer, "y", pattern(100, 2)));
  });
  const auto both = consumer->wait(keys, std::chrono::seconds(20));
  later.join();
  ASSERT_TRUE(both);
  EXPECT_THAT(*both, testing::Each(Presence::kPresent));
}

TEST(Client, AStrayWriteStaysInItsProcessAndIsGoneWithItsLease) {
  TestArena arena;
  auto client = arena.client({.grant_ahead_bytes = 0});
  const auto data = pattern(100'000, 1);
  ASSERT_TRUE(put_bytes(*client, "k", data));
  {
    auto lease = client->get(key_named("k"));
    ASSERT_TRUE(lease);
    std::ranges::fill(lease->private_bytes(), std::byte{0xEE});
    EXPECT_TRUE(holds(*client->get(key_named("k")), data)) << "the shared bytes are untouched";
  }
  ASSERT_TRUE(client->remove(key_named("k")));
  const auto next = pattern(100'000, 2);
  ASSERT_TRUE(put_bytes(*client, "next", next));  // the same pages again
  auto lease = client->get(key_named("next"));
  ASSERT_TRUE(lease);
  EXPECT_EQ(
      std::memcmp(lease->private_bytes().data(), lease->bytes().data(), lease->bytes().size()), 0);
}

TEST(Client, DamagedPayloadIsRefusedOnceAndAlways) {
  TestArena arena;
  auto client = arena.client();
  const auto data = pattern(3 * 256 * 1024, 1);
  ASSERT_TRUE(put_bytes(*client, "k", data));
  auto lease = client->acquire(key_named("k"));
  ASSERT_TRUE(lease);
  const UniqueFd raw(::open((arena.directory() + "/data.0").c_str(), O_RDWR));
  const auto at = static_cast<off_t>(lease->descriptor().offset + 300'000);
  std::byte byte{};
  ASSERT_EQ(::pread(raw.get(), &byte, 1, at), 1);
  byte ^= std::byte{1};
  ASSERT_EQ(::pwrite(raw.get(), &byte, 1, at), 1);
  EXPECT_EQ(lease->verify().error().code, Code::kCorrupt);
  EXPECT_EQ(client->get(key_named("k")).error().code, Code::kCorrupt);
  std::vector<std::byte> part(1000);
  EXPECT_TRUE(lease->read(0, part)) << "a range in an undamaged chunk is fine";
  EXPECT_EQ(lease->read(299'000, part).error().code, Code::kCorrupt);
  std::vector<std::byte> whole(lease->bytes().size());
  EXPECT_EQ(lease->copy_to(whole).error().code, Code::kCorrupt);
}

TEST(Client, InvalidateEndsOneGenerationAndNoOther) {
  TestArena arena;
  auto client = arena.client();
  const auto put_model = [&](const std::string& model, const std::string& id) {
    const auto key = ObjectKey::make(
        {.model = model, .revision = "r", .encoder = "e", .dtype = "uint8", .id = id});
    const auto data = pattern(64, 1);
    return client->put(*key, std::array{bytes_tensor(data)}).has_value();
  };
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(put_model("old", std::to_string(i)) && put_model("new", std::to_string(i)));
  EXPECT_EQ(client->invalidate("sluice1@tenant:default@kind:encoder_output@model:old@"), 5u);
  EXPECT_EQ(client->list("").size(), 5u);
  EXPECT_THAT(client->list("")[0].key, testing::HasSubstr("model:new"));
}

TEST(Client, LeasesLiveOnWithoutADaemonAndPutsGoOnWithTheNext) {
  TestArena arena;
  arena.options().keep_on_stop = true;
  arena.stop();
  arena.start();
  auto client = arena.client();
  const auto data = pattern(100'000, 1);
  ASSERT_TRUE(put_bytes(*client, "k", data));
  const std::uint64_t boot = client->boot();
  arena.stop();
  EXPECT_FALSE(client->attached());
  auto lease = client->get(key_named("k"));
  ASSERT_TRUE(lease) << lease.error().message;
  EXPECT_TRUE(holds(*lease, data));
  EXPECT_EQ(put_bytes(*client, "x", data, {.timeout = milliseconds(60)}).error().code,
            Code::kUnavailable);
  arena.start();
  EXPECT_EQ(put_bytes(*client, "y", data), PutOutcome::kPublished);
  EXPECT_EQ(client->boot(), boot) << "the arena was taken over";
  EXPECT_EQ(client->lookup(key_named("k")), Presence::kPresent);
}

TEST(Client, AReplacedArenaIsFollowedAndOldLeasesStayValid) {
  TestArena arena;
  auto client = arena.client();
  const auto data = pattern(100'000, 1);
  ASSERT_TRUE(put_bytes(*client, "k", data));
  auto lease = client->get(key_named("k"));
  const std::uint64_t boot = client->boot();
  arena.stop();
  arena.start();
  EXPECT_EQ(put_bytes(*client, "n", data), PutOutcome::kPublished);
  EXPECT_NE(client->boot(), boot);
  EXPECT_EQ(client->lookup(key_named("k")), Presence::kAbsent);
  EXPECT_TRUE(holds(*lease, data));
}

TEST(Client, AForksChildIsDetachedAndTheParentGoesOn) {
  TestArena arena;
  auto client = arena.client();
  ASSERT_TRUE(put_bytes(*client, "k", pattern(1000, 1)));
  auto lease = client->get(key_named("k"));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool detached = client->get(key_named("k")).error().code == Code::kDetached &&
                          put_bytes(*client, "c", pattern(10, 1)).error().code == Code::kDetached &&
                          lease->bytes().empty() &&
                          client->lookup(key_named("k")) == Presence::kAbsent;
    lease->release();
    client.reset();
    ::_exit(detached ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(holds(*lease, pattern(1000, 1)));
  EXPECT_TRUE(put_bytes(*client, "p", pattern(1000, 2)));
}

TEST(Client, BadInputIsRefusedAtOnceAndTheNextGoodCallWorks) {
  TestArena arena;
  auto client = arena.client();
  const auto data = pattern(16, 1);
  TensorInput wrong = bytes_tensor(data);
  wrong.spec.shape = {17};
  EXPECT_EQ(client->put(key_named("k"), std::span(&wrong, 1)).error().code, Code::kInvalidArgument);
  EXPECT_EQ(client->put(key_named("k"), {}).error().code, Code::kInvalidArgument);
  wrong.spec.shape = {0};
  wrong.data = {};
  EXPECT_EQ(client->put(key_named("k"), std::span(&wrong, 1)).error().code, Code::kInvalidArgument);
  const auto huge = pattern(17u << 20, 1);
  EXPECT_EQ(put_bytes(*client, "huge", huge).error().code, Code::kLimit);
  EXPECT_FALSE(ObjectKey::from_text(""));
  EXPECT_EQ(Client::attach({.arena = "../x"}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Client::attach({.arena = "nobody-serves-this", .attach_timeout = milliseconds(10)})
                .error()
                .code,
            Code::kUnavailable);
  EXPECT_EQ(put_bytes(*client, "good", data), PutOutcome::kPublished);
}

TEST(Client, APostIsReadWholeByPeers) {
  TestArena arena;
  auto a = arena.client({.label = "engine a"});
  auto b = arena.client();
  ASSERT_TRUE(a->post("one"));
  ASSERT_TRUE(a->post(std::string(kBoardBytesMax, 'x')));
  EXPECT_EQ(a->post(std::string(kBoardBytesMax + 1, 'x')).error().code, Code::kLimit);
  ASSERT_TRUE(a->post("three"));
  const auto clients = b->clients();
  ASSERT_EQ(clients.size(), 2u);
  EXPECT_EQ(clients[0].board, "three");
  EXPECT_EQ(clients[0].label, "engine a");
  EXPECT_TRUE(clients[0].alive);
}

TEST(Scrub, RemovesWhatWasDamagedWhileNoDaemonRanAndKeepsTheRest) {
  TestArena arena;
  arena.options().keep_on_stop = true;
  arena.stop();
  arena.start();
  auto client = arena.client();
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(put_bytes(*client, "k" + std::to_string(i), pattern(100'000, i)));
  const std::uint64_t at = client->acquire(key_named("k3"))->descriptor().offset;
  arena.stop();
  const UniqueFd raw(::open((arena.directory() + "/data.0").c_str(), O_RDWR));
  ASSERT_EQ(::pwrite(raw.get(), "damage", 6, static_cast<off_t>(at + 50'000)), 6);
  arena.start();
  EXPECT_TRUE(arena.daemon().adopted());
  std::vector<std::string> named;
  auto scrubber = arena.client();
  const ScrubResult result =
      scrub(*scrubber, std::stop_token{},
            [&](std::string_view key, std::string_view) { named.emplace_back(key); });
  EXPECT_EQ(result.checked, 5u);
  EXPECT_EQ(result.removed, 1u);
  EXPECT_THAT(named, testing::ElementsAre(testing::HasSubstr("id:k3")));
  EXPECT_EQ(scrubber->lookup(key_named("k3")), Presence::kAbsent);
  EXPECT_EQ(scrubber->lookup(key_named("k4")), Presence::kPresent);
}

TEST(Daemon, ASecondDaemonOnTheSameArenaIsRefused) {
  TestArena arena;
  const auto second = Daemon::open(arena.options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_THAT(second.error().message, testing::HasSubstr(std::to_string(::getpid())));
}

TEST(Daemon, ACleanStopLeavesNothingBehind) {
  std::string directory;
  {
    TestArena arena;
    directory = arena.directory();
    auto client = arena.client();
    ASSERT_TRUE(put_bytes(*client, "k", pattern(1000, 1)));
    arena.stop();
  }
  EXPECT_FALSE(std::filesystem::exists(directory));
}

}  // namespace
}  // namespace sluice::store
