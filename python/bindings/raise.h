// raise.h: from Result<T> to a value or a Python exception.
//
// `Raised` is the one C++ exception of the bindings: it carries an Error from the place where a
// Result is opened to the translator that bind_errors() registers, and never leaves the module.
// Threads: may be thrown with or without the GIL; the translator runs with it.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include <sluice/error.h>

namespace sluice::python {

class Raised : public std::exception {
 public:
  explicit Raised(Error error) : error_(std::move(error)) {}
  const Error& error() const noexcept { return error_; }
  const char* what() const noexcept override { return error_.message.c_str(); }

 private:
  Error error_;
};

[[noreturn]] inline void raise(Error error) {
  throw Raised(std::move(error));
}
[[noreturn]] inline void raise_invalid(std::string message) {
  throw Raised(Error{Code::kInvalidArgument, Drop::kNothing, std::move(message)});
}

// The value of a Result, or its error as a Python exception.
template <class T>
T value_of(Result<T> result) {
  if (!result) raise(std::move(result.error()));
  return std::move(*result);
}
inline void value_of(Status status) {
  if (!status) raise(std::move(status.error()));
}

}  // namespace sluice::python
