// kill_point.h: named places between two writes of a multi-word update, where a crash test may end
// the process.
//
// In ordinary builds a KILL_POINT is nothing. The crash tests compile the store a second time with
// SLUICE_KILL_POINTS and define sluice::kill_point() themselves.
#pragma once

#ifdef SLUICE_KILL_POINTS
namespace sluice {
void kill_point(const char* name) noexcept;  // may not return
}
#define KILL_POINT(name) ::sluice::kill_point(name)
#else
#define KILL_POINT(name) static_cast<void>(0)
#endif
