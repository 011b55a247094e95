// options.h: what sluiced was asked to do. The only place that reads argv and the environment.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/daemon_settings.h"
#include "common/settings.h"

namespace sluice::daemon {

struct Invocation {
  app::DaemonSettings settings;
  std::string token;          // empty: none
  std::string notify_socket;  // of systemd; empty: not run by it
  std::uint64_t watchdog_us = 0;
};

// Nothing to run: print this and leave.
struct Answer {
  int exit_code = 0;
  std::string
      text;  // to the standard output when exit_code is 0, else to the standard error stream
};

std::variant<Invocation, Answer> read_invocation(int argc, char** argv);

// --print-config: each setting, its value and where that came from.
std::string describe(const std::vector<app::Effective>& effective, bool token_set, bool as_json);

}  // namespace sluice::daemon
