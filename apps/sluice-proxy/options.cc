#include "sluice-proxy/options.h"

#include <cstdlib>

#include <fmt/format.h>

#include "common/token.h"
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

// Tokens, instances and what they must fulfil together.
Status complete(ProxySettings& settings, const std::vector<InstanceTable>& tables,
                const std::vector<std::string>& flags) {
  proxy::Settings& to = settings.proxy.settings;
  auto token = app::read_token(settings.token_file, "SLUICE_TOKEN", environment);
  if (!token) return std::unexpected(token.error());
  to.token = std::move(*token);
  auto engine_token =
      app::read_token(settings.engine_token_file, "SLUICE_ENGINE_TOKEN", environment);
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

std::vector<app::ConfigNote> notes_of(const ProxySettings& settings) {
  const auto set = [](const std::string& token) { return token.empty() ? "not set" : "set"; };
  std::vector<std::string> instances;
  instances.reserve(settings.proxy.instances.size());
  for (const proxy::InstanceSpec& spec : settings.proxy.instances)
    instances.push_back(fmt::format("{}={}", proxy::kRoles[spec.role].name, spec.endpoint.text()));
  return {{.name = "token",
           .values = {set(settings.proxy.settings.token)},
           .where = "token-file or SLUICE_TOKEN"},
          {.name = "engine-token",
           .values = {set(settings.proxy.settings.engine_token)},
           .where = "engine-token-file or SLUICE_ENGINE_TOKEN"},
          {.name = "instances", .values = std::move(instances), .where = ""}};
}

}  // namespace

std::variant<Invocation, app::Answer> read_invocation(int argc, char** argv) {
  app::CommandLine line(
      {.name = "sluice-proxy",
       .about = kAbout,
       .table = proxy_settings_table(),
       .config_variable = "SLUICE_PROXY_CONFIG",
       .config_help =
           "TOML file with settings and [[instance]] tables; SLUICE_PROXY_CONFIG may name it."},
      environment);
  std::vector<std::string> flags;
  line.add({.name = "--instance",
            .form = "ROLE=URL",
            .help = "An engine, such as decode=http://127.0.0.1:8000; may be given several times."},
           flags);
  if (auto answer = line.parse(argc, argv)) return std::move(*answer);
  std::vector<InstanceTable> tables;
  const auto effective =
      line.settings([&](std::string_view text, std::string_view path) -> Result<app::Layer> {
        auto file = read_proxy_file(text, path, proxy_settings_table());
        if (!file) return std::unexpected(file.error());
        tables = std::move(file->instances);
        return std::move(file->settings);
      });
  if (!effective) return line.refuse(effective.error());
  auto settings = resolve_proxy_settings(*effective);
  if (!settings) return line.refuse(settings.error());
  if (const auto done = complete(*settings, tables, flags); !done) return line.refuse(done.error());
  if (line.wants_config()) return line.config(*effective, notes_of(*settings));
  return Invocation{.settings = std::move(*settings),
                    .notify_socket = environment("NOTIFY_SOCKET").value_or("")};
}

}  // namespace sluice::proxy_app
