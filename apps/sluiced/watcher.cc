#include "sluiced/watcher.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/quantity.h"
#include "common/stop_signals.h"

namespace sluice::daemon {
namespace {

constexpr std::uint64_t kLoopAgeMaxNs =
    5'000 * kNsPerMs;  // no watchdog message for a loop that stood longer than this
constexpr int kTickMs = 250;

}  // namespace

Result<std::unique_ptr<Watcher>> Watcher::open(WatcherOptions options) {
  auto signals = app::watch_stop_signals();
  if (!signals) return std::unexpected(signals.error());
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return fail(Code::kIo, fmt::format("cannot be woken: {}", std::strerror(errno)));
  return std::unique_ptr<Watcher>(
      new Watcher(std::move(options), std::move(*signals), std::move(wake)));
}

Watcher::Watcher(WatcherOptions options, UniqueFd signals, UniqueFd wake)
    : options_(std::move(options)),
      notifier_(options_.notify_socket),
      signals_(std::move(signals)),
      wake_(std::move(wake)) {}

Watcher::~Watcher() {
  stop();
}

void Watcher::start(store::Daemon& daemon) {
  daemon_.store(&daemon);
  thread_ = std::thread([this] { watch(); });
}

void Watcher::stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  thread_.join();
  daemon_.store(nullptr);
}

store::DaemonHealth Watcher::health() const noexcept {
  const store::Daemon* daemon = daemon_.load();
  return daemon != nullptr ? daemon->health() : store::DaemonHealth{};
}

void Watcher::watch() {
  const int tick_ms =
      options_.watchdog_us == 0
          ? kTickMs
          : static_cast<int>(std::clamp<std::uint64_t>(options_.watchdog_us / 3'000, 1, kTickMs));
  std::array<pollfd, 2> fds = {pollfd{signals_.get(), POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
  while (true) {
    // Ready has been told and nobody waits for a heartbeat: sleep until a signal.
    const bool idle = told_ready_ && options_.watchdog_us == 0;
    ::poll(fds.data(), fds.size(), idle || !notifier_.connected() ? -1 : tick_ms);
    if ((fds[1].revents & POLLIN) != 0) return;
    if ((fds[0].revents & POLLIN) != 0) on_signal();
    on_tick();
  }
}

void Watcher::on_signal() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    ++signals_seen_;
    store::Daemon& daemon = *daemon_.load();
    const char* signal_name = info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM";
    if (signals_seen_ == 1) {
      options_.log->info(fmt::format("{}: draining for up to {}; another signal stops at once",
                                     signal_name, app::format_duration(options_.drain_timeout)));
      notifier_.tell("STOPPING=1\nSTATUS=draining");
      daemon.drain(deadline_after(now(), options_.drain_timeout));
    } else {
      options_.log->warning(fmt::format("{}: stopping now", signal_name));
      daemon.stop();
    }
  }
}

void Watcher::on_tick() {
  if (!notifier_.connected()) return;
  const store::DaemonHealth health = daemon_.load()->health();
  const Instant time = now();
  const bool turning = health.loop_heartbeat_ns + kLoopAgeMaxNs > time;
  if (health.ready && !told_ready_ && signals_seen_ == 0) {
    told_ready_ = true;
    notifier_.tell("READY=1\nSTATUS=serving");
  } else if (!told_ready_ && signals_seen_ == 0) {
    notifier_.tell(fmt::format("STATUS=touching the arena, {:.0f}%\nEXTEND_TIMEOUT_USEC=30000000",
                               health.touched_share * 100));
  }
  if (options_.watchdog_us != 0 && turning) notifier_.tell("WATCHDOG=1");
}

}  // namespace sluice::daemon
