// test_pace.h: what a build with a sanitizer may take longer, and larger, than ours: its checks
// slow every access down, its shadow and its quarantine are resident memory.
#pragma once

namespace sluice::http {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kPace = 10;
#else
inline constexpr int kPace = 1;
#endif

}  // namespace sluice::http
