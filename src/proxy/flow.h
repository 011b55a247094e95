// flow.h: one request's way through the stages, from its body to the last byte of its answer.
//
// Invariant: every request ends in exactly one of: an engine's answer, an OpenAI error, an error
//            event behind content that was sent, or a client that left. Whatever it reserved
//            (places, leases, hand-offs, encodes) is given back when this returns.
// Threads:   the worker's. The client's leaving stops every stage of it.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "http/exchange.h"
#include "proxy/core.h"

namespace sluice::proxy {

enum class Api : std::uint8_t {
  kChat,
  kCompletions,
  kOther
};  // kOther: passed to the answering engine

boost::asio::awaitable<void> serve_request(Core& core, Worker& worker, http::Exchange& exchange,
                                           Api api);

// An OpenAI error, with Retry-After and whatever else must be in its header.
boost::asio::awaitable<void> answer_error(http::Exchange& exchange, const OpenAiError& error,
                                          std::vector<http::Header> headers = {});

}  // namespace sluice::proxy
