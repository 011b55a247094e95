// process.h: whether a process lives, as the kernel says.
#pragma once

#include <cstdint>

#include <sys/types.h>

#include "base/unique_fd.h"

namespace sluice::store {

// Clock ticks since boot at which the process started; 0 when it does not exist. Tells a recycled
// pid apart.
std::uint64_t start_time_of(pid_t pid) noexcept;

// A descriptor that becomes readable when the process ends. Empty when it has ended.
UniqueFd open_pidfd(pid_t pid) noexcept;

enum class Life : std::uint8_t {
  kLives,
  kEnded,
  kUnknown,  // the kernel could not be asked: no descriptor left, no right
};
struct Watched {
  Life life = Life::kUnknown;
  UniqueFd pidfd;  // while it lives
};
// The process that started at `start_time`: death is the kernel's word, never the want of one.
Watched watch_process(pid_t pid, std::uint64_t start_time) noexcept;

// True while the process that started at `start_time` lives.
bool is_alive(pid_t pid, std::uint64_t start_time) noexcept;

}  // namespace sluice::store
