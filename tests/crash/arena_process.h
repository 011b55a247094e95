// arena_process.h: an arena whose daemon is a process that tests may kill, and a look at what stands in its files.
//
// Threads: the test's only thread (see child.h).
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sluice/client.h>

#include "arena/shared_segment.h"
#include "child.h"
#include "self_describing.h"
#include "store/arena_files.h"
#include "store/control.h"
#include "store/daemon.h"
#include "store/test_arena.h"

namespace sluice::crash {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Longer than anything takes; a test that waits this long has failed.
inline constexpr seconds kPatience{60};

class ArenaProcess {
 public:
  explicit ArenaProcess(store::DaemonOptions options) : options_(std::move(options)) {
    static std::atomic<int> count{0};
    if (options_.directory.empty()) {
      options_.directory =
          "/dev/shm/sluice-crash-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
    }
    options_.keep_on_stop = true;
  }
  ~ArenaProcess() {
    daemon_ = Child();
    std::filesystem::remove_all(options_.directory);
  }
  ArenaProcess(const ArenaProcess&) = delete;
  ArenaProcess& operator=(const ArenaProcess&) = delete;

  // `before` runs in the new process first.
  void start(const std::function<void()>& before = {}) {
    daemon_ = Child([&] {
      if (before) before();
      auto daemon = store::Daemon::open(options_);
      REQUIRE(daemon.has_value(), "{}", daemon.error().message);
      (*daemon)->run();
      return 0;
    });
  }
  Child& daemon() noexcept { return daemon_; }
  void kill_daemon() { EXPECT_EQ(daemon_.kill_and_wait(), -SIGKILL); }
  const std::string& directory() const noexcept { return options_.directory; }
  store::DaemonOptions& options() noexcept { return options_; }

  // For children, and for the test itself between two forks. No threads, no grants ahead.
  std::unique_ptr<Client> client(ClientOptions options = {.grant_ahead_bytes = 0}) const {
    options.directory = options_.directory;
    options.attach_timeout = kPatience;
    options.populate_bytes_max = 0;
    auto client = Client::attach(options);
    REQUIRE(client.has_value(), "{}", client.error().message);
    return std::move(*client);
  }

 private:
  store::DaemonOptions options_;
  Child daemon_;
};

// The control segment as it stands, without a client.
class ControlFile {
 public:
  explicit ControlFile(const std::string& directory) {
    auto fd = arena::open_segment(store::control_path(directory), 0, arena::Access::kReadOnly);
    CHECK(fd.has_value());
    const auto bytes = arena::check_segment(fd->get(), 0, "control");
    CHECK(bytes.has_value());
    auto mapping = arena::map_segment(fd->get(), *bytes, {.access = arena::Access::kReadOnly});
    CHECK(mapping.has_value());
    mapping_ = std::move(*mapping);
    auto view = store::ControlView::validate(mapping_.bytes());
    CHECK(view.has_value());
    view_ = *view;
  }
  const store::ControlView& operator*() const noexcept { return view_; }
  const store::ControlView* operator->() const noexcept { return &view_; }

  // Slots in a state that is neither free nor published.
  std::vector<std::uint32_t> slots_in(store::SlotState state) const {
    std::vector<std::uint32_t> out;
    for (std::uint32_t i = 0; i < view_.all_slots(); ++i) {
      if (view_.slot(i).load().state == state) out.push_back(i);
    }
    return out;
  }
  std::uint64_t bytes_of(const std::vector<std::uint32_t>& slots) const {
    std::uint64_t sum = 0;
    for (const std::uint32_t i : slots) {
      sum += std::uint64_t{store::unpack_extent_info(view_.slot(i).extent_info.load()).pages} *
             kPageBytes;
    }
    return sum;
  }

 private:
  arena::Mapping mapping_;
  store::ControlView view_;
};

// Waits until `condition` holds. False when patience ended first.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::nanoseconds patience = kPatience) {
  const Instant deadline = deadline_after(now(), patience);
  while (!condition()) {
    if (now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return true;
}

// Removes every object and checks that nothing is left: no slot, no extent, no record, no client.
inline void expect_nothing_left(const ArenaProcess& arena) {
  {
    auto client = arena.client();
    const auto removed = client->invalidate("sluice1@");
    ASSERT_TRUE(removed) << removed.error().message;
  }
  const ControlFile control(arena.directory());
  const auto& c = control->header().counters;
  const auto clean = [&] {
    return c.clients == 0 && c.objects == 0 && c.used_bytes == 0 && c.reserved_bytes == 0 &&
           c.record_bytes == 0;
  };
  EXPECT_TRUE(eventually(clean, seconds(10)))
      << "clients " << c.clients << ", objects " << c.objects << ", used " << c.used_bytes
      << ", reserved " << c.reserved_bytes << ", records " << c.record_bytes;
  using store::SlotState;
  for (const SlotState state :
       {SlotState::kReserved, SlotState::kExpired, SlotState::kPublished, SlotState::kRetired}) {
    EXPECT_TRUE(control.slots_in(state).empty()) << "slots in state " << static_cast<int>(state);
  }
  for (const auto& kind : c.kinds) EXPECT_EQ(kind.objects + kind.object_bytes, 0u);
}

inline std::string key_name(std::uint32_t key) {
  return "k" + std::to_string(key);
}

inline Result<PutOutcome> put_identity(Client& client, Identity id, std::size_t bytes,
                                       const PutOptions& options = {}) {
  return store::put_bytes(client, key_name(id.key), written(id, bytes), options);
}

// Whose bytes stand under this lease; nothing when they are not all of one object.
inline std::optional<Identity> identity_of(const Lease& lease) {
  const auto tensors = lease.tensors();
  if (!tensors || tensors->size() != 1) return std::nullopt;
  return read_back(
      lease.bytes().subspan(tensors->front().data_offset, tensors->front().data_bytes));
}

inline bool soak() {
  return std::getenv("SLUICE_SOAK") != nullptr;
}

}  // namespace sluice::crash
