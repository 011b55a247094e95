// openai_error.h: an answer that says no, in the form that clients of the OpenAI API read.
//
// Pure. Never holds a token or bytes of a body, only names and sizes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sluice/error.h>

namespace sluice::proxy {

struct OpenAiError {
  unsigned status = 500;
  std::string message;
  std::string param;                // the field that was wrong; empty: none
  std::string code;                 // for programs: "queue_full", "invalid_value", ...; empty: none
  std::uint32_t retry_after_s = 0;  // 0: no Retry-After header
};

template <class T>
using Outcome = std::expected<T, OpenAiError>;

std::string json_string(std::string_view text);  // quoted and escaped; bytes beyond ASCII stay

// {"error": {"message", "type", "param", "code"}}; the type follows from the status.
std::string error_body(const OpenAiError& error);

}  // namespace sluice::proxy
