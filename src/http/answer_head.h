// answer_head.h: writes the header of an answer. Pure.
//
// Invariant: what is written has one reading: the fields that say where the body ends and whether
//            the connection stays are made here, those of the caller with such a name are left out.
// Failure:   kInvalidArgument when a name or a value would break the header apart.
#pragma once

#include <cstdint>
#include <ctime>
#include <span>
#include <string>
#include <string_view>

#include <sluice/error.h>

#include "http/exchange.h"

namespace sluice::http {

enum class AnswerBody : std::uint8_t { kNone, kLength, kChunked, kUntilClose };

struct AnswerHead {
  unsigned status = 200;
  std::span<const Header> headers;
  AnswerBody body = AnswerBody::kNone;
  std::uint64_t length = 0;  // written for kLength, and for kNone when `says_length`
  bool says_length = false;
  bool keep_alive = true;
  unsigned request_version = 11;
  std::string_view date;  // written when `headers` have none
};

// Appends to `out`.
Status append_answer_head(const AnswerHead& head, std::string& out);

// A field that only one hop may set: Connection, Transfer-Encoding, Content-Length and their like.
bool is_framing_field(std::string_view name) noexcept;

std::string_view reason_phrase(unsigned status) noexcept;

// The Date field's value, made once a second.
class HttpDate {
 public:
  std::string_view text(std::time_t now);  // valid until the next call

 private:
  std::time_t at_ = -1;
  std::string text_;
};

// An OpenAI error object. `message` and `code` must need no escape in JSON.
std::string error_object(std::string_view message, std::string_view type, std::string_view code);

}  // namespace sluice::http
