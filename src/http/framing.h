// framing.h: the header of an HTTP/1 message and where its body ends: bytes in, verdict out. Pure.
//
// Invariant: a header is complete only when every byte of it follows the grammar and its framing
//            has one reading. Whatever two programs could read differently is refused, never
//            repaired: two lengths, a length beside chunks, a bare CR or LF, control characters,
//            folded lines, space before a colon, any coding but "chunked".
// Owner:     views point into the caller's bytes.
// Failure:   a Refusal names the status, a code for programs and a sentence.
// Limits:    HeadLimits; refused as soon as the bytes at hand exceed them.
//
// Grammar: RFC 9110 (fields), RFC 9112 (messages).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::http {

struct HeadLimits {
  std::size_t bytes_max = 16 * 1024;
  std::size_t fields_max = 100;
};

struct FieldView {
  std::string_view name;
  std::string_view value;  // without the spaces around it
};

struct Refusal {
  unsigned status = 0;
  std::string_view code;
  std::string_view what;
};

enum class BodyKind : std::uint8_t { kNone, kLength, kChunked, kUntilClose };

// What both kinds of message have in common.
struct HeadView {
  unsigned version = 11;  // 10 or 11
  std::vector<FieldView> fields;
  BodyKind body = BodyKind::kNone;
  std::uint64_t length = 0;  // of a body of kind kLength
  bool keep_alive = true;
};

struct RequestView : HeadView {
  std::string_view method;
  std::string_view target;  // path and query; of an absolute target, what follows its authority
  bool expects_continue = false;
};

struct ResponseView : HeadView {
  unsigned status = 0;
};

enum class Verdict : std::uint8_t { kIncomplete, kComplete, kRefused };

struct HeadCheck {
  Verdict verdict = Verdict::kIncomplete;
  std::size_t bytes = 0;  // of a complete header
  Refusal refusal;
};

// `out` is overwritten; it holds something only when the verdict is kComplete.
HeadCheck check_request(std::string_view bytes, const HeadLimits& limits, RequestView& out);

// `to_head`: the request was a HEAD, whose answer has no body whatever its header says.
HeadCheck check_response(std::string_view bytes, const HeadLimits& limits, bool to_head,
                         ResponseView& out);

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept;
bool is_token(std::string_view text) noexcept;        // a method or a field's name
bool is_field_value(std::string_view text) noexcept;  // no control characters but tabs

}  // namespace sluice::http
