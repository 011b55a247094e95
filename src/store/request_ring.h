// request_ring.h: the client's side of its page's rings: submit, wait for the answer, remember what
// was not waited for.
//
// Invariant: an index of the ring is used again only after its answer was read. An answer that
//            nobody waits for any more is not lost: unclaimed() hands it out, so that a grant that
//            came too late is given back.
// Threads:   any; the mutex is held while an entry is written, never while waiting.
// Failure:   kTimedOut a second after the deadline, at which the daemon answers by itself; at the
//            deadline while a daemon that was waited for so long has answered nothing since. What
//            `check` says when it ends a wait.
// Limits:    kRingEntries requests in flight; further ones wait for a place until their deadline.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include <sluice/error.h>

#include "base/clock.h"
#include "store/client_page.h"

namespace sluice::store {

struct Answered {
  Op op = Op::kNone;
  Answer answer = Answer::kOk;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::uint64_t reservation = 0;
  std::uint64_t extent_bytes = 0;
  std::uint64_t offset = 0;
  std::uint32_t segment = 0;
  std::uint64_t count = 0;
};

class RequestRing {
 public:
  explicit RequestRing(PageView page);

  // Writes one entry; `fill` sets every field but the number and the deadline. Returns the
  // request's number.
  Result<std::uint64_t> submit(Instant deadline, const std::function<void(Submission&)>& fill);
  // Sleeps until the answer is there, for a second beyond the deadline when the daemon is late.
  // Called about every 50 ms while waiting, and at the deadline, `check` may end the wait with an
  // error.
  Result<Answered> wait(std::uint64_t number, Instant deadline,
                        const std::function<Status()>& check);
  // Leaves the answer to unclaimed().
  void leave(std::uint64_t number);
  // Answers that came for requests that were left. Does not wait.
  std::vector<Answered> unclaimed();

 private:
  enum class Entry : std::uint8_t { kFree, kWaited, kLeft };

  Answered take(std::uint64_t number);
  bool answered(std::uint64_t number) const noexcept;

  PageView page_;
  std::mutex mutex_;
  std::uint64_t last_number_ = 0;
  std::array<Entry, kRingEntries> entries_{};
  std::array<Op, kRingEntries> ops_{};
  std::atomic<bool> silent_{false};  // one was waited for in vain, and no answer has come since
  std::vector<Answered> late_;       // answers of left requests whose index was needed
};

}  // namespace sluice::store
