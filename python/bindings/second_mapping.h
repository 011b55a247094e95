// second_mapping.h: the memory of a reservation as Python's writable tensors see it.
//
// A tensor can not be taken back from Python, and a producer may not touch an extent after it
// published or abandoned it. So writable tensors point into a second mapping of the reservation's
// pages. When the reservation ends and tensors are left, that mapping is replaced by private memory
// with the same content: they go on working and reach nobody.
//
// Invariant: after detach() no view made from this mapping reaches the arena.
// Threads:   detach() with the GIL; the end by any thread. A write racing with detach() is private
//            or shared, never torn into another object.
// Failure:   kIo when the kernel refuses the mapping; detach() then falls back to zeroed memory,
//            and nothing is shared.
// Fork:      the child does not have these pages and leaves the addresses alone.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <sys/types.h>

#include <sluice/error.h>

#include "view.h"

namespace sluice::python {

class SecondMapping final : public Pinned {
 public:
  // `bytes` lies in a shared mapping of this process.
  static Result<std::shared_ptr<SecondMapping>> of(std::span<std::byte> bytes);
  ~SecondMapping() override;

  std::byte* data() const noexcept { return data_; }  // where bytes.data() is seen here
  void detach() noexcept;

 private:
  SecondMapping(std::byte* base, std::size_t length, std::byte* data) noexcept;

  std::byte* const base_;
  const std::size_t length_;
  std::byte* const data_;
  const pid_t owner_;
  bool attached_ = true;
};

}  // namespace sluice::python
