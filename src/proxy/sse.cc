#include "proxy/sse.h"

#include <algorithm>

namespace sluice::proxy {
namespace {

constexpr std::size_t kBlankLineMax = 3;  // LF CR LF

// Behind the first blank line, or npos.
std::size_t event_end(std::string_view text) noexcept {
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string_view::npos; ++at) {
    if (at + 1 < text.size() && text[at + 1] == '\n') return at + 2;
    if (at + 2 < text.size() && text[at + 1] == '\r' && text[at + 2] == '\n') return at + 3;
  }
  return std::string_view::npos;
}

// Behind the last blank line, or 0.
std::size_t last_event_end(std::string_view text) noexcept {
  for (std::size_t at = text.size(); (at = text.rfind('\n', at)) != std::string_view::npos;) {
    if (at == 0) return 0;
    const std::size_t before = text[at - 1] == '\r' ? at - 1 : at;
    if (before > 0 && text[before - 1] == '\n') return at + 1;
    --at;
  }
  return 0;
}

}  // namespace

Result<std::string_view> EventFramer::feed(std::string_view bytes) {
  std::string_view whole;
  if (rest_.empty()) {
    whole = bytes.substr(0, last_event_end(bytes));
    rest_ = bytes.substr(whole.size());
  } else {
    // No event ends in the old rest alone: its last bytes at most belong to a blank line. Looking at
    // all of it with each piece of a large event would be quadratic.
    const std::size_t old = rest_.size() - std::min(rest_.size(), kBlankLineMax);
    rest_ += bytes;
    if (const std::size_t end = last_event_end(std::string_view(rest_).substr(old)); end > 0) {
      kept_.swap(rest_);
      whole = std::string_view(kept_).substr(0, old + end);
      rest_ = std::string_view(kept_).substr(whole.size());
    }
  }
  in_event_ = !rest_.empty();
  if (rest_.size() > event_bytes_max_) {
    return fail(Code::kLimit, "an event of the engine's stream is too large", Drop::kTransfer);
  }
  return whole;
}

std::string_view next_event(std::string_view& events) noexcept {
  const std::size_t end = std::min(event_end(events), events.size());
  const std::string_view event = events.substr(0, end);
  events.remove_prefix(end);
  return event;
}

std::string_view event_data(std::string_view event) noexcept {
  constexpr std::string_view kData = "data:";
  while (!event.empty()) {
    const std::size_t end = std::min(event.find('\n'), event.size());
    std::string_view line = event.substr(0, end);
    event.remove_prefix(std::min(end + 1, event.size()));
    if (!line.starts_with(kData)) continue;
    line.remove_prefix(kData.size());
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }
  return {};
}

}  // namespace sluice::proxy
