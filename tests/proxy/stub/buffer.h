// buffer.h: bytes that have arrived and are not used up yet, with room behind them for a JSON parser.
//
// Invariant: kPadding readable bytes lie behind text().
// Threads:   one.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace sluice::stub {

class Buffer {
 public:
  static constexpr std::size_t kPadding = 64;

  std::string_view text() const noexcept { return {bytes_.get() + begin_, end_ - begin_}; }
  bool empty() const noexcept { return begin_ == end_; }

  // At least `bytes` of room; what is written there is appended with added().
  std::span<char> room(std::size_t bytes) {
    if (capacity_ - end_ < bytes) make_room(bytes);
    return {bytes_.get() + end_, capacity_ - end_};
  }
  void added(std::size_t bytes) noexcept { end_ += bytes; }

  void used(std::size_t bytes) noexcept {
    begin_ += bytes;
    if (begin_ == end_) begin_ = end_ = 0;
  }

 private:
  void make_room(std::size_t bytes) {
    const std::size_t held = end_ - begin_;
    const std::size_t wanted = 2 * (held + bytes);
    auto larger = std::make_unique_for_overwrite<char[]>(wanted + kPadding);
    if (held != 0) std::memcpy(larger.get(), bytes_.get() + begin_, held);
    std::memset(larger.get() + wanted, 0, kPadding);
    bytes_ = std::move(larger);
    capacity_ = wanted;
    begin_ = 0;
    end_ = held;
  }

  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0;  // without the padding
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace sluice::stub
