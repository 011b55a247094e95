// proxy_settings.h: every setting of sluice-proxy: its row in the table, and its typed, checked
// value.
//
// The table is the only list: flags, environment, TOML keys, --print-config and the table of
// docs/operating/proxy.md all come from it.
// Threads: plain values and pure functions (token files apart, which are read once at start).
// Failure: kInvalidArgument, one sentence that names the setting, where it was set, and what would
//          be right: exit 78.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include <sluice/error.h>

#include "common/settings.h"
#include "proxy/proxy.h"
#include "store/daemon.h"

namespace sluice::proxy_app {

struct ProxySettings {
  proxy::ProxyOptions proxy;  // all but instances, tokens and logs
  std::string token_file, engine_token_file;
  store::LogLevel log_level = store::LogLevel::kInfo;
  bool log_json = false;
  bool access_log = true;
  std::chrono::milliseconds drain_timeout{};
  bool use_arena = true;
};

std::span<const app::Setting> proxy_settings_table();

// Checks each value and their combinations.
Result<ProxySettings> resolve_proxy_settings(std::span<const app::Effective> effective);

}  // namespace sluice::proxy_app
