#include "common/stop_signals.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <signal.h>
#include <sys/signalfd.h>

namespace sluice::app {

Result<UniqueFd> watch_stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail(Code::kIo, fmt::format("cannot watch signals: {}", std::strerror(errno)));
  return fd;
}

}  // namespace sluice::app
