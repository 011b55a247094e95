#include "proxy/prefill_stage.h"

#include <fmt/format.h>

#include "proxy/media_digest.h"

namespace sluice::proxy {
namespace {

// What only the answering stage is asked for.
const std::vector<std::string_view> kNotForPrefill = {
    "stream", "stream_options", "max_tokens", "max_completion_tokens", "min_tokens",
    "n",      "best_of",        "logprobs",   "top_logprobs",          "prompt_logprobs",
    "echo",   "use_beam_search"};

Pieces prefill_body(const StageInput& input, const std::string& handoff) {
  BodyPlan plan{.edits = media_edits(input.request, input.media, input.references),
                .drop = kNotForPrefill};
  plan.add = fmt::format(
      R"("max_tokens":1,"stream":false,"kv_transfer_params":{{"do_remote_decode":true,"do_remote_prefill":false,"sluice_handoff":"{}"}})",
      handoff);
  const std::string features = feature_params(input.media, input.features);
  if (!features.empty()) plan.add += "," + features;
  return compose(input.request, plan);
}

bool references_failed(const StageFailure& failure, const StageInput& input) {
  return sched::after_failure({.failure = failure.failure,
                               .with_references = input.references && input.media.has_references(),
                               .media_tried = false}) == sched::Next::kWithMedia &&
         !failure.refused;
}

}  // namespace

bool can_hand_off(const ScannedRequest& request) noexcept {
  if (request.text_of("use_beam_search") == "true") return false;
  const std::string_view prompt = request.text_of("prompt");
  if (!prompt.starts_with('[')) return true;
  const std::size_t first =
      prompt.find_first_not_of(" \t\r\n", 1);  // a list of tokens is one prompt
  return first != std::string_view::npos && prompt[first] != '"' && prompt[first] != '[';
}

boost::asio::awaitable<StageResult<PrefillOutcome>> prefill(Errand& errand, StageInput& input,
                                                            std::vector<std::string>& handoffs) {
  Meter& meter = errand.worker.meter;
  const bool strict = errand.core.settings.on_failure == OnFailure::kFail;
  PrefillOutcome out;
  if (!errand.core.director.usable(kPrefillRole) && !strict) {
    meter.fell_back(Fallback::kPrefillEmpty);
    co_return out;
  }
  const StageAsk ask{.role = kPrefillRole, .target = input.target};
  const std::function<Pieces(std::uint32_t)> make = [&](std::uint32_t) {
    handoffs.push_back(random_name());
    return prefill_body(input, handoffs.back());
  };
  auto answer = co_await run_whole_stage(errand, ask, make);
  if (!answer && references_failed(answer.error(), input)) {
    meter.fell_back(Fallback::kReferenceFailed);
    if (strict) co_return std::unexpected(std::move(answer.error()));
    input.references = false;
    add(meter.roles[kPrefillRole].retries);
    answer = co_await run_whole_stage(errand, ask, make);
  }
  if (!answer) {
    StageFailure& failure = answer.error();
    const bool over = failure.failure == sched::Failure::kGone ||
                      failure.failure == sched::Failure::kDeadline ||
                      failure.failure == sched::Failure::kRequest;
    if (over || strict) co_return std::unexpected(std::move(failure));
    meter.fell_back(Fallback::kPrefillFailed);
    co_return out;
  }
  out.queue_ns = answer->queue_ns;
  const auto handoff = errand.worker.reader.handoff(answer->body);
  if (handoff && handoff->committed) {
    add(meter.handoffs_committed);
    out.handoff_params = handoff->params;
    out.arena = std::move(answer->arena);
    co_return out;
  }
  if (strict) {
    const std::string reason =
        handoff ? handoff->reason : "the prefill engine said nothing about it";
    co_return std::unexpected(
        StageFailure{.failure = sched::Failure::kEngine,
                     .error = {.status = 502,
                               .message = fmt::format("there is no hand-off: {}", reason),
                               .code = "no_handoff"}});
  }
  meter.fell_back(Fallback::kNoHandoff);
  co_return out;
}

}  // namespace sluice::proxy
