// bytes.h: little-endian reading and writing that cannot leave its span.
//
// Invariant: a Reader or Writer never touches a byte outside the span it was made with. The first
//            access that would is refused, remembered in ok(), and everything after it too.
// Threads:   one owner.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/checked.h"

namespace sluice {

static_assert(std::endian::native == std::endian::little,
              "Sluice writes its formats by copying little-endian integers");

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  template <std::integral T>
  T read() noexcept {
    T value{};
    if (const auto from = take(sizeof(T)); !from.empty())
      std::memcpy(&value, from.data(), sizeof(T));
    return value;
  }

  // A view of the next n bytes, empty when they are not there.
  std::span<const std::byte> take(std::size_t n) noexcept {
    if (!ok_ || !fits(position_, n, bytes_.size())) {
      ok_ = false;
      return {};
    }
    const auto view = bytes_.subspan(position_, n);
    position_ += n;
    return view;
  }

  std::string_view take_text(std::size_t n) noexcept {
    const auto view = take(n);
    return {reinterpret_cast<const char*>(view.data()), view.size()};
  }

  bool ok() const noexcept { return ok_; }
  std::size_t position() const noexcept { return position_; }
  std::size_t remaining() const noexcept { return bytes_.size() - position_; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  bool ok_ = true;
};

class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> bytes) noexcept : bytes_(bytes) {}

  template <std::integral T>
  void write(T value) noexcept {
    put(std::as_bytes(std::span(&value, 1)));
  }

  void put(std::span<const std::byte> from) noexcept {
    if (!ok_ || !fits(position_, from.size(), bytes_.size())) {
      ok_ = false;
      return;
    }
    if (!from.empty()) std::memcpy(bytes_.data() + position_, from.data(), from.size());
    position_ += from.size();
  }

  void put_text(std::string_view text) noexcept {
    put(std::as_bytes(std::span(text.data(), text.size())));
  }

  bool ok() const noexcept { return ok_; }
  std::size_t position() const noexcept { return position_; }

 private:
  std::span<std::byte> bytes_;
  std::size_t position_ = 0;
  bool ok_ = true;
};

}  // namespace sluice
