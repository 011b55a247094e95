// answer_facts.h: the few things that the proxy must know about what an engine answered.
//
// Threads: one AnswerReader per worker; its answers own their text.
// Failure: text that is not what was expected reads as "nothing of that".
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/encode_table.h"

namespace sluice::proxy {

enum class EventKind {
  kNone,     // a comment, a role chunk, usage: may be held back
  kContent,  // content, a tool call or a finish reason: the first byte of an answer
  kError,
  kDone
};

struct HandoffAnswer {
  bool committed = false;
  std::string params;  // the object, as prefill gave it
  std::string reason;  // why there is none
};

class AnswerReader {
 public:
  AnswerReader();
  ~AnswerReader();
  AnswerReader(const AnswerReader&) = delete;
  AnswerReader& operator=(const AnswerReader&) = delete;

  // Of an event's data, in the streams of /v1/chat/completions and /v1/completions.
  EventKind kind_of(std::string_view data);

  // The entry of an encoder's answer for the only item it was asked for.
  std::optional<EncodedItem> encoded_item(std::string_view body);

  // kv_transfer_params of a prefill's answer; nothing when it has none.
  std::optional<HandoffAnswer> handoff(std::string_view body);

  // What the engine said in its error object; empty when it said nothing.
  std::string error_message(std::string_view body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Without parsing, for events behind the first content.
bool looks_like_error(std::string_view data) noexcept;

}  // namespace sluice::proxy
