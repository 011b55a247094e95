// view.h: one tensor's memory as Python sees it.
//
// Invariant: memory stays where it is while a View of it lives, because the View shares ownership
//            of its Pinned memory; the memory's own end (a lease's, a reservation's) comes after
//            the last View's.
// Threads:   a View may be destroyed by any thread, with or without the GIL: whoever took the array
//            decides when.
// Limits:    kDimsMax dimensions, C-contiguous.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <nanobind/nanobind.h>

#include <sluice/tensor.h>

#include "base/limits.h"

namespace sluice::python {

// Memory that views can hold: it counts them, so that an explicit end can be refused while there
// are any.
class Pinned {
 public:
  Pinned() = default;
  virtual ~Pinned() = default;
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  std::size_t views() const noexcept { return views_.load(std::memory_order_acquire); }

  // For as long as it lives the memory counts as viewed.
  class Hold {
   public:
    explicit Hold(std::shared_ptr<Pinned> memory) noexcept : memory_(std::move(memory)) {
      memory_->views_.fetch_add(1, std::memory_order_relaxed);
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { memory_->views_.fetch_sub(1, std::memory_order_release); }

   private:
    const std::shared_ptr<Pinned> memory_;  // shared: nobody knows who ends last
  };

 private:
  std::atomic<std::size_t> views_{0};
};

class View {
 public:
  View(std::shared_ptr<Pinned> memory, std::byte* data, TensorSpec spec, std::uint64_t bytes,
       bool writable)
      : hold_(std::move(memory)),
        data_(data),
        spec_(std::move(spec)),
        bytes_(bytes),
        writable_(writable) {}
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  std::byte* data() const noexcept { return data_; }
  const TensorSpec& spec() const noexcept { return spec_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  bool writable() const noexcept { return writable_; }

 private:
  const Pinned::Hold hold_;
  std::byte* const data_;
  const TensorSpec spec_;
  const std::uint64_t bytes_;
  const bool writable_;
};

using Extents = std::array<std::int64_t, kDimsMax>;
// Strides of a C-contiguous array, counted in elements of `unit` bytes.
Extents contiguous_strides(const TensorSpec& spec, std::int64_t unit) noexcept;

// A DLPack capsule over the view (dltensor, or dltensor_versioned). The capsule, or whoever
// consumes it, keeps the view.
nanobind::object to_dlpack(std::shared_ptr<View> view, bool versioned);

}  // namespace sluice::python
