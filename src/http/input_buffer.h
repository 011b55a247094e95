// input_buffer.h: bytes of a connection that were received and not yet used.
//
// Invariant: room() is the memory behind bytes(). While a read into it is under way (begin_read()
//            to commit()) nothing moves; bytes may be consumed all the same.
// Limits:    kSmall bytes while a connection idles; grows to what make_room() is told.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace sluice::http {

class InputBuffer {
 public:
  static constexpr std::size_t kSmall = 4 * 1024;

  std::string_view bytes() const noexcept { return {data_.get() + begin_, end_ - begin_}; }
  bool empty() const noexcept { return begin_ == end_; }
  std::size_t size() const noexcept { return end_ - begin_; }
  // bytes(), to be rearranged by whoever takes them apart.
  std::span<char> held() noexcept { return {data_.get() + begin_, end_ - begin_}; }
  bool reading() const noexcept { return reading_; }

  // The room that a read may fill; commit() says how much it has.
  std::span<char> begin_read() noexcept {
    CHECK(!reading_);
    reading_ = true;
    return {data_.get() + end_, capacity_ - end_};
  }
  void commit(std::size_t bytes) noexcept {
    CHECK(reading_ && bytes <= capacity_ - end_);
    reading_ = false;
    end_ += bytes;
  }
  void consume(std::size_t bytes) noexcept {
    CHECK(bytes <= end_ - begin_);
    begin_ += bytes;
    if (begin_ == end_ && !reading_) begin_ = end_ = 0;
  }

  // Gets room for at least one byte without holding more than `capacity_max`; false when full.
  bool make_room(std::size_t capacity_max) {
    CHECK(!reading_);
    if (end_ < capacity_) return true;
    if (begin_ > 0) {
      std::memmove(data_.get(), data_.get() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      return true;
    }
    if (capacity_ >= capacity_max) return false;
    resize(std::clamp(capacity_ * 2, std::min(kSmall, capacity_max), capacity_max));
    return true;
  }

  // For a peer that sends much: at least `capacity` bytes in all.
  void grow_to(std::size_t capacity) {
    CHECK(!reading_);
    if (capacity_ < capacity) resize(capacity);
  }

  // Gives back what an idle connection does not need.
  void shrink() {
    if (empty() && !reading_ && capacity_ > kSmall) resize(kSmall);
  }

 private:
  void resize(std::size_t capacity) {
    auto data = std::make_unique_for_overwrite<char[]>(capacity);
    if (!empty()) std::memcpy(data.get(), data_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    data_ = std::move(data);
    capacity_ = capacity;
  }

  std::unique_ptr<char[]> data_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool reading_ = false;
};

}  // namespace sluice::http
