// daemon_settings.h: every setting of sluiced: its row in the table, and its typed, checked value.
//
// The table is the only list: flags, environment, TOML keys, --print-config, `sluice config`, the
// [arena] table of `sluice up` and docs/operating/settings.md all come from it.
// Threads: plain values and pure functions.
// Failure: kInvalidArgument, one sentence that names the setting, where it was set, and what would
//          be right: exit 78.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sluice/error.h>

#include "common/settings.h"
#include "store/daemon.h"

namespace sluice::app {

struct DaemonSettings {
  store::DaemonOptions store;  // all but the log
  std::string arena;
  bool admin = true;
  std::string admin_host;
  std::uint16_t admin_port = 0;
  std::string token_file;
  std::uint64_t body_bytes_max = 0;
  store::LogLevel log_level = store::LogLevel::kInfo;
  bool log_json = false;
  std::chrono::nanoseconds drain_timeout{};
};

std::span<const Setting> daemon_settings_table();

// Checks each value and their combinations.
Result<DaemonSettings> resolve_daemon_settings(std::span<const Effective> effective);

}  // namespace sluice::app
