#include "sched/retry.h"

#include <algorithm>

namespace sluice::sched {

std::string_view name(Failure failure) noexcept {
  switch (failure) {
    case Failure::kRefused:
      return "refused";
    case Failure::kBroken:
      return "broken";
    case Failure::kEngine:
      return "engine";
    case Failure::kBusy:
      return "busy";
    case Failure::kRequest:
      return "request";
    case Failure::kDeadline:
      return "deadline";
    case Failure::kGone:
      return "gone";
  }
  return "unknown";
}

Next after_failure(const Attempt& attempt) noexcept {
  if (attempt.content_sent) return Next::kGiveUp;
  if (attempt.failure == Failure::kDeadline || attempt.failure == Failure::kGone) {
    return Next::kGiveUp;
  }
  const bool engine_answered =
      attempt.failure == Failure::kEngine || attempt.failure == Failure::kRequest;
  if (engine_answered && attempt.with_references && !attempt.media_tried) return Next::kWithMedia;
  if (attempt.failure == Failure::kRequest) return Next::kGiveUp;
  return attempt.tries < attempt.tries_max ? Next::kAnotherInstance : Next::kGiveUp;
}

void RetryBudget::on_request() noexcept {
  tokens_ = std::min(burst_, tokens_ + share_);
}

bool RetryBudget::take() noexcept {
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

}  // namespace sluice::sched
