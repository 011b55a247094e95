// no_gil.h: gives the GIL up for a scope, and survives the end of the interpreter.
//
// Before Python 3.14 a thread that asks for the GIL while the interpreter ends is ended by
// pthread_exit, which unwinds the stack through C++ frames and terminates the process. Such a
// thread stops here instead, until the process is gone: what 3.14 does itself. Only a thread that
// nobody joins can get into this.
//
// Threads: the calling thread, which holds the GIL.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace sluice::python {

class NoGil {
 public:
  NoGil() noexcept : thread_(PyEval_SaveThread()) {}
  NoGil(const NoGil&) = delete;
  NoGil& operator=(const NoGil&) = delete;
  ~NoGil() {
    try {
      PyEval_RestoreThread(thread_);
    } catch (const abi::__forced_unwind&) {
      for (;;) ::pause();
    }
  }

 private:
  PyThreadState* const thread_;
};

}  // namespace sluice::python
