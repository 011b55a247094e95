#include "sluice-proxy/instance_tables.h"

#include <array>

#include <fmt/format.h>

#include "common/quantity.h"
#include "common/toml.h"

namespace sluice::proxy_app {
namespace {

const std::array<app::Setting, 5> kInstanceKeys = {{{"role", "ROLE", "", ""},
                                                    {"url", "URL", "", ""},
                                                    {"arena", "NAME", "", ""},
                                                    {"running-max", "COUNT", "", ""},
                                                    {"keep-alive", "DURATION", "", ""}}};

}  // namespace

Result<ProxyFile> read_proxy_file(std::string_view text, std::string_view path,
                                  std::span<const app::Setting> table) {
  auto parsed = app::parse_toml(text, path);
  if (!parsed) return std::unexpected(parsed.error());
  ProxyFile file;
  if (const toml::node* node = parsed->get("instance")) {
    const toml::array* tables = node->as_array();
    if (tables == nullptr) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{}:{}: instances are written as [[instance]]", path,
                              node->source().begin.line));
    }
    for (const toml::node& each : *tables) {
      const auto line = each.source().begin.line;
      if (!each.is_table()) {
        return fail(Code::kInvalidArgument,
                    fmt::format("{}:{}: instances are written as [[instance]]", path, line));
      }
      auto values = app::layer_from_table(*each.as_table(), path, "instance.", kInstanceKeys);
      if (!values) return std::unexpected(values.error());
      file.instances.push_back({std::move(*values), fmt::format("{}:{}", path, line)});
    }
    parsed->erase("instance");
  }
  auto settings = app::layer_from_table(*parsed, path, "", table);
  if (!settings) return std::unexpected(settings.error());
  file.settings = std::move(*settings);
  return file;
}

Result<proxy::InstanceSpec> instance_of(const InstanceTable& table, bool allow_remote) {
  const auto value = [&](const char* name) {
    const auto found = table.values.find(name);
    return found == table.values.end() ? std::string() : found->second;
  };
  const auto refuse = [&](const Error& error) {
    return fail(Code::kInvalidArgument, fmt::format("{}: {}", table.where, error.message));
  };
  auto spec = proxy::make_instance(value("role"), value("url"), allow_remote);
  if (!spec) return refuse(spec.error());
  spec->arena = value("arena");
  if (const std::string text = value("running-max"); !text.empty()) {
    const auto count = app::parse_count(text, 1'000'000);
    if (!count) return refuse(count.error());
    if (*count == 0) return refuse({.message = "running-max must be 1 or more"});
    spec->running_max = static_cast<std::uint32_t>(*count);
  }
  if (const std::string text = value("keep-alive"); !text.empty()) {
    const auto duration = app::parse_duration(text);
    if (!duration) return refuse(duration.error());
    spec->keep_alive = std::chrono::duration_cast<std::chrono::milliseconds>(*duration);
  }
  return spec;
}

}  // namespace sluice::proxy_app
