// check.h: assertions about our own code. They stay on in release builds; a failed one is a bug in
// Sluice.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace sluice {

[[noreturn]] inline void check_failed(const char* what, const char* file, int line) noexcept {
  std::fprintf(stderr, "sluice: bug: CHECK(%s) failed at %s:%d\n", what, file, line);
  std::abort();
}

}  // namespace sluice

#define CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::sluice::check_failed(#condition, __FILE__, __LINE__))
