// sse.h: server-sent events of an answer, whole ones only and byte for byte.
//
// Invariant: what feed() hands out, put together, is exactly what was fed, cut behind blank lines.
//            Lines end in LF or CR LF, as engines send them.
// Threads:   one owner. Views are valid until the next feed().
// Limits:    an event larger than `event_bytes_max` is refused (kLimit).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <sluice/error.h>

namespace sluice::proxy {

class EventFramer {
 public:
  explicit EventFramer(std::size_t event_bytes_max) : event_bytes_max_(event_bytes_max) {}

  // The events that are complete with these bytes, together; next_event() parts them.
  Result<std::string_view> feed(std::string_view bytes);
  bool in_event() const noexcept { return in_event_; }  // bytes of an unfinished event are kept

 private:
  std::size_t event_bytes_max_;
  std::string kept_;  // what feed() returned views of
  std::string rest_;  // the unfinished event
  bool in_event_ = false;
};

// Takes the first event off `events`, its blank line included.
std::string_view next_event(std::string_view& events) noexcept;

// The text of the event's only "data:" line; empty when it has none (a comment).
std::string_view event_data(std::string_view event) noexcept;

}  // namespace sluice::proxy
