// prefill_run.h: a prefill that goes on beside its request, so that decode can be asked as soon as
// the hand-off has begun.
//
// Invariant: it ends exactly once, at the latest by the request's deadline, or soon after stop().
//            The hand-offs of all its tries are ended, when nobody holds it any more at the latest.
// Threads:   the worker's.
// Owner:     the request and the running coroutine share it; the coroutine shares what it reads of
//            the request, which may end first.
// Failure:   as prefill().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "http/stop_source.h"
#include "proxy/encode_stage.h"
#include "proxy/prefill_stage.h"
#include "proxy/waiting.h"

namespace sluice::proxy {

struct PrefillAsk {
  std::shared_ptr<const ReadBody> body;
  std::shared_ptr<const RequestMedia> media;
  std::string target;
  bool references = true;
  bool features = true;
};

class PrefillRun {
 public:
  static std::shared_ptr<PrefillRun> start(const Errand& of, PrefillAsk ask);
  ~PrefillRun();
  PrefillRun(const PrefillRun&) = delete;
  PrefillRun& operator=(const PrefillRun&) = delete;

  // Until it has ended.
  boost::asio::awaitable<void> ended();
  // Until it has ended or the first part of its hand-off is in the arena.
  boost::asio::awaitable<void> ended_or_begun();

  bool has_ended() const noexcept { return has_ended_; }
  Instant ended_at() const noexcept { return ended_at_; }
  std::uint64_t took_ns() const noexcept { return ended_at_ - began_; }
  // Of the try that runs, or ran last.
  const std::string& handoff() const noexcept { return handoffs_.back(); }
  // What is left to say when it has ended: whether references failed, and the outcome, once.
  bool references() const noexcept { return references_; }
  StageResult<PrefillOutcome> take_outcome() { return std::move(outcome_); }
  // It has ended with a commit of this hand-off.
  bool committed(const std::string& handoff) const;

  // Nobody reads its hand-offs any more. Once it has ended; at the latest when nobody holds it.
  void end_handoffs();
  // Called at its end; empty takes it away.
  void on_end(std::function<void()> callback) { on_end_ = std::move(callback); }
  void stop() { stop_.stop(); }

 private:
  explicit PrefillRun(const Errand& of);
  static boost::asio::awaitable<void> work(std::shared_ptr<PrefillRun> run, PrefillAsk ask);

  http::StopSource stop_;
  Errand errand_;
  Gate gate_;
  std::vector<std::string> handoffs_;
  StageResult<PrefillOutcome> outcome_;  // once it has ended
  Instant began_ = now(), ended_at_ = 0;
  bool has_ended_ = false, references_ = true, handoffs_ended_ = false;
  std::function<void()> on_end_;
};

}  // namespace sluice::proxy
