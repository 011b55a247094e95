// relay.h: an engine's answer on its way to the client.
//
// Invariant: events reach the client byte for byte, whole, in order and as soon as they are
//            complete. Nothing is sent before the first event with content, a tool call or a finish
//            reason, so that until then another instance can answer instead. An answer that breaks
//            off after that ends with an error event and without [DONE], never as if it were whole.
//            Transfer parameters never pass.
// Threads:   the worker's. A slow client stops the engine: nothing is read while a write waits.
// Failure:   a StageFailure while nothing has been sent; afterwards the outcome says that it broke.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "http/exchange.h"
#include "proxy/stage_call.h"

namespace sluice::proxy {

struct RelayPlan {
  bool typed_stream = true;           // chat and completions: their events are understood
  std::vector<http::Header> headers;  // of the answer, beside what the engine says of its body
  std::function<void(std::vector<http::Header>&)> first_content;  // called once, may add headers
  std::function<std::string()> last_comment;                      // put before [DONE]; may be empty
};

struct Relayed {
  bool client_gone = false;
  bool broken = false;  // ended with an error event
  std::uint64_t bytes = 0;
};

boost::asio::awaitable<StageResult<Relayed>> relay(Errand& errand, http::Exchange& exchange,
                                                   StageCall& called, const RelayPlan& plan);

}  // namespace sluice::proxy
