#include "proxy/prefill_run.h"

#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

namespace sluice::proxy {
namespace {

constexpr Instant kPaceNs = kNsPerMs;  // between two looks for a hand-off's first part

StageFailure given_up() {
  return {.failure = sched::Failure::kBroken,
          .error = {.status = 500,
                    .message = "the prefill stage could not be run",
                    .code = "internal_error"}};
}

}  // namespace

PrefillRun::PrefillRun(const Errand& of) : errand_(of), gate_(of.worker.io().get_executor()) {
  errand_.stop = &stop_;
}

PrefillRun::~PrefillRun() {
  end_handoffs();
}

void PrefillRun::end_handoffs() {
  if (std::exchange(handoffs_ended_, true)) return;
  add(errand_.worker.meter.handoffs_ended, handoffs_.size());
  if (errand_.core.features == nullptr) return;
  const bool answered = has_ended_ && outcome_;  // by the engine that was asked last
  for (const std::string& handoff : handoffs_) {
    errand_.core.features->end_handoff(handoff, answered && handoff == handoffs_.back());
  }
}

std::shared_ptr<PrefillRun> PrefillRun::start(const Errand& of, PrefillAsk ask) {
  std::shared_ptr<PrefillRun> run(new PrefillRun(of));
  boost::asio::co_spawn(of.worker.io(), work(run, std::move(ask)), boost::asio::detached);
  return run;
}

boost::asio::awaitable<void> PrefillRun::work(std::shared_ptr<PrefillRun> run, PrefillAsk ask) {
  StageResult<PrefillOutcome> outcome;
  StageInput input{.request = ask.body->scanned,
                   .media = *ask.media,
                   .target = std::move(ask.target),
                   .references = ask.references,
                   .features = ask.features};
  try {
    outcome = co_await prefill(run->errand_, input, run->handoffs_);
  } catch (const std::exception&) {
    outcome = std::unexpected(given_up());  // out of memory
  }
  run->references_ = input.references;
  run->outcome_ = std::move(outcome);
  run->has_ended_ = true;
  run->ended_at_ = now();
  run->gate_.open();
  if (const auto callback = std::exchange(run->on_end_, {})) callback();
}

boost::asio::awaitable<void> PrefillRun::ended() {
  while (!has_ended()) co_await gate_.wait(kFarFuture);  // the stage itself keeps the deadline
}

boost::asio::awaitable<void> PrefillRun::ended_or_begun() {
  const FeatureDirectory* arena = errand_.core.features.get();
  if (arena == nullptr) {
    co_await ended();
    co_return;
  }
  while (!has_ended()) {
    if (!handoffs_.empty() && arena->handoff_has_begun(handoffs_.back())) co_return;
    co_await gate_.wait(now() + kPaceNs);
  }
}

bool PrefillRun::committed(const std::string& handoff) const {
  return has_ended_ && outcome_ && !outcome_->handoff_params.empty() && handoffs_.back() == handoff;
}

}  // namespace sluice::proxy
