#include "base/futex.h"

#include <climits>

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sluice {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

bool futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Instant deadline,
                std::uint32_t bits) noexcept {
  const timespec until = to_timespec(deadline);
  const long rc = ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected, &until, nullptr, bits);
  return rc == 0 || errno != ETIMEDOUT;
}

void futex_wake_all(const std::atomic<std::uint32_t>& word, std::uint32_t bits) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr, bits);
}

}  // namespace sluice
