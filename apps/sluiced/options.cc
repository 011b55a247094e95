#include "sluiced/options.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include "common/token.h"

namespace sluice::daemon {
namespace {

constexpr const char* kAbout =
    "sluiced: owns the shared-memory arena of one machine.\n"
    "Each setting is a flag, a SLUICE_* variable and a key of the --config file (TOML), in falling "
    "precedence.";

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// systemd sets WATCHDOG_PID to the process it means.
std::uint64_t watchdog_us() {
  const auto microseconds = environment("WATCHDOG_USEC");
  const auto pid = environment("WATCHDOG_PID");
  if (!microseconds || (pid && *pid != fmt::format("{}", ::getpid()))) return 0;
  std::uint64_t value = 0;
  std::from_chars(microseconds->data(), microseconds->data() + microseconds->size(), value);
  return value;
}

}  // namespace

std::variant<Invocation, app::Answer> read_invocation(int argc, char** argv) {
  app::CommandLine line({.name = "sluiced",
                         .about = kAbout,
                         .table = app::daemon_settings_table(),
                         .config_variable = "SLUICE_CONFIG",
                         .config_help = "TOML file with settings; SLUICE_CONFIG may name it."},
                        environment);
  if (auto answer = line.parse(argc, argv)) return std::move(*answer);
  const auto effective = line.settings();
  if (!effective) return line.refuse(effective.error());
  auto settings = app::resolve_daemon_settings(*effective);
  if (!settings) return line.refuse(settings.error());
  auto token = app::read_token(settings->token_file, "SLUICE_TOKEN", environment);
  if (!token) return line.refuse(token.error());
  if (line.wants_config()) {
    return line.config(*effective, {{.name = "token",
                                     .values = {token->empty() ? "not set" : "set"},
                                     .where = "token-file or SLUICE_TOKEN"}});
  }
  return Invocation{.settings = std::move(*settings),
                    .token = std::move(*token),
                    .notify_socket = environment("NOTIFY_SOCKET").value_or(""),
                    .watchdog_us = watchdog_us()};
}

}  // namespace sluice::daemon
