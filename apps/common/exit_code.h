// exit_code.h: what the programs of Sluice answer to the shell. Documented in docs/operating/,
// never renumbered.
#pragma once

namespace sluice::app {

inline constexpr int kExitOk = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitUsage = 2;  // the command line is wrong
inline constexpr int kExitBusy = 75;  // a port or the arena's lock is held by somebody else
inline constexpr int kExitBadConfig =
    78;  // a setting, a configuration file or a combination is refused

}  // namespace sluice::app
