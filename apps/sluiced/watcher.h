// watcher.h: turns signals and time into drain, stop, and what systemd is told.
//
// Invariant: the first SIGTERM or SIGINT drains, the second stops; no signal handler runs any code
//            of ours.
// Threads:   open(), start(), stop() on the main thread, before any other thread exists (open()
//            blocks the signals for all of them); health() from any. One thread of its own between
//            start() and stop().
// Failure:   open() answers kIo when the kernel has no descriptors left.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include <sluice/error.h>

#include "base/unique_fd.h"
#include "common/log.h"
#include "common/notify.h"
#include "store/daemon.h"

namespace sluice::daemon {

struct WatcherOptions {
  std::string notify_socket;
  std::uint64_t watchdog_us = 0;  // 0: systemd has no watchdog on us
  std::chrono::nanoseconds drain_timeout{};
  const app::Log* log = nullptr;  // outlives the watcher
};

class Watcher {
 public:
  static Result<std::unique_ptr<Watcher>> open(WatcherOptions options);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  void start(store::Daemon& daemon);  // which outlives stop()
  void stop();

  // The daemon's health; not ready before start().
  store::DaemonHealth health() const noexcept;

 private:
  Watcher(WatcherOptions options, UniqueFd signals, UniqueFd wake);

  void watch();
  void on_signal();
  void on_tick();

  WatcherOptions options_;
  app::Notifier notifier_;
  UniqueFd signals_;
  UniqueFd wake_;
  std::atomic<store::Daemon*> daemon_ = nullptr;
  std::thread thread_;
  int signals_seen_ = 0;  // the watcher's thread only, as is what follows
  bool told_ready_ = false;
};

}  // namespace sluice::daemon
