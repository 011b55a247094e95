// source_bytes.h: the bytes of a tensor that Python wants to be copied in.
//
// A source is a C-contiguous object with the buffer protocol, or the address of such memory as an
// integer, whose owner the caller keeps. Invariant: the buffer is held until the SourceBytes ends.
// Threads: made and ended with the GIL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <nanobind/nanobind.h>

namespace sluice::python {

class SourceBytes {
 public:
  // Refuses a source that is not contiguous or does not have exactly `bytes` bytes, naming the
  // tensor.
  SourceBytes(nanobind::handle source, std::uint64_t bytes, std::string_view name);
  SourceBytes(SourceBytes&& other) noexcept;
  SourceBytes& operator=(SourceBytes&&) = delete;
  ~SourceBytes();

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  Py_buffer buffer_{};  // obj is null when the source was an address
  std::span<const std::byte> bytes_;
};

}  // namespace sluice::python
