#include "sluice-proxy/options.h"

#include <cstdlib>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sluice/version.h>

#include "common/daemon_settings.h"
#include "common/exit_code.h"
#include "common/json_view.h"
#include "sluice-proxy/instance_tables.h"

namespace sluice::proxy_app {
namespace {

constexpr const char* kAbout =
    "sluice-proxy: one OpenAI endpoint in front of encoder, prefill and decode engines.\n"
    "Each setting is a flag, a SLUICE_* variable and a key of the --config file (TOML), in falling "
    "precedence.";

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Answer bad_config(const Error& error) {
  return {app::kExitBadConfig, fmt::format("sluice-proxy: {}\n", error.message)};
}

struct Sources {
  app::Layers layers;
  std::vector<InstanceTable> instances;  // of the file
};

Result<Sources> read_sources(const std::string& config_path, app::Layer flags) {
  Sources sources;
  sources.layers.file_path = config_path;
  sources.layers.flags = std::move(flags);
  if (!config_path.empty()) {
    const auto text = app::read_config_file(config_path);
    if (!text) return std::unexpected(text.error());
    auto file = read_proxy_file(*text, config_path, proxy_settings_table());
    if (!file) return std::unexpected(file.error());
    sources.layers.file = std::move(file->settings);
    sources.instances = std::move(file->instances);
  }
  sources.layers.environment = app::layer_from_environment(environment, proxy_settings_table());
  return sources;
}

Result<std::string> read_token(const std::string& file, const std::string& variable) {
  if (!file.empty()) return app::read_token_file(file);
  auto token = environment(variable);
  if (token && token->empty()) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} is set but empty: give it a value or unset it", variable));
  }
  return token.value_or("");
}

// Tokens, instances and what they must fulfil together.
Status complete(ProxySettings& settings, const std::vector<InstanceTable>& tables,
                const std::vector<std::string>& flags) {
  proxy::Settings& to = settings.proxy.settings;
  auto token = read_token(settings.token_file, "SLUICE_TOKEN");
  if (!token) return std::unexpected(token.error());
  to.token = std::move(*token);
  auto engine_token = read_token(settings.engine_token_file, "SLUICE_ENGINE_TOKEN");
  if (!engine_token) return std::unexpected(engine_token.error());
  to.engine_token = std::move(*engine_token);
  if (settings.proxy.beyond_loopback && to.token.empty()) {
    return fail(Code::kInvalidArgument,
                fmt::format("host {} can be reached from other machines, so clients need a token: "
                            "set token-file or SLUICE_TOKEN, or keep to 127.0.0.1",
                            settings.proxy.host));
  }
  if (to.token_always && to.token.empty()) {
    return fail(Code::kInvalidArgument,
                "require-token is always, but there is no token: set token-file or SLUICE_TOKEN");
  }
  for (const InstanceTable& table : tables) {
    auto spec = instance_of(table, to.allow_remote_engines);
    if (!spec) return std::unexpected(spec.error());
    settings.proxy.instances.push_back(std::move(*spec));
  }
  for (const std::string& flag : flags) {
    auto spec = proxy::parse_instance(flag, to.allow_remote_engines);
    if (!spec)
      return fail(Code::kInvalidArgument, fmt::format("--instance: {}", spec.error().message));
    settings.proxy.instances.push_back(std::move(*spec));
  }
  return {};
}

}  // namespace

std::variant<Invocation, Answer> read_invocation(int argc, char** argv) {
  CLI::App program(kAbout, "sluice-proxy");
  program.set_help_flag("-h,--help", "Show this text.");
  std::string config_path = environment("SLUICE_PROXY_CONFIG").value_or("");
  std::vector<std::string> instances;
  bool print_config = false, as_json = false, version = false, print_table = false;
  program
      .add_option(
          "--config", config_path,
          "TOML file with settings and [[instance]] tables; SLUICE_PROXY_CONFIG may name it.")
      ->type_name("PATH");
  program
      .add_option("--instance", instances,
                  "An engine, such as decode=http://127.0.0.1:8000; may be given several times.")
      ->type_name("ROLE=URL")
      ->take_all();
  program.add_flag("--print-config", print_config,
                   "Show the effective settings and where each came from, then exit.");
  program.add_flag("--json", as_json, "With --print-config: as JSON.");
  program.add_flag("--settings-table", print_table,
                   "Print the table of settings as Markdown, then exit.");
  program.add_flag("--version", version, "Show the version.");
  app::Layer values;
  for (const app::Setting& setting : proxy_settings_table()) {
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
    return Answer{app::kExitUsage,
                  fmt::format("sluice-proxy: {}\nTry sluice-proxy --help.\n", error.what())};
  }
  if (version) return Answer{app::kExitOk, fmt::format("sluice-proxy {}\n", kVersion)};
  if (print_table) return Answer{app::kExitOk, app::markdown_table(proxy_settings_table())};
  std::erase_if(values, [&](const auto& entry) { return program.count("--" + entry.first) == 0; });

  const auto sources = read_sources(config_path, std::move(values));
  if (!sources) return bad_config(sources.error());
  const auto effective = app::merge(proxy_settings_table(), sources->layers);
  auto settings = resolve_proxy_settings(effective);
  if (!settings) return bad_config(settings.error());
  if (const auto done = complete(*settings, sources->instances, instances); !done)
    return bad_config(done.error());
  if (print_config) return Answer{app::kExitOk, describe(*settings, effective, as_json)};
  return Invocation{.settings = std::move(*settings)};
}

std::string describe(const ProxySettings& settings, const std::vector<app::Effective>& effective,
                     bool as_json) {
  const auto set = [](const std::string& token) { return token.empty() ? "not set" : "set"; };
  const proxy::Settings& secret = settings.proxy.settings;
  std::vector<std::string> instances;
  instances.reserve(settings.proxy.instances.size());
  for (const proxy::InstanceSpec& spec : settings.proxy.instances)
    instances.push_back(fmt::format("{}={}", proxy::kRoles[spec.role].name, spec.endpoint.text()));
  if (as_json) {
    nlohmann::ordered_json out = nlohmann::ordered_json::object();
    for (const app::Effective& entry : effective)
      out[entry.name] = {{"value", entry.value}, {"from", entry.where}};
    out["token"] = {{"value", set(secret.token)}, {"from", "token-file or SLUICE_TOKEN"}};
    out["engine-token"] = {{"value", set(secret.engine_token)},
                           {"from", "engine-token-file or SLUICE_ENGINE_TOKEN"}};
    out["instances"] = instances;
    return app::dump(out, 2) + "\n";
  }
  std::string out;
  for (const app::Effective& entry : effective) {
    out += fmt::format("{:<24} = {:<20} # {}\n", entry.name,
                       entry.value.empty() ? "\"\"" : entry.value, entry.where);
  }
  out += fmt::format("{:<24} = ({})\n", "token", set(secret.token));
  out += fmt::format("{:<24} = ({})\n", "engine-token", set(secret.engine_token));
  for (const std::string& instance : instances)
    out += fmt::format("{:<24} = {}\n", "instance", instance);
  return out;
}

}  // namespace sluice::proxy_app
