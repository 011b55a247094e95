#include "proxy/relay.h"

#include <fmt/format.h>

#include "proxy/json_cut.h"
#include "proxy/sse.h"
#include "proxy/waiting.h"

namespace sluice::proxy {
namespace {

constexpr std::size_t kHeldBytesMax = 1 << 20;  // before the first content
constexpr std::string_view kTransferParams = "_transfer_params\"";

bool is_event_stream(const http::Call& call) {
  return call.header("content-type").starts_with("text/event-stream");
}

std::vector<http::Header> answer_headers(const RelayPlan& plan, const http::Call& call,
                                         std::string_view otherwise) {
  std::vector<http::Header> headers = plan.headers;
  const std::string_view type = call.header("content-type");
  headers.emplace_back("Content-Type", std::string(type.empty() ? otherwise : type));
  return headers;
}

std::string error_event(std::string_view message, std::string_view code) {
  return "data: " +
         error_body({.status = 502, .message = std::string(message), .code = std::string(code)}) +
         "\n\n";
}

// One stream, from the engine's first byte to its end.
class Stream {
 public:
  Stream(Errand& errand, http::Exchange& exchange, StageCall& called, const RelayPlan& plan)
      : errand_(errand),
        exchange_(exchange),
        called_(called),
        plan_(plan),
        framer_(errand.core.settings.event_bytes_max) {}

  boost::asio::awaitable<StageResult<Relayed>> run() {
    while (!ended_) {
      auto bytes = co_await called_.call->read();
      if (!bytes || bytes->empty()) {
        const bool clean = bytes.has_value() && !plan_.typed_stream && !framer_.in_event();
        if (clean) break;
        // A variable: g++ 12 destroys a conditional temporary of a co_await twice.
        Error error{Code::kIo, Drop::kTransfer, "the stream has no end"};
        if (!bytes) error = bytes.error();
        auto broken = co_await broke_off(error);
        co_return broken;
      }
      const auto events = framer_.feed(*bytes);
      if (!events) {
        auto broken = co_await broke_off(events.error());
        co_return broken;
      }
      if (events->empty()) continue;
      const bool goes_on = co_await take(*events);
      if (!goes_on) break;
    }
    if (failure_) co_return std::unexpected(std::move(*failure_));
    co_await finish();
    co_return relayed_;
  }

 private:
  // What complete events mean; false when the relay is over.
  boost::asio::awaitable<bool> take(std::string_view events) {
    if (begun_) {
      observe_time();
      co_return co_await pass(events, 0);
    }
    if (!hold(events)) co_return false;
    if (!begun_) co_return true;
    std::vector<http::Header> headers = answer_headers(plan_, *called_.call, "text/event-stream");
    headers.emplace_back("Cache-Control", "no-cache");
    if (plan_.first_content) plan_.first_content(headers);
    last_event_at_ = now();
    const auto begun = co_await exchange_.begin(200, std::move(headers));
    if (!begun) co_return gone();
    const std::string first = std::move(held_);
    co_return co_await pass(first, decided_);
  }

  // Holds events back until one counts, with all that came together with it; false when the stream
  // failed before that.
  bool hold(std::string_view events) {
    for (std::string_view rest = events; !rest.empty();) {
      const std::string_view event = next_event(rest);
      const std::string_view data = event_data(event);
      const EventKind kind =
          plan_.typed_stream ? errand_.worker.reader.kind_of(data) : EventKind::kContent;
      if (kind == EventKind::kError) {
        const std::string message = errand_.worker.reader.error_message(data);
        failure_ = StageFailure{
            .failure = sched::Failure::kEngine,
            .error = {.status = 502,
                      .message =
                          message.empty() ? "an engine failed before its first token" : message,
                      .code = "engine_error"},
            .instance = called_.running.instance()->id};
        return false;
      }
      const bool done = kind == EventKind::kDone;
      if (!done) {
        held_ += event;
        decided_ = held_.size();
        add(errand_.worker.meter.events);
        if (kind == EventKind::kNone && held_.size() < kHeldBytesMax) continue;
      } else {
        held_ += event;
      }
      held_ += rest;
      begun_ = true;
      return true;
    }
    return true;
  }

  // Sends events, those behind `decided` after a look for an end or an error.
  boost::asio::awaitable<bool> pass(std::string_view all, std::size_t decided) {
    for (std::string_view rest = all.substr(decided); !rest.empty();) {
      const std::string_view event = next_event(rest);
      const std::string_view data = event_data(event);
      add(errand_.worker.meter.events);
      if (!plan_.typed_stream) continue;
      const bool done = data == "[DONE]";
      if (!done && !looks_like_error(data)) continue;
      // What an engine says behind its end or its error is not for clients.
      ended_ = true;
      relayed_.broken = !done;
      co_return co_await send_last(
          all.substr(0, static_cast<std::size_t>(event.data() - all.data())), event, done);
    }
    co_return co_await send(all);
  }

  boost::asio::awaitable<bool> send_last(std::string_view before, std::string_view event,
                                         bool done) {
    std::string last;
    if (done && plan_.last_comment) last = plan_.last_comment();
    last += event;
    const bool sent = co_await send(std::string(before) + last);
    co_return sent&& done;
  }

  // Writes events, without transfer parameters.
  boost::asio::awaitable<bool> send(std::string_view events) {
    std::string clean;
    if (events.find(kTransferParams) != std::string_view::npos) {
      if (auto cut = cut_transfer_params(events)) {
        add(errand_.worker.meter.transfer_params_cut);
        clean = std::move(*cut);
        events = clean;
      }
    }
    relayed_.bytes += events.size();
    add(errand_.worker.meter.roles[role()].bytes_received, events.size());
    const std::string_view pieces[] = {events};
    const auto written = co_await exchange_.write(pieces);
    if (!written) co_return gone();
    co_return true;
  }

  bool gone() {
    relayed_.client_gone = true;
    ended_ = true;
    return false;
  }

  // The engine closed or broke the stream.
  boost::asio::awaitable<StageResult<Relayed>> broke_off(const Error& error) {
    StageFailure failure = failure_of(error, called_.running.instance()->id, errand_);
    if (!exchange_.begun()) co_return std::unexpected(std::move(failure));
    if (failure.failure == sched::Failure::kGone) {
      relayed_.client_gone = true;
      co_return relayed_;
    }
    relayed_.broken = true;
    const bool late = failure.failure == sched::Failure::kDeadline;
    const std::string event =
        late ? error_event("the request's deadline has passed", "deadline_exceeded")
             : error_event("the engine broke off its answer", "engine_broken");
    const std::string_view pieces[] = {event};
    const auto written = co_await exchange_.write(pieces);
    if (written) {
      const auto ended = co_await exchange_.end();
      if (!ended) relayed_.client_gone = true;
    } else {
      relayed_.client_gone = true;
    }
    co_return relayed_;
  }

  boost::asio::awaitable<void> finish() {
    if (relayed_.client_gone) co_return;
    if (!exchange_.begun()) {  // an empty stream
      const auto begun =
          co_await exchange_.begin(200, answer_headers(plan_, *called_.call, "text/event-stream"));
      if (!begun) co_return;
    }
    const auto ended = co_await exchange_.end();
    if (!ended) relayed_.client_gone = true;
    if (relayed_.broken || relayed_.client_gone) co_return;
    // The rest of the engine's answer, so that its connection can be used again.
    while (true) {
      const auto more = co_await called_.call->read();
      if (!more || more->empty()) break;
    }
  }

  void observe_time() {
    const Instant at = now();
    errand_.worker.meter.time_between_tokens.observe_ns(at - last_event_at_);
    last_event_at_ = at;
  }
  std::size_t role() const { return called_.running.instance()->spec.role; }

  Errand& errand_;
  http::Exchange& exchange_;
  StageCall& called_;
  const RelayPlan& plan_;
  EventFramer framer_;
  Relayed relayed_;
  std::optional<StageFailure> failure_;
  std::string held_;         // events up to the first content, and what came together with it
  std::size_t decided_ = 0;  // bytes of it that were looked at
  bool begun_ = false;
  bool ended_ = false;
  Instant last_event_at_ = 0;
};

boost::asio::awaitable<StageResult<Relayed>> relay_whole(Errand& errand, http::Exchange& exchange,
                                                         StageCall& called, const RelayPlan& plan) {
  auto body = co_await called.call->read_all(errand.core.settings.answer_bytes_max);
  if (!body) {
    co_return std::unexpected(failure_of(body.error(), called.running.instance()->id, errand));
  }
  if (auto cut = cut_transfer_params(*body)) {
    add(errand.worker.meter.transfer_params_cut);
    body = std::move(*cut);
  }
  Relayed relayed{.bytes = body->size()};
  add(errand.worker.meter.roles[called.running.instance()->spec.role].bytes_received, body->size());
  std::vector<http::Header> headers = answer_headers(plan, *called.call, "application/json");
  if (plan.first_content) plan.first_content(headers);
  const auto sent =
      co_await exchange.answer(called.call->status(), std::move(headers), std::move(*body));
  relayed.client_gone = !sent;
  co_return relayed;
}

}  // namespace

boost::asio::awaitable<StageResult<Relayed>> relay(Errand& errand, http::Exchange& exchange,
                                                   StageCall& called, const RelayPlan& plan) {
  const StopScope on_stop(errand.stop, [&called] { called.call->cancel(); });
  if (!is_event_stream(*called.call)) {
    auto relayed = co_await relay_whole(errand, exchange, called, plan);
    co_return relayed;
  }
  Stream stream(errand, exchange, called, plan);
  auto relayed = co_await stream.run();
  co_return relayed;
}

}  // namespace sluice::proxy
