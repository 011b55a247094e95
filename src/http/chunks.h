// chunks.h: takes the chunked coding of a body apart, wherever its bytes are cut. Pure.
//
// Invariant: data is handed out in the order in which it came, as views into the caller's bytes;
//            nothing is stored but the place in the grammar. Trailers are read and dropped.
// Failure:   once an input breaks the grammar every later call answers the same error.
// Limits:    a chunk's size has at most 16 digits and stays below 2^63; the extensions of a body
//            together at most kExtensionBytesMax, its trailers kTrailerBytesMax.
//
// Grammar: RFC 9112, section 7.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::http {

class ChunkDecoder {
 public:
  static constexpr std::size_t kExtensionBytesMax = 4 * 1024;
  static constexpr std::size_t kTrailerBytesMax = 8 * 1024;

  struct Step {
    std::size_t consumed = 0;  // of the input: framing, and the data
    std::string_view data;     // the end of what was consumed; may be empty
  };

  // Reads up to and including the next data, the end of the body, an error or the end of `in`.
  Step next(std::string_view in) noexcept;

  // Data of the current chunk that is still to come; the caller may read as much of it straight to
  // its place and say so with skip().
  std::uint64_t remaining() const noexcept { return state_ == State::kData ? remaining_ : 0; }
  void skip(std::uint64_t bytes) noexcept;

  bool done() const noexcept { return state_ == State::kDone; }
  std::string_view error() const noexcept { return error_; }  // empty: none

 private:
  enum class State : std::uint8_t {
    kSize,
    kExtension,
    kSizeFeed,
    kData,
    kDataReturn,
    kDataFeed,
    kTrailerStart,
    kTrailerName,
    kTrailerValue,
    kTrailerFeed,
    kEndFeed,
    kDone,
    kBroken,
  };

  void framing(char c) noexcept;
  void size_line(char c) noexcept;
  void trailer(char c) noexcept;
  void after_size(char c) noexcept;
  void expect(char c, char wanted, State then) noexcept;
  void fail(std::string_view what) noexcept;

  State state_ = State::kSize;
  unsigned digits_ = 0;
  std::uint64_t remaining_ = 0;
  std::size_t extension_bytes_ = 0;
  std::size_t trailer_bytes_ = 0;
  std::string_view error_;
};

}  // namespace sluice::http
