// script.h: what the stub engine does with one request, when it is to do something else than answer.
//
// A script comes from the control endpoint (a queue for the requests to come, and a default), or from
// the request itself: {"stub": {"ROLE": SCRIPT}} for the engine of that role.
// Threads: values.
// Failure: an unknown name or a wrong type is refused, so that no test waits for a misspelt fault.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/error.h>

namespace sluice::stub {

struct Script {
  enum class Do : std::uint8_t {
    kAnswer,
    kStall,       // says nothing more, and waits for the other side to close
    kClose,       // ends the connection
    kHalf,        // half of an answer, or of an event, then ends the connection
    kReset,       // resets the connection
    kStatus,      // `code` with an error object
    kGarbage,     // bytes that are no HTTP; in an answer: broken framing
    kNoDone,      // a stream that ends without [DONE]
    kErrorEvent,  // an error event, then [DONE]
    kRaw,         // `body` as it is, in the place of head and body; the connection is kept
  };
  Do what = Do::kAnswer;
  std::optional<std::uint64_t> after_events;  // of a stream; nothing: before a byte of the answer
  std::uint64_t events = 0;       // tokens of the answer; 0: as many as the request asks
  std::uint64_t interval_ms = 0;  // between events
  std::uint64_t delay_ms = 0;     // before the answer
  std::uint64_t linger_ms = 0;    // between what it leaves in the arena and the answer
  std::uint64_t code = 500;
  std::uint64_t event_bytes = 0;    // more text in each event
  std::uint64_t split = 0;          // at most so many bytes a write
  std::uint64_t times = 1;          // requests that a queued script is for
  std::string path;                 // a queued script waits for a request of this path
  std::string state = "published";  // of an encoded item
  std::string reason;               // why prefill hands nothing off
  std::string body;                 // an answer, verbatim
  std::vector<std::string> chunks;  // a stream's events, verbatim, framed as they are
  std::string headers;              // more header lines of the answer, each with its line end
};

Result<Script> script_from_json(std::string_view text);

class Playbook {
 public:
  // {"next": [SCRIPT, ...], "default": SCRIPT, "health": 200, "clear": true}; all optional.
  Status update(std::string_view json);
  void set_default(Script script) { default_ = std::move(script); }
  Script take(std::string_view path);
  std::uint64_t health() const noexcept { return health_; }

 private:
  std::deque<Script> next_;
  Script default_;
  std::uint64_t health_ = 200;
};

}  // namespace sluice::stub
