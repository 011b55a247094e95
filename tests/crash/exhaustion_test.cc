// What runs out: the arena, the file system under it, file descriptors of either side. Each is a clear error to the one
// who asked, and the next good request is served.
#include <array>
#include <fstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "arena_process.h"
#include "store/attach_frames.h"
#include "store/unix_socket.h"

namespace sluice::crash {
namespace {

using store::key_named;

constexpr std::size_t kMiB = 1u << 20;

rlim_t open_files_of(pid_t pid) {
  rlim_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    ++count;
  }
  return count;
}

void limit_open_files(pid_t pid, rlim_t soft) {
  rlimit limit{};
  ASSERT_EQ(::prlimit(pid, RLIMIT_NOFILE, nullptr, &limit), 0);
  limit.rlim_cur = soft;
  ASSERT_EQ(::prlimit(pid, RLIMIT_NOFILE, &limit, nullptr), 0);
}

double cpu_seconds_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::istringstream rest(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) rest >> skipped;
  double user = 0, system = 0;
  rest >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

TEST(Exhausted, AFullArenaIsSaidAtTheDeadlineAndServesTheNextGoodRequest) {
  ArenaProcess arena({.arena_bytes = 2 * kMiB,
                      .objects_max = 50,
                      .reserved_bytes_per_client = 2 * kMiB,
                      .touch = false});
  arena.start();
  {
    auto client = arena.client();
    ASSERT_TRUE(put_identity(*client, {1, 1}, kMiB + kMiB / 2, {.hard_pin = true}));
    const Instant start = now();
    const auto put = put_identity(*client, {2, 1}, kMiB, {.timeout = milliseconds(100)});
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, Code::kOutOfSpace) << put.error().message;
    EXPECT_GE(now() - start, 99 * kNsPerMs);
    EXPECT_EQ(put_identity(*client, {3, 1}, kMiB / 4), PutOutcome::kPublished);
    // A waiter is served as soon as there is room.
    Child waiting([&] {
      const auto late = put_identity(*arena.client(), {2, 1}, kMiB, {.timeout = kPatience});
      REQUIRE(late == PutOutcome::kPublished, "{}", late ? std::string() : late.error().message);
      return 0;
    });
    ASSERT_TRUE(client->unpin(key_named(key_name(1))));
    EXPECT_EQ(waiting.wait(), 0);
  }
  expect_nothing_left(arena);
}

// Runs `body` in a process whose `folder` is a file system of `bytes` in memory. False when this machine does not let it.
bool on_small_file_system(const std::string& folder, std::size_t bytes,
                          const std::function<int()>& body, int* result) {
  constexpr int kNotAllowed = 77;
  std::filesystem::create_directory(folder);
  Child child([&] {
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
      return kNotAllowed;
    const std::string size = "size=" + std::to_string(bytes);
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", folder.c_str(), "tmpfs", 0, size.c_str()) != 0) {
      return kNotAllowed;
    }
    return body();
  });
  *result = child.wait();
  std::filesystem::remove_all(folder);
  return *result != kNotAllowed;
}

TEST(Exhausted, AFullFileSystemIsAnErrorBeforeAnythingIsWrittenAndNothingIsLeftOnIt) {
  const std::string folder = testing::TempDir() + "sluice-small-" + std::to_string(::getpid());
  int result = 0;
  const auto body = [&] {
    store::DaemonOptions options{.directory = folder + "/arena",
                                 .arena_bytes = 64 * kMiB,
                                 .objects_max = 50,
                                 .touch = false};
    for (const std::uint64_t arena_bytes :
         {64 * kMiB, 15 * kMiB + 512 * 1024}) {  // data, then the control segment
      options.arena_bytes = arena_bytes;
      const auto refused = store::Daemon::open(options);
      REQUIRE(!refused && refused.error().code == Code::kOutOfSpace, "{}",
              refused ? std::string() : refused.error().message);
      REQUIRE(refused.error().message.find(folder) != std::string::npos, "{}",
              refused.error().message);
      const auto space = std::filesystem::space(folder);
      REQUIRE(space.capacity - space.free < kMiB, "{} bytes are left behind",
              space.capacity - space.free);
    }
    options.arena_bytes = 8 * kMiB;
    ArenaProcess arena(options);
    arena.start();
    auto client = arena.client();
    REQUIRE(put_identity(*client, {1, 1}, kMiB, {}).has_value());

    // Somebody else fills the rest: no page for another client, and every byte of the arena stays writable.
    const UniqueFd hog(::open((folder + "/hog").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const auto left = static_cast<off_t>(std::filesystem::space(folder).available);
    REQUIRE(::fallocate(hog.get(), 0, 0, left) == 0);
    const auto refused =
        Client::attach({.directory = arena.directory(), .attach_timeout = seconds(5)});
    REQUIRE(!refused && refused.error().code == Code::kOutOfSpace, "{}",
            refused ? std::string() : refused.error().message);
    for (std::uint32_t key = 2; key < 20; ++key)
      REQUIRE(put_identity(*client, {key, 1}, kMiB, {}).has_value());
    REQUIRE(::ftruncate(hog.get(), 0) == 0);
    REQUIRE(arena.client()->get(key_named(key_name(19))).has_value());
    return 0;
  };
  if (!on_small_file_system(folder, 16 * kMiB, body, &result)) {
    GTEST_SKIP()
        << "needs the right to mount a tmpfs in a namespace of its own (root, or user namespaces)";
  }
  EXPECT_EQ(result, 0);
}

TEST(Exhausted, ADaemonWithoutDescriptorsRefusesNewClientsServesTheOldOnesAndDoesNotSpin) {
  ArenaProcess arena({.arena_bytes = 2 * kMiB, .objects_max = 50, .touch = false});
  arena.start();
  {
    auto client = arena.client();
    ASSERT_TRUE(put_identity(*client, {1, 1}, 1000));
    const pid_t daemon = arena.daemon().pid();
    // None is left, then one, two, ...: every step of an attachment fails once.
    const rlim_t open = open_files_of(daemon);
    int refusals = 0;
    for (rlim_t limit = open - 4; limit < open + 8; ++limit) {
      SCOPED_TRACE(std::to_string(limit) + " descriptors, " + std::to_string(open) + " were open");
      limit_open_files(daemon, limit);
      const double cpu = cpu_seconds_of(daemon);
      const Instant start = now();
      const auto refused =
          Client::attach({.directory = arena.directory(), .attach_timeout = milliseconds(300)});
      const double elapsed = static_cast<double>(now() - start) / 1e9;
      if (!refused) {
        // Without even one descriptor for the connection, all that the client can say is that nobody answers.
        EXPECT_THAT(refused.error().code,
                    testing::AnyOf(Code::kLimit, Code::kIo, Code::kUnavailable))
            << refused.error().message;
        ++refusals;
      }
      EXPECT_LT(cpu_seconds_of(daemon) - cpu, 0.1 + elapsed / 2) << "the daemon spins";
      EXPECT_EQ(put_identity(*client, {10 + static_cast<std::uint32_t>(limit), 1}, 1000),
                PutOutcome::kPublished);
    }
    EXPECT_GT(refusals, 3);
    limit_open_files(daemon, 1024);
    EXPECT_TRUE(arena.client()->get(key_named(key_name(1))));
    EXPECT_TRUE(eventually([&] { return client->clients().size() == 1; }, seconds(5)))
        << client->clients().size() << " clients are listed, one is attached";
  }
  expect_nothing_left(arena);
}

// Death is the kernel's word: a daemon that cannot ask does not start, rather than take a living client for a dead one.
TEST(Exhausted, ARestartWithoutDescriptorsNeverTakesALivingClientForADeadOne) {
  ArenaProcess arena({.arena_bytes = 2 * kMiB, .objects_max = 50, .touch = false});
  arena.start();
  Shared<std::atomic<int>> step;
  Child producer([&] {
    auto client = arena.client();
    const NamedTensorSpec spec{.name = "tensor", .spec = {.dtype = DType::kU8, .shape = {8000}}};
    auto writer = client->reserve(key_named(key_name(1)), std::span(&spec, 1));
    REQUIRE(writer && *writer);
    *step = 1;
    REQUIRE(eventually([&] { return *step == 2; }));
    write(writer->data(0), {1, 1});
    const auto outcome = writer->publish(kPatience);
    REQUIRE(outcome == PutOutcome::kPublished, "{}",
            outcome ? std::string() : outcome.error().message);
    return 0;
  });
  ASSERT_TRUE(eventually([&] { return *step == 1; }));
  arena.kill_daemon();
  bool started = false;
  for (rlim_t limit = 3; limit < 40 && !started; ++limit) {
    Child attempt([&] {
      const rlimit few{.rlim_cur = limit, .rlim_max = 1024};
      REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
      const auto daemon = store::Daemon::open(arena.options());
      return daemon ? 0 : 1;
    });
    started = attempt.wait() == 0;
  }
  EXPECT_TRUE(started);
  arena.start();
  *step = 2;
  EXPECT_EQ(producer.wait(), 0) << "its reservation was lost";
  expect_nothing_left(arena);
}

TEST(Exhausted, AClientWithoutDescriptorsIsToldSoAndTakesNoPlaceInTheArena) {
  ArenaProcess arena(
      {.arena_bytes = 2 * kMiB, .segment_bytes = 64u << 10, .objects_max = 50, .touch = false});
  arena.start();
  Child process([&] {
    REQUIRE(arena.client()->attached());
    const rlim_t open_files = open_files_of(::getpid());  // counted while there are some left
    for (rlim_t spare = 0; spare < 36; ++spare) {
      const rlimit few{.rlim_cur = open_files - 1 + spare, .rlim_max = 1024};
      REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
      const auto refused =
          Client::attach({.directory = arena.directory(), .attach_timeout = milliseconds(200)});
      if (refused) continue;
      REQUIRE(refused.error().code == Code::kLimit || refused.error().code == Code::kIo, "{}",
              refused.error().message);
    }
    const rlimit many{.rlim_cur = 1024, .rlim_max = 1024};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &many) == 0);
    auto client = arena.client();
    REQUIRE(put_identity(*client, {1, 1}, 1000, {}).has_value());
    REQUIRE(eventually([&] { return client->clients().size() == 1; }, seconds(5)),
            "{} clients are listed", client->clients().size());
    return 0;
  });
  EXPECT_EQ(process.wait(), 0);
  expect_nothing_left(arena);
}

// A process that gives up while it attaches, over and over, leaves nothing behind, though it lives.
TEST(Attach, GivingUpHalfwayTakesNoPlaceInTheArena) {
  ArenaProcess arena({.arena_bytes = 2 * kMiB, .objects_max = 50, .touch = false});
  arena.start();
  Child process([&] {
    auto client = arena.client();
    const store::AttachRequest request;
    for (std::uint32_t i = 0; i < kClientsMax + 50; ++i) {
      auto socket = store::connect_to(store::socket_path(arena.directory()));
      REQUIRE(socket.has_value(), "{}", socket.error().message);
      REQUIRE(store::send_frame(socket->get(), std::as_bytes(std::span(&request, 1))).has_value());
      if (i % 2 == 0) continue;  // hangs up before the answer; else after it
      const auto reply = store::receive_frame(socket->get(), sizeof(store::AttachReply),
                                              deadline_after(now(), kPatience));
      REQUIRE(reply.has_value(), "attempt {}: {}", i, reply.error().message);
      const auto decoded = store::decode_reply(reply->bytes);
      REQUIRE(decoded && decoded->code == 0, "attempt {}: {}", i,
              decoded ? decoded->message.data() : "");
    }
    REQUIRE(eventually([&] { return client->clients().size() == 1; }, seconds(5)),
            "{} clients are listed", client->clients().size());
    REQUIRE(arena.client()->attached());
    return 0;
  });
  EXPECT_EQ(process.wait(), 0);
  expect_nothing_left(arena);
}

TEST(Attach, AWrongVersionOrNonsenseIsRefusedWithItsReasonAndTheNextGoodClientIsServed) {
  ArenaProcess arena({.arena_bytes = 2 * kMiB, .objects_max = 50, .touch = false});
  arena.start();
  {
    auto ready = arena.client();
  }
  const auto answer_to = [&](std::span<const std::byte> frame) {
    auto socket = store::connect_to(store::socket_path(arena.directory()));
    EXPECT_TRUE(socket && store::send_frame(socket->get(), frame));
    auto reply = store::receive_frame(socket->get(), sizeof(store::AttachReply),
                                      deadline_after(now(), kPatience));
    EXPECT_TRUE(reply) << reply.error().message;
    EXPECT_TRUE(reply->fds.empty()) << "descriptors for a stranger";
    return *store::decode_reply(reply->bytes);
  };
  store::AttachRequest other;
  other.version = kAttachVersion + 1;
  const auto reply = answer_to(std::as_bytes(std::span(&other, 1)));
  EXPECT_EQ(reply.code, 1 + static_cast<std::uint32_t>(Code::kVersion));
  EXPECT_THAT(reply.message.data(), testing::HasSubstr("same Sluice version"));
  for (const std::size_t bytes :
       {std::size_t{1}, sizeof(other) - 1, sizeof(other) + 1, std::size_t{5000}}) {
    EXPECT_NE(answer_to(std::vector<std::byte>(bytes, std::byte{0x41})).code, 0u) << bytes;
  }
  store::AttachRequest stranger;
  stranger.client = 3;
  stranger.serial = 1;
  EXPECT_EQ(answer_to(std::as_bytes(std::span(&stranger, 1))).code,
            1 + static_cast<std::uint32_t>(Code::kDetached));
  EXPECT_TRUE(put_identity(*arena.client(), {1, 1}, 1000));
  expect_nothing_left(arena);
}

// A daemon that is stopped, not dead: its queue of connections fills up, and attaching still ends at its deadline.
TEST(Attach, ToADaemonThatStandsStillEndsAtTheDeadline) {
  ArenaProcess arena({.arena_bytes = 2 * kMiB, .objects_max = 50, .touch = false});
  arena.start();
  {
    auto ready = arena.client();
  }
  arena.daemon().signal(SIGSTOP);
  Child process([&] {
    std::vector<Result<UniqueFd>> waiting;
    std::atomic<std::uint32_t> made{0};
    for (std::uint32_t i = 0; i < 200; ++i) {
      auto socket = store::connect_to(store::socket_path(arena.directory()));
      if (!socket) break;
      waiting.push_back(std::move(socket));
    }
    const Instant start = now();
    const auto attached =
        Client::attach({.directory = arena.directory(), .attach_timeout = milliseconds(300)});
    REQUIRE(!attached, "attached to a daemon that stands still");
    REQUIRE(now() - start < 5000 * kNsPerMs, "{} ms", (now() - start) / kNsPerMs);
    return 0;
  });
  int result = -1;
  EXPECT_TRUE(eventually([&] { return process.ended(&result); }, seconds(60))) << "it hangs";
  EXPECT_EQ(result, 0);
  arena.daemon().signal(SIGCONT);
}

// A daemon that is slow is waited for until the caller's own deadline.
TEST(Attach, ToADaemonThatAnswersLateSucceedsBeforeTheCallersDeadline) {
  ArenaProcess arena({.arena_bytes = 2 * kMiB, .objects_max = 50, .touch = false});
  arena.start();
  {
    auto ready = arena.client();
  }
  arena.daemon().signal(SIGSTOP);
  Child process([&] {
    REQUIRE(put_identity(*arena.client(), {1, 1}, 1000).has_value());
    return 0;
  });
  std::this_thread::sleep_for(milliseconds(1500));  // longer than one attempt waits
  arena.daemon().signal(SIGCONT);
  EXPECT_EQ(process.wait(), 0);
  expect_nothing_left(arena);
}

// A busy ring does not keep the daemon from its other duties.
TEST(Busy, AStreamOfRequestsDoesNotKeepNewClientsOut) {
  ArenaProcess arena({.arena_bytes = 2 * kMiB, .objects_max = 50, .touch = false});
  arena.start();
  Shared<std::atomic<bool>> stop;
  std::vector<Child> load;
  for (int i = 0; i < 3; ++i) {
    load.emplace_back([&] {
      auto client = arena.client();
      std::vector<std::thread> threads;
      for (int t = 0; t < 6; ++t) {
        threads.emplace_back([&] {
          while (!*stop) [[maybe_unused]]
            const auto removed = client->remove(key_named("nothing"));
        });
      }
      for (auto& thread : threads) thread.join();
      return 0;
    });
  }
  for (int i = 0; i < 20; ++i) {
    const Instant start = now();
    Child late([&] {
      REQUIRE(put_identity(*arena.client(), {1, 1}, 1000).has_value());
      return 0;
    });
    EXPECT_EQ(late.wait(), 0);
    EXPECT_LT(now() - start, 5000 * kNsPerMs);
  }
  *stop = true;
  for (Child& child : load) EXPECT_EQ(child.wait(), 0);
  expect_nothing_left(arena);
}

}  // namespace
}  // namespace sluice::crash
