// request_record.h: what is known of one request when it has ended: its line in the access log, and
// where its time went.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace sluice::proxy {

struct StageTimes {
  std::uint64_t queue_ns = 0, encode_ns = 0, feature_ns = 0, prefill_ns = 0, handoff_ns = 0,
                decode_ns = 0;
  // "queue=0.1, encode=12.3, ..." in milliseconds: the header x-sluice-timing.
  std::string text() const;
};

struct RequestRecord {
  std::string id, engine_id, method, target, peer, model, engine, cause;
  unsigned status = 0;
  bool stream = false;
  std::uint64_t request_bytes = 0, answer_bytes = 0;
  std::uint32_t tries = 0, media = 0;
  Instant began = 0, first_content = 0;
  StageTimes times;

  std::string json(Instant ended) const;  // one line; no body, header or token
};

}  // namespace sluice::proxy
