// An engine's answer: framing loses no byte, and nothing that is sent on names transfer parameters
// as a key.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "fuzz_target.h"
#include "proxy/answer_facts.h"
#include "proxy/json_cut.h"
#include "proxy/sse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::proxy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  EventFramer framer(1 << 20);
  std::string joined;
  AnswerReader reader;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t piece = std::min<std::size_t>(1 + data[at] % 61, text.size() - at);
    const auto events = framer.feed(text.substr(at, piece));
    CHECK(events.has_value());
    joined += *events;
    for (std::string_view rest = *events; !rest.empty();) {
      const std::string_view event = next_event(rest);
      CHECK(!event.empty() && event.ends_with('\n'));
      std::ignore = reader.kind_of(event_data(event));
    }
    at += piece;
  }
  CHECK(text.starts_with(joined));
  CHECK(framer.in_event() == (joined.size() < text.size()));
  if (const auto cut = cut_transfer_params(text)) {
    CHECK(cut->size() < text.size());
    // A comma that is left out may join two texts into one more of them, never endlessly.
    auto once_more = cut_transfer_params(*cut);
    if (once_more) CHECK(once_more->size() < cut->size());
  }
  std::ignore = reader.encoded_item(text);
  std::ignore = reader.handoff(text);
  std::ignore = reader.error_message(text);
  return 0;
}
