// daemon.h: the store loop of `sluiced`: owns the arena's files, serves the attach socket and every
// client's ring.
//
// Invariant: the only writer of the control segment; one per arena, by a lock that only its death
//            releases.
// Threads:   open() and run() on one thread. drain(), stop() and health() from any thread; stop()
//            also from a signal handler.
// Failure:   open() refuses with kInvalidArgument/kOutOfSpace/kPermission/kIo/kVersion/kCorrupt, or
//            kUnavailable when another daemon holds the arena (exit 75). After open() no client and
//            no malformed request can make run() return early.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <sluice/error.h>

#include "base/clock.h"

namespace sluice::store {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };
enum class HugePages : std::uint8_t {
  kNever,
  kTry
};  // kTry: MADV_HUGEPAGE, where the kernel lets shared memory have them

struct DaemonOptions {
  std::string directory;  // the arena's folder; created when missing
  std::uint64_t arena_bytes = std::uint64_t{1} << 30;
  std::uint64_t segment_bytes = 0;  // 0: the whole arena in one segment; bounds the largest object
  std::uint32_t objects_max = 100'000;
  double high_watermark = 0.95;  // background eviction starts above this share of the arena ...
  double low_watermark = 0.90;   // ... and ends below this one
  std::uint64_t reserved_bytes_per_client = 0;  // 0: half of the arena
  HugePages huge_pages = HugePages::kTry;
  std::uint32_t directory_mode = 0700;
  bool keep_on_stop = false;  // a clean stop leaves the arena for the next daemon to adopt
  bool touch = true;  // write every page once, in the background, so that no put pays for it
  std::function<void(LogLevel, std::string_view)> log;  // any thread; may be empty
};

// What /livez, /readyz and systemd are told.
struct DaemonHealth {
  bool ready = false;  // serving, and the first background touch is done or off
  bool draining = false;
  std::uint64_t loop_heartbeat_ns =
      0;                     // last turn of the loop, at most a second old while it is healthy
  double touched_share = 0;  // of the arena, 0..1
  std::uint64_t late_requests = 0;  // first seen after their deadline
};

class DaemonLoop;

class Daemon {
 public:
  static Result<std::unique_ptr<Daemon>> open(DaemonOptions options);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  void run();  // until stop(), or until a drain has ended
  void drain(
      Instant
          deadline) noexcept;  // refuses new reservations; run() returns when the last one ended, or then
  void stop() noexcept;        // now; async-signal-safe
  DaemonHealth health() const noexcept;
  bool adopted() const noexcept;  // open() took over what another daemon had left

 private:
  explicit Daemon(std::unique_ptr<DaemonLoop> loop);
  std::unique_ptr<DaemonLoop> loop_;
};

// "/dev/shm/sluice-<uid>-<arena>"; refuses a name that is empty, over 64 bytes, or not
// [A-Za-z0-9_.-].
Result<std::string> default_directory(std::string_view arena);

}  // namespace sluice::store
