#include "http/chunks.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "http/framing.h"

namespace sluice::http {

namespace {

constexpr unsigned kSizeDigitsMax = 16;

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void ChunkDecoder::fail(std::string_view what) noexcept {
  state_ = State::kBroken;
  error_ = what;
}

void ChunkDecoder::expect(char c, char wanted, State then) noexcept {
  if (c == wanted) {
    state_ = then;
  } else {
    fail("a chunk does not end where its size says");
  }
}

void ChunkDecoder::after_size(char c) noexcept {
  expect(c, '\n', remaining_ == 0 ? State::kTrailerStart : State::kData);
}

void ChunkDecoder::size_line(char c) noexcept {
  if (const int value = hex_value(c); value >= 0 && state_ == State::kSize) {
    if (++digits_ > kSizeDigitsMax) return fail("the size of a chunk has too many digits");
    if (remaining_ > (std::uint64_t{std::numeric_limits<std::int64_t>::max()} >> 4)) {
      return fail("the size of a chunk overflows");
    }
    remaining_ = remaining_ << 4 | static_cast<std::uint64_t>(value);
    return;
  }
  if (digits_ == 0) return fail("a chunk has no size");
  if (c == '\r') {
    state_ = State::kSizeFeed;
    return;
  }
  if (state_ == State::kSize && c != ';') return fail("the size of a chunk is no number");
  state_ = State::kExtension;
  if (!is_field_value({&c, 1})) return fail("an extension of a chunk holds a control character");
  if (++extension_bytes_ > kExtensionBytesMax) fail("the extensions of the chunks are too long");
}

void ChunkDecoder::trailer(char c) noexcept {
  if (++trailer_bytes_ > kTrailerBytesMax) return fail("the trailers are too long");
  switch (state_) {
    case State::kTrailerStart:
      if (c == '\r') {
        state_ = State::kEndFeed;
      } else if (is_token({&c, 1})) {
        state_ = State::kTrailerName;
      } else {
        fail("a trailer has no name");
      }
      return;
    case State::kTrailerName:
      if (c == ':') {
        state_ = State::kTrailerValue;
      } else if (!is_token({&c, 1})) {
        fail("the name of a trailer holds what no name may");
      }
      return;
    default:
      if (c == '\r') {
        state_ = State::kTrailerFeed;
      } else if (!is_field_value({&c, 1})) {
        fail("a trailer holds a control character");
      }
  }
}

void ChunkDecoder::framing(char c) noexcept {
  switch (state_) {
    case State::kSize:
    case State::kExtension:
      return size_line(c);
    case State::kSizeFeed:
      return after_size(c);
    case State::kDataReturn:
      return expect(c, '\r', State::kDataFeed);
    case State::kDataFeed:
      digits_ = 0;
      return expect(c, '\n', State::kSize);
    case State::kTrailerStart:
    case State::kTrailerName:
    case State::kTrailerValue:
      return trailer(c);
    case State::kTrailerFeed:
      return expect(c, '\n', State::kTrailerStart);
    case State::kEndFeed:
      return expect(c, '\n', State::kDone);
    case State::kData:
    case State::kDone:
    case State::kBroken:
      CHECK(false);
  }
}

ChunkDecoder::Step ChunkDecoder::next(std::string_view in) noexcept {
  std::size_t at = 0;
  while (at < in.size() && state_ != State::kDone && state_ != State::kBroken) {
    if (state_ == State::kData) {
      const std::size_t bytes = std::min<std::uint64_t>(remaining_, in.size() - at);
      skip(bytes);
      return {.consumed = at + bytes, .data = in.substr(at, bytes)};
    }
    framing(in[at++]);
  }
  return {.consumed = at, .data = {}};
}

void ChunkDecoder::skip(std::uint64_t bytes) noexcept {
  CHECK(state_ == State::kData && bytes <= remaining_);
  remaining_ -= bytes;
  if (remaining_ == 0) state_ = State::kDataReturn;
}

}  // namespace sluice::http
