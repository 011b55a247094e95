// futex.h: sleeping on a 32-bit word that other processes change.
//
// Works on read-only mappings too. A wake-up may be spurious: callers look at their condition
// again.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace sluice {

inline constexpr std::uint32_t kFutexAnyBit = 0xFFFFFFFFu;

// Sleeps while *word == expected, until a wake-up whose bits overlap, or until the deadline
// (CLOCK_MONOTONIC). Returns false only when the deadline passed.
bool futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Instant deadline,
                std::uint32_t bits = kFutexAnyBit) noexcept;

// Wakes every sleeper on `word` whose bits overlap. Requires a writable or readable mapping of the
// word.
void futex_wake_all(const std::atomic<std::uint32_t>& word,
                    std::uint32_t bits = kFutexAnyBit) noexcept;

}  // namespace sluice
