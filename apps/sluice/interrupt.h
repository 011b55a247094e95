// interrupt.h: waiting that a signal ends, without a signal handler.
//
// Threads: construct before any thread exists; one owner. While it lives SIGINT and SIGTERM (and
//          the others asked for) are
// blocked and only seen here. Failure: none that a caller can act on; without a descriptor
// wait_until() still keeps time.
#pragma once

#include <initializer_list>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace sluice::cli {

class Interrupt {
 public:
  explicit Interrupt(std::initializer_list<int> also = {});
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  int fd() const noexcept { return fd_.get(); }      // readable when a signal waits
  int take() const noexcept;                         // the next signal that came, or 0
  bool wait_until(Instant deadline) const noexcept;  // true: a signal came first; it is not taken

 private:
  UniqueFd fd_;
};

}  // namespace sluice::cli
