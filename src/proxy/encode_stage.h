// encode_stage.h: brings the features of a request's media into the arena, and learns their names.
//
// Invariant: an item whose feature is in the arena is not encoded; equal items, of one request or
//            of several in flight, are encoded once. An item that could not be encoded keeps its
//            media, so that prefill can encode it, unless failures are strict.
// Threads:   the worker's. An encode may serve requests of other workers and outlive the request
//            that began it; it holds that request's body.
// Failure:   the failure to answer the client with; only under on_failure = fail, or when the
//            client left or its time is over.
#pragma once

#include <memory>

#include <boost/asio/awaitable.hpp>

#include "http/exchange.h"
#include "proxy/media_items.h"
#include "proxy/stage_call.h"

namespace sluice::proxy {

// A body with what was found in it. Shared with encodes that outlive the request.
struct ReadBody {
  http::Body body;
  ScannedRequest scanned;  // of `body`
};

struct EncodeTimes {
  std::uint64_t queue_ns = 0, encode_ns = 0, feature_ns = 0;
};

boost::asio::awaitable<StageResult<EncodeTimes>> encode_media(Errand& errand,
                                                              std::shared_ptr<const ReadBody> body,
                                                              RequestMedia& media);

}  // namespace sluice::proxy
