// stage_call.h: one try of one stage on one instance: wait for a place, send, read the answer's
// header.
//
// Invariant: a place is held exactly while the try runs. A try that failed says why and on which
//            instance; it never throws and always ends by the errand's deadline or stop.
// Threads:   the worker's.
// Failure:   StageFailure: what kind it was (for retry rules) and what a client may be told.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "proxy/core.h"
#include "proxy/openai_error.h"
#include "proxy/splice.h"
#include "sched/choice.h"
#include "sched/retry.h"

namespace sluice::proxy {

struct StageFailure {
  sched::Failure failure = sched::Failure::kRefused;
  OpenAiError error;
  sched::InstanceId instance = 0;  // 0: it never reached one
  bool refused = false;            // no place was given: `error` says when to come again
  // The engine's own words, when it answered with an error that the client should see.
  unsigned status = 0;
  std::string content_type, body;
};

template <class T>
using StageResult = std::expected<T, StageFailure>;

struct StageCall {
  Running running;
  std::shared_ptr<http::Upstream> upstream;  // shared: see Worker::upstream
  std::unique_ptr<http::Call> call;
  std::uint64_t queue_ns = 0;
};

struct StageAsk {
  std::size_t role = 0;
  std::string_view method = "POST";
  std::string target;
  std::string content_type = "application/json";
  std::string accept;
};

// The status is below 400 when this succeeds.
boost::asio::awaitable<StageResult<StageCall>> try_stage(Errand& errand, const StageAsk& ask,
                                                         sched::Wish wish, const Pieces& body);

struct WholeAnswer {
  std::string body;
  std::string arena;  // of the instance that answered, if it named one
  std::uint64_t queue_ns = 0;
};

// As often as the rules allow, each time with the body that `make_body` gives for this try (1, 2,
// ...).
boost::asio::awaitable<StageResult<WholeAnswer>> run_whole_stage(
    Errand& errand, const StageAsk& ask, const std::function<Pieces(std::uint32_t)>& make_body);

// Takes part in the retry budget; counts the retry.
bool retry_allowed(Errand& errand, std::size_t role, const StageFailure& failure,
                   std::uint32_t tries);

StageFailure failure_of(const Error& error, sched::InstanceId instance, const Errand& errand);

}  // namespace sluice::proxy
