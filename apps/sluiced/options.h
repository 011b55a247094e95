// options.h: what sluiced was asked to do. The only place that reads argv and the environment.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "common/command_line.h"
#include "common/daemon_settings.h"

namespace sluice::daemon {

struct Invocation {
  app::DaemonSettings settings;
  std::string token;          // empty: none
  std::string notify_socket;  // of systemd; empty: not run by it
  std::uint64_t watchdog_us = 0;
};

std::variant<Invocation, app::Answer> read_invocation(int argc, char** argv);

}  // namespace sluice::daemon
