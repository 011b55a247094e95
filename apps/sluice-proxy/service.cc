#include "sluice-proxy/service.h"

#include <atomic>
#include <thread>

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <sluice/version.h>

#include "base/unique_fd.h"
#include "common/exit_code.h"
#include "common/log.h"
#include "common/notify.h"
#include "common/quantity.h"
#include "common/stop_signals.h"
#include "sluice-proxy/access_log.h"

namespace sluice::proxy_app {
namespace {

constexpr int kFlushMs = 200;

int exit_code_of(Code code) {
  switch (code) {
    case Code::kUnavailable:
      return app::kExitBusy;
    case Code::kInvalidArgument:
    case Code::kLimit:
    case Code::kPermission:
      return app::kExitBadConfig;
    default:
      return app::kExitError;
  }
}

// Until the next signal; flushes the access log meanwhile.
void wait_for_signal(const UniqueFd& signals, const AccessLog& log, const std::atomic<bool>* done) {
  pollfd fd{signals.get(), POLLIN, 0};
  while (done == nullptr || !*done) {
    const int ready = ::poll(&fd, 1, kFlushMs);
    log.flush();
    if (ready <= 0) continue;
    signalfd_siginfo info{};
    if (::read(signals.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) return;
  }
}

std::string shown_address(const proxy::ProxyOptions& options, std::uint16_t port) {
  const bool v6 = options.host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", options.host, v6 ? "]" : "", port);
}

// The first signal drains, the second one stops at once.
void drain(proxy::Proxy& proxy, const UniqueFd& signals, const app::Log& log,
           const AccessLog& access_log, std::chrono::milliseconds timeout) {
  log.info(fmt::format("draining for up to {}; another signal stops at once",
                       app::format_duration(timeout)));
  std::atomic<bool> drained = false;
  std::atomic<bool> all_done = false;
  std::jthread draining([&] {
    all_done = proxy.drain(timeout);
    drained = true;
  });
  wait_for_signal(signals, access_log, &drained);
  if (!drained) {
    log.warning("stopping now");
    proxy.stop();  // ends the drain as well
  } else if (!all_done) {
    log.warning("some requests did not end in time and are cut off");
  }
}

}  // namespace

int run_service(Invocation invocation) {
  ProxySettings& settings = invocation.settings;
  const app::Log log("sluice-proxy", settings.log_level, settings.log_json);
  const AccessLog access_log;
  const auto signals = app::watch_stop_signals();
  if (!signals) {
    log.error(signals.error().message);
    return app::kExitError;
  }
  settings.proxy.log = [&log](std::string_view message) { log.info(message); };
  if (settings.access_log) {
    settings.proxy.access_log = [&](const std::string& json) { access_log.write(json); };
  }
  settings.proxy.log_lines_lost = [&] { return log.lines_lost() + access_log.lines_lost(); };
  const proxy::ProxyOptions shown{.host = settings.proxy.host};
  const std::size_t instances = settings.proxy.instances.size();
  const std::chrono::milliseconds drain_timeout = settings.drain_timeout;
  auto opened = proxy::Proxy::open(std::move(settings.proxy));
  if (!opened) {
    log.error(fmt::format("start: {}", opened.error().message));
    return exit_code_of(opened.error().code);
  }
  proxy::Proxy& proxy = **opened;
  proxy.start();
  log.info(fmt::format("sluice-proxy {} serves {}/v1 with {} engines", kVersion,
                       shown_address(shown, proxy.port()), instances));
  // Engines may register later, or wait for us themselves: ready means that there is an answer.
  const app::Notifier notifier(invocation.notify_socket);
  notifier.tell(fmt::format("READY=1\nSTATUS=serves on port {}", proxy.port()));
  wait_for_signal(*signals, access_log, nullptr);
  notifier.tell("STOPPING=1\nSTATUS=finishes what runs");
  drain(proxy, *signals, log, access_log, drain_timeout);
  proxy.stop();
  access_log.flush();
  return app::kExitOk;
}

}  // namespace sluice::proxy_app
