// retry.h: what happens after a stage of a request failed.
//
// Invariant: nothing is tried again once the client has seen content, after its deadline, or when
//            the failure is the request's own fault. A failure of a request that carried references
//            is tried once with the media itself. Retries of all requests together stay below a
//            share of the requests (the budget), so that a dying pool is not buried by them.
// Pure; the budget has one owner (proxy::Director guards it).
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::sched {

enum class Failure : std::uint8_t {
  kRefused,   // could not connect, or closed before an answer
  kBroken,    // an answer that ended too early or was malformed
  kEngine,    // 5xx, or an error event
  kBusy,      // 429 or 503
  kRequest,   // other 4xx: the same request would fail anywhere
  kDeadline,  // the request's time is over
  kGone,      // the client left
};
std::string_view name(Failure failure) noexcept;

struct Attempt {
  Failure failure = Failure::kRefused;
  std::uint32_t tries = 1;  // of this stage, the failed one included
  std::uint32_t tries_max = 3;
  bool content_sent = false;     // the client has seen content
  bool with_references = false;  // it carried references in the place of media
  bool media_tried = false;      // the one try with media was used
};

enum class Next : std::uint8_t { kGiveUp, kAnotherInstance, kWithMedia };

Next after_failure(const Attempt& attempt) noexcept;

// A bucket that every request fills a little and every retry empties by one.
class RetryBudget {
 public:
  RetryBudget(double share, double burst) noexcept : share_(share), burst_(burst), tokens_(burst) {}
  void on_request() noexcept;
  bool take() noexcept;  // false: no retry now
  double tokens() const noexcept { return tokens_; }

 private:
  double share_;
  double burst_;
  double tokens_;
};

}  // namespace sluice::sched
