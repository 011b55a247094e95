// prefill_stage.h: has a prefill engine compute the prompt and hand its KV off.
//
// Invariant: every try has a hand-off of its own; all their names are reported, so that whoever
//            ends the request can end them.
// Threads:   the worker's.
// Failure:   under on_failure = fallback a failed prefill is an outcome without a hand-off: decode
//            computes by itself. Otherwise, and when the request is over, a StageFailure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "proxy/media_items.h"
#include "proxy/stage_call.h"

namespace sluice::proxy {

struct PrefillOutcome {
  std::string handoff_params;  // JSON for decode; empty: none
  std::string arena;           // where its KV lies, if the engine named it
  std::uint64_t queue_ns = 0;
};

struct StageInput {
  const ScannedRequest& request;
  const RequestMedia& media;
  std::string target;
  bool references = true;  // false once a stage failed on them
  bool features = true;    // the engine is told which features there are
};

// Whether the request is one that a hand-off can serve: one prompt, and no search over several.
bool can_hand_off(const ScannedRequest& request) noexcept;

boost::asio::awaitable<StageResult<PrefillOutcome>> prefill(Errand& errand, StageInput& input,
                                                            std::vector<std::string>& handoffs);

}  // namespace sluice::proxy
