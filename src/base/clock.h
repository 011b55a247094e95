// clock.h: one clock for every deadline: CLOCK_MONOTONIC in nanoseconds since boot, equal in all
// processes of a machine.
//
// State machines never read it: they are handed `now`. Only the edges call now().
#pragma once

#include <chrono>
#include <cstdint>

#include <time.h>

namespace sluice {

// Nanoseconds since boot. 0 means "never set".
using Instant = std::uint64_t;

inline constexpr std::uint64_t kNsPerMs = 1'000'000;
inline constexpr Instant kFarFuture = UINT64_MAX;

inline Instant now() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(t.tv_nsec);
}

// now + timeout, saturating; a negative timeout is a deadline that has passed.
inline Instant deadline_after(Instant start, std::chrono::nanoseconds timeout) noexcept {
  if (timeout.count() <= 0) return start;
  const auto add = static_cast<std::uint64_t>(timeout.count());
  return add > kFarFuture - start ? kFarFuture : start + add;
}

inline timespec to_timespec(Instant t) noexcept {
  return {static_cast<time_t>(t / 1'000'000'000u), static_cast<long>(t % 1'000'000'000u)};
}

inline void sleep_until(Instant t) noexcept {
  const timespec until = to_timespec(t);
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

}  // namespace sluice
