// options.h: what sluice-proxy was asked to do. The only place that reads argv and the environment.
#pragma once

#include <string>
#include <variant>

#include "common/command_line.h"
#include "sluice-proxy/proxy_settings.h"

namespace sluice::proxy_app {

struct Invocation {
  ProxySettings settings;     // with instances and tokens
  std::string notify_socket;  // of systemd; empty: not run by it
};

std::variant<Invocation, app::Answer> read_invocation(int argc, char** argv);

}  // namespace sluice::proxy_app
