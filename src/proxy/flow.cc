#include "proxy/flow.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "proxy/affinity.h"
#include "proxy/encode_stage.h"
#include "proxy/media_digest.h"
#include "proxy/prefill_run.h"
#include "proxy/relay.h"
#include "proxy/request_record.h"
#include "proxy/waiting.h"

namespace sluice::proxy {
namespace {

// Who answers now: the first role with a healthy engine, else the first that is known.
std::size_t answer_role(const Director& director) {
  for (const std::size_t role : kAnswerRoles) {
    if (director.usable(role)) return role;
  }
  for (const std::size_t role : kAnswerRoles) {
    if (director.known(role)) return role;
  }
  return kAnswerRoles.back();
}

bool is_json(std::string_view content_type) {
  return content_type.empty() || content_type.find("json") != std::string_view::npos;
}

Outcome<std::chrono::milliseconds> timeout_of(const Settings& settings, std::string_view header) {
  if (header.empty()) return settings.request_timeout;
  std::uint64_t ms = 0;
  const auto read = std::from_chars(header.data(), header.data() + header.size(), ms);
  const auto max = static_cast<std::uint64_t>(settings.request_timeout_max.count());
  if (read.ec != std::errc{} || read.ptr != header.data() + header.size() || ms == 0 || ms > max) {
    return std::unexpected(
        OpenAiError{.status = 400,
                    .message = fmt::format("x-sluice-timeout-ms must be 1 to {}", max),
                    .param = "x-sluice-timeout-ms",
                    .code = "invalid_value"});
  }
  return std::chrono::milliseconds(ms);
}

OpenAiError body_error(const Error& error, const Settings& settings) {
  switch (error.code) {
    case Code::kLimit:
      return {.status = 413,
              .message = fmt::format("the body is larger than {} bytes", settings.body_bytes_max),
              .code = "body_too_large"};
    case Code::kTimedOut:
      return {.status = 408, .message = "the body did not come in time", .code = "body_timeout"};
    default:
      return {.status = 400, .message = "the body is malformed", .code = "malformed_body"};
  }
}

Cause cause_of(const OpenAiError& error) {
  if (error.status == 413) return Cause::kTooLarge;
  if (error.status < 500 && error.status != 429) return Cause::kInvalid;
  if (error.code == "queue_full") return Cause::kQueueFull;
  if (error.code == "deadline" || error.code == "deadline_exceeded") return Cause::kDeadline;
  if (error.code == "no_instance") return Cause::kNoInstance;
  return Cause::kUnhealthy;
}

// The call of a decode that was asked before prefill had ended: it ends with the client, and when
// prefill ends otherwise than decode was told.
class EarlyCall {
 public:
  EarlyCall(const Errand& of, http::StopSource& client, std::shared_ptr<PrefillRun> prefill,
            std::function<bool()> in_vain)
      : prefill_(std::move(prefill)), errand_(of), on_client_(client, [this] { stop_.stop(); }) {
    errand_.stop = &stop_;
    prefill_->on_end([this, in_vain = std::move(in_vain)] {
      if (in_vain()) stop_.stop();
    });
  }
  ~EarlyCall() { prefill_->on_end({}); }
  EarlyCall(const EarlyCall&) = delete;
  EarlyCall& operator=(const EarlyCall&) = delete;
  Errand& errand() { return errand_; }

 private:
  std::shared_ptr<PrefillRun> prefill_;
  http::StopSource stop_;
  Errand errand_;
  http::StopGuard on_client_;
};

class Flow {
 public:
  Flow(Core& core, Worker& worker, http::Exchange& exchange, Api api)
      : core_(core),
        exchange_(exchange),
        api_(api),
        errand_{.core = core, .worker = worker, .stop = &stop_} {}
  // Whatever way the request ended, an exception's included.
  ~Flow() {
    exchange_.on_gone({});
    if (!record_.engine_id.empty()) core_.live_ids.leave(record_.engine_id);
    if (prefill_ == nullptr) return;
    prefill_->on_end({});
    prefill_->stop();  // nobody waits for it, if it still runs
  }
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  boost::asio::awaitable<void> run() {
    open();
    co_await serve();
    close();
  }

 private:
  Meter& meter() { return errand_.worker.meter; }
  bool strict() const { return core_.settings.on_failure == OnFailure::kFail; }

  void open() {
    const http::ExchangeHead& head = exchange_.head();
    record_.began = now();
    record_.method = head.method;
    record_.target = head.target.substr(0, head.target.find('?'));
    record_.peer = head.peer;
    const std::string_view given = head.header("x-request-id");
    record_.id = is_request_id(given) ? std::string(given) : random_name();
    record_.engine_id = core_.live_ids.enter(record_.id);
    errand_.id = record_.engine_id;
    errand_.traceparent = head.header("traceparent");
    errand_.tracestate = head.header("tracestate");
    debug_ = head.header("x-sluice-debug") == "1";
    add(meter().requests);
    core_.director.on_request();
  }

  void close() {
    record_.status = exchange_.begun() ? exchange_.status() : 499;
    const Instant ended = now();
    meter().request.observe_ns(ended - record_.began);
    if (record_.status >= 500) add(meter().answered_5xx);
    if (record_.status >= 400 && record_.status < 500) add(meter().answered_4xx);
    if (record_.status < 400) add(meter().answered_2xx);
    if (core_.access_log) core_.access_log(record_.json(ended));
  }

  boost::asio::awaitable<void> serve() {
    const auto timeout = timeout_of(core_.settings, exchange_.head().header("x-sluice-timeout-ms"));
    if (!timeout) {
      co_await refuse(timeout.error());
      co_return;
    }
    errand_.deadline = deadline_after(now(), *timeout);
    auto body = std::make_shared<ReadBody>();
    auto read = co_await exchange_.read_body(core_.settings.body_bytes_max);
    if (!read) {
      if (read.error().code != Code::kUnavailable) {
        const OpenAiError error = body_error(read.error(), core_.settings);
        co_await refuse(error);
      }
      co_return;
    }
    body->body = std::move(*read);
    record_.request_bytes = body->body.text().size();
    exchange_.on_gone([this] { stop_.stop(); });
    const bool scanned = co_await scan(*body);
    if (!scanned) co_return;
    body_ = std::move(body);
    co_await stages();
  }

  // Finds what the body says; false when it was refused.
  boost::asio::awaitable<bool> scan(ReadBody& body) {
    const bool has_text = !body.body.text().empty() || api_ != Api::kOther;
    understood_ = has_text && is_json(exchange_.head().header("content-type"));
    if (!understood_) {
      body.scanned.body = body.body.text();
      co_return true;
    }
    auto scanned = errand_.worker.scanner.scan(
        body.body.text(), {.model_needed = api_ != Api::kOther,
                           .allow_image_embeds = core_.settings.allow_image_embeds});
    if (!scanned) {
      co_await refuse(scanned.error());
      co_return false;
    }
    body.scanned = std::move(*scanned);
    record_.model = body.scanned.model;
    record_.stream = body.scanned.stream;
    record_.media = static_cast<std::uint32_t>(body.scanned.media.size());
    auto media = name_media(core_, body.scanned);
    if (!media) {
      co_await refuse(media.error());
      co_return false;
    }
    *media_ = std::move(*media);
    co_return true;
  }

  boost::asio::awaitable<void> stages() {
    const std::size_t role = answer_role(core_.director);
    const bool staged = understood_ && api_ != Api::kOther;
    references_ = staged && kRoles[role].takes_features && !core_.settings.forward_media;
    features_ = staged && kRoles[role].takes_features;
    if (features_ && !media_->items.empty() && core_.director.known(kEncoderRole)) {
      auto times = co_await encode_media(errand_, body_, *media_);
      if (!times) {
        co_await give_up(std::move(times.error()));
        co_return;
      }
      record_.times.encode_ns = times->encode_ns;
      record_.times.feature_ns = times->feature_ns;
    }
    if (staged && role == kDecodeRole && core_.director.known(kPrefillRole) &&
        can_hand_off(body_->scanned)) {
      const bool going_on = co_await prefill_first();
      if (!going_on) co_return;
    }
    co_await answer();
  }

  // Has the prompt computed, or begun to be; false when the request is over.
  boost::asio::awaitable<bool> prefill_first() {
    prefill_ = PrefillRun::start(errand_, {.body = body_,
                                           .media = media_,
                                           .target = exchange_.head().target,
                                           .references = references_,
                                           .features = features_});
    const http::StopGuard on_stop(stop_, [this] { prefill_->stop(); });
    if (core_.settings.decode_dispatch == DecodeDispatch::kAfterCommit) {
      co_await prefill_->ended();
    } else {
      co_await prefill_->ended_or_begun();
    }
    if (prefill_->has_ended()) {
      const bool going_on = co_await take_prefill();
      co_return going_on;
    }
    early_ = prefill_->handoff();
    handoff_params_ = fmt::format(
        R"({{"do_remote_prefill":true,"do_remote_decode":false,"sluice_handoff":"{}","in_progress":true}})",
        early_);
    co_return true;
  }

  // Goes by what prefill answered; false when the request is over.
  boost::asio::awaitable<bool> take_prefill() {
    early_.clear();
    handoff_params_.clear();
    auto outcome = prefill_->take_outcome();
    if (!outcome) {
      co_await give_up(std::move(outcome.error()));
      co_return false;
    }
    references_ = prefill_->references();
    handoff_params_ = std::move(outcome->handoff_params);
    handoff_arena_ = std::move(outcome->arena);
    record_.times.queue_ns += outcome->queue_ns;
    record_.times.prefill_ns = prefill_->took_ns();
    co_return true;
  }

  // From when on decode is what the client waits for. Prefill's time was not known before.
  Instant handed_over(Instant sent) {
    if (early_.empty() || !prefill_->has_ended()) return sent;
    record_.times.prefill_ns = prefill_->took_ns();
    return std::max(sent, prefill_->ended_at());
  }

  // Decode was asked before prefill had ended, and prefill has ended with something else.
  bool asked_in_vain() const {
    return !early_.empty() && prefill_->has_ended() && !prefill_->committed(early_) &&
           !exchange_.begun();
  }

  Pieces answer_body(std::size_t role) {
    const ScannedRequest& request = body_->scanned;
    Pieces out;
    if (!understood_) {
      out.borrow(request.body);
      return out;
    }
    const bool takes = kRoles[role].takes_features;
    BodyPlan plan{.edits = media_edits(request, *media_, references_ && takes)};
    if (takes && features_) plan.add = feature_params(*media_, true);
    if (role == kDecodeRole && !handoff_params_.empty()) {
      if (!plan.add.empty()) plan.add += ",";
      plan.add += R"("kv_transfer_params":)" + kept_params();
    }
    return compose(request, plan);
  }

  // The hand-off's parts stay for the other choices and for a try on another instance.
  std::string kept_params() const {
    const bool keep = body_->scanned.n > 1 || core_.director.pool(kDecodeRole).usable > 1;
    return keep ? R"({"keep":true,)" + handoff_params_.substr(1) : handoff_params_;
  }

  boost::asio::awaitable<void> answer() {
    std::vector<sched::InstanceId> avoid;
    bool media_tried = false;
    for (std::uint32_t tries = 1;; ++tries) {
      record_.tries = tries;
      if (!early_.empty() && prefill_->has_ended()) {
        const bool going_on = co_await take_prefill();
        if (!going_on) co_return;
      }
      const std::size_t role = answer_role(core_.director);
      auto failure = co_await answer_once(role, avoid);
      if (!failure) co_return;
      if (asked_in_vain() && !stop_.stopped()) {
        add(meter().decodes_early_lost);
        --tries;  // that was prefill's failure
        continue;
      }
      const sched::Next next = sched::after_failure(
          {.failure = failure->failure,
           .tries = tries,
           .tries_max = core_.settings.tries_max,
           .content_sent = exchange_.begun(),
           .with_references = references_ && media_->has_references() && !failure->refused,
           .media_tried = media_tried});
      if (next == sched::Next::kWithMedia && !strict()) {
        meter().fell_back(Fallback::kReferenceFailed);
        add(meter().roles[role].retries);
        media_tried = true;
        references_ = false;
        avoid.push_back(failure->instance);
        continue;
      }
      if (exchange_.begun() || !retry_allowed(errand_, role, *failure, tries)) {
        co_await give_up(std::move(*failure));
        co_return;
      }
      avoid.push_back(failure->instance);
    }
  }

  // Nothing when the client has its answer, or as much of it as it will get.
  boost::asio::awaitable<std::optional<StageFailure>> answer_once(
      std::size_t role, const std::vector<sched::InstanceId>& avoid) {
    const Pieces body = answer_body(role);
    StageAsk ask{.role = role, .method = record_.method, .target = exchange_.head().target};
    const std::string_view type = exchange_.head().header("content-type");
    if (!type.empty()) ask.content_type = type;
    ask.accept = exchange_.head().header("accept");
    sched::Wish wish = wish_near(core_.director, role, handoff_arena_);
    wish.avoid = avoid;
    std::optional<EarlyCall> early;
    if (!early_.empty()) {
      add(meter().decodes_early);
      early.emplace(errand_, stop_, prefill_, [this] { return asked_in_vain(); });
    }
    Errand& errand = early ? early->errand() : errand_;
    const Instant asked = now();
    auto called = co_await try_stage(errand, ask, std::move(wish), body);
    if (!called) co_return std::move(called.error());
    record_.engine = called->running.instance()->spec.endpoint.text();
    record_.times.queue_ns += called->queue_ns;
    const Instant sent = asked + called->queue_ns;

    RelayPlan plan;
    plan.typed_stream = api_ != Api::kOther;
    plan.headers.emplace_back("x-request-id", record_.id);
    plan.first_content = [this, sent](std::vector<http::Header>& headers) {
      record_.first_content = now();
      meter().time_to_first_token.observe_ns(record_.first_content - record_.began);
      media_->leases.clear();
      // Decode leaves a hand-off that it was told of early to us; who is to read it has read it now.
      if (!early_.empty() && body_->scanned.n == 1 && prefill_->has_ended()) {
        prefill_->end_handoffs();
      }
      body_.reset();  // no stage will be tried again: a large body need not wait for a long answer
      // The first content of a whole answer is its end: what of it was the hand-off nobody can say.
      const bool told = record_.stream && !handoff_params_.empty();
      const std::uint64_t took = record_.first_content - handed_over(sent);
      (told ? record_.times.handoff_ns : record_.times.decode_ns) = took;
      if (debug_) headers.emplace_back("x-sluice-timing", record_.times.text());
    };
    if (debug_) {
      plan.last_comment = [this, sent] {
        record_.times.decode_ns = now() - handed_over(sent) - record_.times.handoff_ns;
        return fmt::format(": x-sluice-timing {}\n\n", record_.times.text());
      };
    }
    auto relayed = co_await relay(errand, exchange_, *called, plan);
    if (!relayed) {
      if (!asked_in_vain()) add(meter().roles[role].failures);
      co_return std::move(relayed.error());
    }
    record_.answer_bytes = relayed->bytes;
    record_.times.decode_ns = now() - handed_over(sent) - record_.times.handoff_ns;
    if (relayed->broken) {
      add(meter().roles[role].failures);
      add(meter().streams_broken);
      record_.cause = "broken";
    }
    if (relayed->client_gone) {
      add(meter().clients_gone);
      record_.cause = "gone";
    }
    if (!relayed->broken && !relayed->client_gone) {
      meter().roles[role].service.observe_ns(now() - called->running.began());
      called->running.succeeded();
    }
    co_return std::nullopt;
  }

  boost::asio::awaitable<void> give_up(StageFailure failure) {
    record_.cause = sched::name(failure.failure);
    if (failure.failure == sched::Failure::kGone || stop_.stopped()) {
      add(meter().clients_gone);
      co_return;
    }
    if (exchange_.begun()) co_return;
    // An engine's own error object is what a client of that engine would see.
    if (failure.status != 0 && failure.body.find("\"error\"") != std::string::npos) {
      std::vector<http::Header> headers = own_headers();
      headers.emplace_back(
          "Content-Type", failure.content_type.empty() ? "application/json" : failure.content_type);
      if (failure.failure == sched::Failure::kBusy) headers.emplace_back("Retry-After", "1");
      const auto sent =
          co_await exchange_.answer(failure.status, std::move(headers), std::move(failure.body));
      if (!sent) add(meter().clients_gone);
      co_return;
    }
    if (failure.error.status == 502 && failure.failure == sched::Failure::kBusy) {
      failure.error.status = 503;
      failure.error.retry_after_s = std::max(failure.error.retry_after_s, 1u);
    }
    if (failure.refused || failure.failure == sched::Failure::kDeadline) {
      meter().refused(cause_of(failure.error));
    } else if (strict()) {
      meter().refused(Cause::kStrict);
    }
    co_await answer_error(exchange_, failure.error, own_headers());
  }

  boost::asio::awaitable<void> refuse(const OpenAiError& error) {
    meter().refused(cause_of(error));
    record_.cause = error.code;
    co_await answer_error(exchange_, error, own_headers());
  }

  std::vector<http::Header> own_headers() const {
    std::vector<http::Header> headers;
    headers.emplace_back("x-request-id", record_.id);
    return headers;
  }

  Core& core_;
  http::Exchange& exchange_;
  Api api_;
  http::StopSource stop_;
  Errand errand_;
  RequestRecord record_;
  bool debug_ = false;
  bool understood_ = false;               // the body is JSON and was scanned
  bool references_ = false;               // encoded items travel as references
  bool features_ = false;                 // the engines are told which features there are
  std::shared_ptr<const ReadBody> body_;  // shared with encodes: see ReadBody
  std::shared_ptr<RequestMedia> media_ = std::make_shared<RequestMedia>();  // as body_
  std::shared_ptr<PrefillRun> prefill_;                                     // null: there was none
  std::string early_;  // hand-off that decode was told of before its commit
  std::string handoff_params_, handoff_arena_;  // what decode is told
};

}  // namespace

boost::asio::awaitable<void> serve_request(Core& core, Worker& worker, http::Exchange& exchange,
                                           Api api) {
  Flow flow(core, worker, exchange, api);
  co_await flow.run();
}

boost::asio::awaitable<void> answer_error(http::Exchange& exchange, const OpenAiError& error,
                                          std::vector<http::Header> headers) {
  headers.emplace_back("Content-Type", "application/json");
  if (error.retry_after_s != 0) {
    headers.emplace_back("Retry-After", fmt::format("{}", error.retry_after_s));
  }
  const auto sent = co_await exchange.answer(error.status, std::move(headers), error_body(error));
  static_cast<void>(sent);  // the client may have left; there is nobody else to tell
}

}  // namespace sluice::proxy
