// options.h: what sluice-proxy was asked to do. The only place that reads argv and the environment.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/settings.h"
#include "sluice-proxy/proxy_settings.h"

namespace sluice::proxy_app {

struct Invocation {
  ProxySettings settings;  // with instances and tokens
};

// Nothing to run: print this and leave.
struct Answer {
  int exit_code = 0;
  std::string
      text;  // to the standard output when exit_code is 0, else to the standard error stream
};

std::variant<Invocation, Answer> read_invocation(int argc, char** argv);

// --print-config: each setting, its value and where that came from.
std::string describe(const ProxySettings& settings, const std::vector<app::Effective>& effective,
                     bool as_json);

}  // namespace sluice::proxy_app
