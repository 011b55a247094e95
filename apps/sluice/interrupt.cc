#include "interrupt.h"

#include <algorithm>
#include <climits>

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

namespace sluice::cli {
namespace {

sigset_t set_of(std::initializer_list<int> also) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  for (const int number : also) sigaddset(&set, number);
  return set;
}

}  // namespace

Interrupt::Interrupt(std::initializer_list<int> also) {
  const sigset_t set = set_of(also);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

Interrupt::~Interrupt() = default;

int Interrupt::take() const noexcept {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return 0;
  return static_cast<int>(info.ssi_signo);
}

bool Interrupt::wait_until(Instant deadline) const noexcept {
  pollfd waiting{fd_.get(), POLLIN, 0};
  while (true) {
    const Instant time = now();
    if (time >= deadline) return false;
    const auto ms = std::min<std::uint64_t>((deadline - time) / kNsPerMs + 1, INT_MAX);
    if (::poll(&waiting, 1, static_cast<int>(ms)) > 0) return true;
  }
}

}  // namespace sluice::cli
