// stop_signals.h: SIGTERM and SIGINT as something to read, instead of code that interrupts.
//
// Threads: before any other thread exists: the signals are blocked, and every later thread inherits
//          that.
// Failure: kIo when the kernel has no descriptors left.
#pragma once

#include <sluice/error.h>

#include "base/unique_fd.h"

namespace sluice::app {

// A signalfd that does not block. SIGPIPE is ignored from here on: a log reader that left is not a
// reason to die.
Result<UniqueFd> watch_stop_signals();

}  // namespace sluice::app
