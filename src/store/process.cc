#include "store/process.h"

#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sluice::store {
namespace {

struct Stat {
  std::uint64_t start_time = 0;  // 0: it could not be read
  bool zombie = false;
};

Stat read_stat(pid_t pid) noexcept {
  std::array<char, 64> path{};
  *fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/stat", pid).out = '\0';
  const UniqueFd fd(::open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!fd) return {};
  std::array<char, 1024> text{};
  const ssize_t n = ::read(fd.get(), text.data(), text.size());
  if (n <= 0) return {};
  // The second field is a name in brackets that may hold anything; the start time is the 20th after
  // it.
  std::string_view rest(text.data(), static_cast<std::size_t>(n));
  const std::size_t bracket = rest.rfind(')');
  if (bracket == std::string_view::npos) return {};
  rest.remove_prefix(bracket + 1);
  Stat stat;
  for (int field = 0; field < 20; ++field) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return {};
    if (field == 1) stat.zombie = rest.front() == 'Z' || rest.front() == 'X';
    rest.remove_prefix(space + 1);
  }
  std::from_chars(rest.data(), rest.data() + rest.size(), stat.start_time);
  return stat;
}

}  // namespace

// A zombie has ended: nothing of it runs, though its entry still stands.
std::uint64_t start_time_of(pid_t pid) noexcept {
  const Stat stat = read_stat(pid);
  return stat.zombie ? 0 : stat.start_time;
}

UniqueFd open_pidfd(pid_t pid) noexcept {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

Watched watch_process(pid_t pid, std::uint64_t start_time) noexcept {
  Watched watched{.life = Life::kEnded, .pidfd = open_pidfd(pid)};
  if (!watched.pidfd) {
    if (errno != ESRCH) watched.life = Life::kUnknown;
    return watched;
  }
  // Read while the descriptor holds the number: it is not given to another process meanwhile unless
  // this one has ended.
  const std::uint64_t found = read_stat(pid).start_time;
  pollfd ended{.fd = watched.pidfd.get(), .events = POLLIN, .revents = 0};
  const int ready = ::poll(&ended, 1, 0);
  if (ready == 0 && found == start_time) {
    watched.life = Life::kLives;
  } else if (ready < 0 || (ready == 0 && found == 0)) {
    watched.life = Life::kUnknown;
  }
  if (watched.life != Life::kLives) watched.pidfd.reset();
  return watched;
}

bool is_alive(pid_t pid, std::uint64_t start_time) noexcept {
  return pid > 0 && start_time != 0 && start_time_of(pid) == start_time;
}

}  // namespace sluice::store
