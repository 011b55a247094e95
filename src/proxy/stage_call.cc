#include "proxy/stage_call.h"

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include "proxy/waiting.h"

namespace sluice::proxy {
namespace {

constexpr std::size_t kErrorBytesMax = 1 << 20;  // of an engine's error answer

OpenAiError refusal_error(const sched::Refusal& refusal, std::size_t role) {
  const std::string_view pool = kRoles[role].name;
  OpenAiError error{.code = std::string(name(refusal.cause)),
                    .retry_after_s = refusal.retry_after_s};
  switch (refusal.cause) {
    case sched::RefusalCause::kNoInstance:
      error.status = 503;
      error.message = fmt::format("no {} engine is known", pool);
      break;
    case sched::RefusalCause::kUnhealthy:
      error.status = 503;
      error.message = fmt::format("no {} engine is healthy now", pool);
      break;
    case sched::RefusalCause::kQueueFull:
      error.status = 429;
      error.message = fmt::format("all {} engines are busy and their queue is full", pool);
      break;
    case sched::RefusalCause::kDeadline:
      error.status = 503;
      error.message = fmt::format("no {} engine can begin before this request's deadline", pool);
      break;
  }
  return error;
}

StageFailure gone() {
  return {.failure = sched::Failure::kGone,
          .error = {.status = 499, .message = "the client has left", .code = "client_gone"}};
}

StageFailure late() {
  return {.failure = sched::Failure::kDeadline,
          .error = {.status = 504,
                    .message = "the request's deadline has passed",
                    .code = "deadline_exceeded"}};
}

// What a request that waits for a place and the callback that calls it share: the callback may come
// when the request has left.
struct Waiting {
  explicit Waiting(const boost::asio::any_io_executor& executor) : gate(executor) {}
  Gate gate;
  std::optional<Place> place;
};

// A place on an instance, or why there is none.
boost::asio::awaitable<StageResult<Running>> enter(Errand& errand, std::size_t role,
                                                   sched::Wish wish) {
  const auto executor = co_await boost::asio::this_coro::executor;
  Director& director = errand.core.director;
  const auto waiting = std::make_shared<Waiting>(executor);
  Director::Asked asked =
      director.ask(role, std::move(wish), errand.deadline, [waiting, executor](Place place) {
        boost::asio::post(executor, [waiting, place = std::move(place)]() mutable {
          waiting->place = std::move(place);
          waiting->gate.open();
        });
      });
  if (!asked.place) {
    const StopScope on_stop(errand.stop, [waiting] { waiting->gate.open(); });
    co_await waiting->gate.wait(errand.deadline);
    if (!waiting->place && director.cancel(role, asked.ticket)) {
      if (errand.stop != nullptr && errand.stop->stopped()) co_return std::unexpected(gone());
      StageFailure failure = late();
      failure.refused = true;
      failure.error = refusal_error({sched::RefusalCause::kDeadline, 1}, role);
      co_return std::unexpected(std::move(failure));
    }
    // Called at the same moment: the answer is on its way to this thread.
    while (!waiting->place) {
      Gate turn(executor);
      co_await turn.wait(now() + kNsPerMs);
    }
    asked.place = std::move(waiting->place);
  }
  if (!asked.place) co_return std::unexpected(late());
  if (const auto* refusal = std::get_if<sched::Refusal>(&*asked.place)) {
    co_return std::unexpected(StageFailure{
        .failure = sched::Failure::kBusy, .error = refusal_error(*refusal, role), .refused = true});
  }
  auto instance = std::get<std::shared_ptr<const Instance>>(std::move(*asked.place));
  Running running(&director, std::move(instance), now());
  if (errand.stop != nullptr && errand.stop->stopped()) co_return std::unexpected(gone());
  co_return running;
}

sched::Failure kind_of(unsigned status) {
  if (status == 429 || status == 503) return sched::Failure::kBusy;
  return status >= 500 ? sched::Failure::kEngine : sched::Failure::kRequest;
}

std::vector<http::Header> headers_for(const Errand& errand, const StageAsk& ask) {
  std::vector<http::Header> headers;
  if (ask.method != "GET") headers.emplace_back("Content-Type", ask.content_type);
  if (!ask.accept.empty()) headers.emplace_back("Accept", ask.accept);
  headers.emplace_back("X-Request-Id", errand.id);
  if (!errand.traceparent.empty()) headers.emplace_back("traceparent", errand.traceparent);
  if (!errand.tracestate.empty()) headers.emplace_back("tracestate", errand.tracestate);
  const std::string& token = errand.core.settings.engine_token;
  if (!token.empty()) headers.emplace_back("Authorization", "Bearer " + token);
  return headers;
}

// The engine answered with an error of its own.
boost::asio::awaitable<StageFailure> read_error(http::Call& call, sched::InstanceId instance) {
  StageFailure failure{.failure = kind_of(call.status()), .instance = instance};
  failure.status = call.status();
  failure.content_type = call.header("content-type");
  auto body = co_await call.read_all(kErrorBytesMax);
  if (body) failure.body = std::move(*body);
  failure.error = {.status = failure.status >= 500 ? 502u : failure.status,
                   .message = fmt::format("an engine answered {}", failure.status),
                   .code = "engine_error"};
  co_return failure;
}

}  // namespace

StageFailure failure_of(const Error& error, sched::InstanceId instance, const Errand& errand) {
  if (errand.stop != nullptr && errand.stop->stopped()) return gone();
  if (error.code == Code::kTimedOut && now() >= errand.deadline) return late();
  const bool refused = error.code == Code::kUnavailable || error.code == Code::kTimedOut;
  return {.failure = refused ? sched::Failure::kRefused : sched::Failure::kBroken,
          .error = {.status = 502,
                    .message = refused ? "an engine could not be reached"
                                       : "an engine's answer was broken",
                    .code = refused ? "engine_unreachable" : "engine_broken"},
          .instance = instance};
}

boost::asio::awaitable<StageResult<StageCall>> try_stage(Errand& errand, const StageAsk& ask,
                                                         sched::Wish wish, const Pieces& body) {
  RoleMeter& meter = errand.worker.meter.roles[ask.role];
  const Instant asked_at = now();
  auto entered = co_await enter(errand, ask.role, std::move(wish));
  if (!entered) co_return std::unexpected(std::move(entered.error()));
  StageCall out;
  out.running = std::move(*entered);
  out.queue_ns = now() - asked_at;
  meter.queue.observe_ns(out.queue_ns);
  const std::shared_ptr<const Instance> instance = out.running.instance();
  out.upstream = errand.worker.upstream(*instance);
  add(meter.requests);
  add(meter.bytes_sent, body.bytes());

  http::UpstreamRequest request;
  request.method = ask.method;
  request.target = ask.target;
  request.headers = headers_for(errand, ask);
  request.body = body.views();
  request.deadline = time_point_of(errand.deadline);
  auto sent = co_await out.upstream->send(request, errand.stop);
  if (!sent) {
    add(meter.failures);
    StageFailure failure = failure_of(sent.error(), instance->id, errand);
    if (failure.failure == sched::Failure::kRefused) {
      errand.core.director.report(instance->id, sched::HealthEvent::kRequestRefused);
    }
    co_return std::unexpected(std::move(failure));
  }
  out.call = std::move(*sent);
  const std::string_view keep_alive = out.call->header("keep-alive");
  if (!keep_alive.empty()) errand.worker.learn_keep_alive(*instance, keep_alive);
  if (out.call->status() >= 400) {
    add(meter.failures);
    StageFailure failure = co_await read_error(*out.call, instance->id);
    co_return std::unexpected(std::move(failure));
  }
  errand.core.director.report(instance->id, sched::HealthEvent::kRequestGood);
  co_return out;
}

bool retry_allowed(Errand& errand, std::size_t role, const StageFailure& failure,
                   std::uint32_t tries) {
  if (failure.refused) return false;  // the whole pool said no
  const sched::Next next = sched::after_failure(
      {.failure = failure.failure, .tries = tries, .tries_max = errand.core.settings.tries_max});
  if (next != sched::Next::kAnotherInstance) return false;
  if (now() >= errand.deadline || !errand.core.director.may_retry()) return false;
  add(errand.worker.meter.roles[role].retries);
  return true;
}

boost::asio::awaitable<StageResult<WholeAnswer>> run_whole_stage(
    Errand& errand, const StageAsk& ask, const std::function<Pieces(std::uint32_t)>& make_body) {
  std::vector<sched::InstanceId> avoid;
  for (std::uint32_t tries = 1;; ++tries) {
    const Pieces body = make_body(tries);
    sched::Wish wish;
    wish.avoid = avoid;
    auto called = co_await try_stage(errand, ask, std::move(wish), body);
    StageFailure failure;
    if (called) {
      const sched::InstanceId instance = called->running.instance()->id;
      const StopScope on_stop(errand.stop, [&called] { called->call->cancel(); });
      auto read = co_await called->call->read_all(errand.core.settings.answer_bytes_max);
      if (read) {
        RoleMeter& meter = errand.worker.meter.roles[ask.role];
        add(meter.bytes_received, read->size());
        meter.service.observe_ns(now() - called->running.began());
        called->running.succeeded();
        co_return WholeAnswer{std::move(*read), called->running.instance()->spec.arena,
                              called->queue_ns};
      }
      failure = failure_of(read.error(), instance, errand);
      add(errand.worker.meter.roles[ask.role].failures);
    } else {
      failure = std::move(called.error());
    }
    if (!retry_allowed(errand, ask.role, failure, tries))
      co_return std::unexpected(std::move(failure));
    avoid.push_back(failure.instance);
  }
}

}  // namespace sluice::proxy
