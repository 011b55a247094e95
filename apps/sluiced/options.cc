#include "sluiced/options.h"

#include <charconv>
#include <cstdlib>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <sluice/version.h>

#include "common/exit_code.h"
#include "common/json_view.h"

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

Answer bad_config(const Error& error) {
  return {app::kExitBadConfig, fmt::format("sluiced: {}\n", error.message)};
}

Result<app::Layers> read_layers(const std::string& config_path, app::Layer flags) {
  app::Layers layers{
      .file = {}, .file_path = config_path, .environment = {}, .flags = std::move(flags)};
  if (!config_path.empty()) {
    const auto text = app::read_config_file(config_path);
    if (!text) return std::unexpected(text.error());
    auto file = app::layer_from_toml(*text, config_path, app::daemon_settings_table());
    if (!file) return std::unexpected(file.error());
    layers.file = std::move(*file);
  }
  layers.environment = app::layer_from_environment(environment, app::daemon_settings_table());
  return layers;
}

Result<std::string> read_token(const app::DaemonSettings& settings) {
  if (!settings.token_file.empty()) return app::read_token_file(settings.token_file);
  auto token = environment("SLUICE_TOKEN");
  if (token && token->empty()) {
    return fail(Code::kInvalidArgument,
                "SLUICE_TOKEN is set but empty: give it a value or unset it");
  }
  return token.value_or("");
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

std::variant<Invocation, Answer> read_invocation(int argc, char** argv) {
  CLI::App program(kAbout, "sluiced");
  program.set_help_flag("-h,--help", "Show this text.");
  std::string config_path = environment("SLUICE_CONFIG").value_or("");
  bool print_config = false, as_json = false, version = false, print_table = false;
  program
      .add_option("--config", config_path, "TOML file with settings; SLUICE_CONFIG may name it.")
      ->type_name("PATH");
  program.add_flag("--print-config", print_config,
                   "Show the effective settings and where each came from, then exit.");
  program.add_flag("--json", as_json, "With --print-config: as JSON.");
  program.add_flag("--settings-table", print_table,
                   "Print the table of settings as Markdown, then exit.");
  program.add_flag("--version", version, "Show the version.");
  app::Layer values;
  for (const app::Setting& setting : app::daemon_settings_table()) {
    std::string help = setting.help;
    if (!setting.fallback.empty()) help += fmt::format(" [{}]", setting.fallback);
    program.add_option("--" + setting.name, values[setting.name], help)
        ->type_name(setting.form)
        ->group("Settings")
        ->take_last();
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return Answer{app::kExitOk, program.help()};
  } catch (const CLI::ParseError& error) {  // CLI11's edge
    return Answer{app::kExitUsage, fmt::format("sluiced: {}\nTry sluiced --help.\n", error.what())};
  }
  if (version) return Answer{app::kExitOk, fmt::format("sluiced {}\n", kVersion)};
  if (print_table) return Answer{app::kExitOk, app::markdown_table(app::daemon_settings_table())};
  std::erase_if(values, [&](const auto& entry) { return program.count("--" + entry.first) == 0; });

  const auto layers = read_layers(config_path, std::move(values));
  if (!layers) return bad_config(layers.error());
  const auto effective = app::merge(app::daemon_settings_table(), *layers);
  auto settings = app::resolve_daemon_settings(effective);
  if (!settings) return bad_config(settings.error());
  auto token = read_token(*settings);
  if (!token) return bad_config(token.error());
  if (print_config) return Answer{app::kExitOk, describe(effective, !token->empty(), as_json)};
  return Invocation{.settings = std::move(*settings),
                    .token = std::move(*token),
                    .notify_socket = environment("NOTIFY_SOCKET").value_or(""),
                    .watchdog_us = watchdog_us()};
}

std::string describe(const std::vector<app::Effective>& effective, bool token_set, bool as_json) {
  if (as_json) {
    nlohmann::ordered_json out = nlohmann::ordered_json::object();
    for (const app::Effective& entry : effective) {
      out[entry.name] = {{"value", entry.value}, {"from", entry.where}};
    }
    out["token"] = {{"value", token_set ? "set" : "not set"},
                    {"from", "token-file or SLUICE_TOKEN"}};
    return app::dump(out, 2) + "\n";
  }
  std::string out;
  for (const app::Effective& entry : effective) {
    out += fmt::format("{:<20} = {:<20} # {}\n", entry.name,
                       entry.value.empty() ? "\"\"" : entry.value, entry.where);
  }
  out += fmt::format("{:<20} = {:<20}\n", "token", token_set ? "(set)" : "(not set)");
  return out;
}

}  // namespace sluice::daemon
