#include "store/request_ring.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/futex.h"

namespace sluice::store {
namespace {

// How long a sleeper trusts that the daemon lives before it looks.
constexpr std::uint64_t kLookAfterNs = 50 * kNsPerMs;
// The daemon answers at the deadline that stands in the request: until then it may wait for space.
// On processors that engines have taken it may not be run for a second; given up too early, a
// request costs more than this waiting does.
constexpr std::uint64_t kGraceNs = 1000 * kNsPerMs;
constexpr std::uint64_t kGraceOfSilentNs = 25 * kNsPerMs;

constexpr std::size_t index_of(std::uint64_t number) noexcept {
  return number % kRingEntries;
}

}  // namespace

RequestRing::RequestRing(PageView page) : page_(page) {}

bool RequestRing::answered(std::uint64_t number) const noexcept {
  return page_.completion(number).number.load(std::memory_order_acquire) == number;
}

Answered RequestRing::take(std::uint64_t number) {
  const Completion& c = page_.completion(number);
  Answered a{.op = ops_[index_of(number)],
             .answer = static_cast<Answer>(c.answer),
             .slot = c.slot,
             .generation = c.generation,
             .reservation = c.reservation,
             .extent_bytes = c.extent_bytes,
             .offset = c.offset,
             .segment = c.segment,
             .count = c.count};
  entries_[index_of(number)] = Entry::kFree;
  silent_.store(false, std::memory_order_relaxed);
  return a;
}

Result<std::uint64_t> RequestRing::submit(Instant deadline,
                                          const std::function<void(Submission&)>& fill) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const std::uint64_t number = last_number_ + 1;
    const std::size_t index = index_of(number);
    if (entries_[index] == Entry::kLeft && answered(number - kRingEntries)) {
      late_.push_back(take(number - kRingEntries));
    }
    if (entries_[index] == Entry::kFree) {
      last_number_ = number;
      entries_[index] = Entry::kWaited;
      Submission& s = page_.submission(number);
      fill(s);
      s.deadline_ns = deadline;
      ops_[index] = static_cast<Op>(s.op);
      s.number.store(number, std::memory_order_seq_cst);
      return number;
    }
    // Every place is taken by a request that waits for its answer.
    auto& header = page_.header();
    const std::uint32_t seen = header.answers.load(std::memory_order_seq_cst);
    lock.unlock();
    const Instant t = now();
    if (t >= deadline)
      return fail(Code::kTimedOut, "64 requests of this process wait for the daemon already");
    header.sleepers.fetch_add(1, std::memory_order_seq_cst);
    futex_wait(header.answers, seen, std::min(deadline, t + kLookAfterNs));
    header.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    lock.lock();
  }
}

Result<Answered> RequestRing::wait(std::uint64_t number, Instant deadline,
                                   const std::function<Status()>& check) {
  auto& header = page_.header();
  const Instant asked_at = now();
  std::uint64_t not_run_ns = 0;  // since then, beyond the ends of sleeps
  // Also at the deadline, from which on there is no hope without a daemon.
  const auto next_look = [deadline](Instant t) {
    return t < deadline ? std::min(t + kLookAfterNs, deadline) : t + kLookAfterNs;
  };
  Instant look_at = next_look(asked_at);
  const std::uint64_t grace = silent_.load(std::memory_order_relaxed) ? kGraceOfSilentNs : kGraceNs;
  const Instant give_up = deadline > kFarFuture - grace ? kFarFuture : deadline + grace;
  for (;;) {
    if (answered(number)) {
      const std::scoped_lock lock(mutex_);
      return take(number);
    }
    header.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t seen = header.answers.load(std::memory_order_seq_cst);
    const Instant wake_at = std::min(give_up, look_at);
    if (!answered(number)) futex_wait(header.answers, seen, wake_at);
    header.sleepers.fetch_sub(1, std::memory_order_seq_cst);

    const Instant t = now();
    if (t > wake_at) not_run_ns += t - std::max(wake_at, asked_at);
    if (t >= give_up && !answered(number)) {
      leave(number);
      silent_.store(true, std::memory_order_relaxed);
      return fail(Code::kTimedOut,
                  fmt::format("the daemon did not answer before the deadline: asked {} ms ago, and "
                              "this thread was not run for {} ms of them",
                              (t - asked_at) / kNsPerMs, not_run_ns / kNsPerMs));
    }
    if (t >= look_at) {
      look_at = next_look(t);
      if (auto status = check(); !status && !answered(number)) {
        leave(number);
        return std::unexpected(status.error());
      }
    }
  }
}

void RequestRing::leave(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  entries_[index_of(number)] = Entry::kLeft;
}

std::vector<Answered> RequestRing::unclaimed() {
  const std::scoped_lock lock(mutex_);
  std::vector<Answered> out = std::exchange(late_, {});
  const std::uint64_t first = last_number_ >= kRingEntries ? last_number_ - kRingEntries + 1 : 1;
  for (std::uint64_t number = first; number <= last_number_; ++number) {
    if (entries_[index_of(number)] == Entry::kLeft && answered(number)) out.push_back(take(number));
  }
  return out;
}

}  // namespace sluice::store
