#include "common/settings.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "common/nearest.h"
#include "common/toml.h"

namespace sluice::app {
namespace {

constexpr std::size_t kConfigBytesMax = 1 << 20;

std::optional<std::string> plain_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return std::nullopt;
}

}  // namespace

std::string environment_name(std::string_view setting) {
  std::string out = "SLUICE_";
  for (const char c : setting) {
    out += c == '-' ? '_' : (c >= 'a' && c <= 'z') ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return out;
}

Result<std::string> read_config_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return fail(Code::kInvalidArgument,
                fmt::format("cannot read the configuration file {}: is the path right?", path));
  }
  std::string text;
  text.resize(kConfigBytesMax + 1);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return fail(Code::kIo, fmt::format("reading {} failed", path));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kConfigBytesMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} is larger than 1 MiB, which no configuration is", path));
  }
  return text;
}

Result<Layer> layer_from_toml(std::string_view text, std::string_view path,
                              std::span<const Setting> table) {
  const auto parsed = parse_toml(text, path);
  if (!parsed) return std::unexpected(parsed.error());
  return layer_from_table(*parsed, path, "", table);
}

Result<Layer> layer_from_table(const toml::table& values, std::string_view path,
                               std::string_view section, std::span<const Setting> table) {
  std::vector<std::string> known;
  for (const Setting& setting : table) known.push_back(setting.name);
  Layer layer;
  for (const auto& [key, node] : values) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{}:{}: unknown setting '{}{}'{}", path, node.source().begin.line,
                              section, name, did_you_mean(name, known)));
    }
    auto value = plain_text(node);
    if (!value) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{}:{}: '{}{}' must be a plain value (text, number, true or false)",
                              path, node.source().begin.line, section, name));
    }
    layer[name] = std::move(*value);
  }
  return layer;
}

Result<toml::table> parse_toml(std::string_view text, std::string_view path) {
  toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    const auto& error = parsed.error();
    return fail(Code::kInvalidArgument,
                fmt::format("{}:{}: not valid TOML: {}", path, error.source().begin.line,
                            std::string(error.description())));
  }
  return std::move(parsed).table();
}

Layer layer_from_environment(const Environment& environment, std::span<const Setting> table) {
  Layer layer;
  for (const Setting& setting : table) {
    if (auto value = environment(environment_name(setting.name)))
      layer[setting.name] = std::move(*value);
  }
  return layer;
}

std::vector<Effective> merge(std::span<const Setting> table, const Layers& layers) {
  std::vector<Effective> out;
  for (const Setting& setting : table) {
    Effective entry{setting.name, setting.fallback, Source::kDefault, "default"};
    const auto take = [&](const Layer& layer, Source source, std::string where) {
      const auto found = layer.find(setting.name);
      if (found == layer.end()) return;
      entry.value = found->second;
      entry.source = source;
      entry.where = std::move(where);
    };
    take(layers.file, Source::kFile, layers.file_path);
    take(layers.environment, Source::kEnvironment, environment_name(setting.name));
    take(layers.flags, Source::kFlag, "--" + setting.name);
    out.push_back(std::move(entry));
  }
  return out;
}

std::string markdown_table(std::span<const Setting> table) {
  std::string out =
      "| flag and TOML key | environment | value | default | meaning |\n| --- | --- | --- | --- | "
      "--- |\n";
  const auto cell = [](std::string text) {
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
      text.insert(at, 1, '\\');
    return text;
  };
  for (const Setting& setting : table) {
    out += fmt::format("| `{}` | `{}` | {} | {} | {} |\n", setting.name,
                       environment_name(setting.name), cell(setting.form),
                       setting.fallback.empty() ? "" : fmt::format("`{}`", setting.fallback),
                       cell(setting.help));
  }
  return out;
}

}  // namespace sluice::app
