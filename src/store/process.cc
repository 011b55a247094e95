#include "store/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string>
#include <string_view>

namespace sluice::store {

std::uint64_t start_time_of(pid_t pid) noexcept {
  std::array<char, 64> path{};
  *fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/stat", pid).out = '\0';
  const UniqueFd fd(::open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!fd) return 0;
  std::array<char, 1024> text{};
  const ssize_t n = ::read(fd.get(), text.data(), text.size());
  if (n <= 0) return 0;
  // The second field is a name in brackets that may hold anything; the start time is the 20th after it.
  std::string_view rest(text.data(), static_cast<std::size_t>(n));
  const std::size_t bracket = rest.rfind(')');
  if (bracket == std::string_view::npos) return 0;
  rest.remove_prefix(bracket + 1);
  for (int field = 0; field < 20; ++field) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return 0;
    // A zombie has ended: nothing of it runs, though its entry still stands.
    if (field == 1 && (rest.front() == 'Z' || rest.front() == 'X')) return 0;
    rest.remove_prefix(space + 1);
  }
  std::uint64_t ticks = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), ticks);
  return ticks;
}

UniqueFd open_pidfd(pid_t pid) noexcept { return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

bool is_alive(pid_t pid, std::uint64_t start_time) noexcept {
  return pid > 0 && start_time != 0 && start_time_of(pid) == start_time;
}

}  // namespace sluice::store
