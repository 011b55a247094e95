#include "common/command_line.h"

#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sluice/version.h>

#include "common/exit_code.h"
#include "common/json_view.h"

namespace sluice::app {

void SettingFlags::add(CLI::App& program, std::span<const Setting> table,
                       const std::string& group) {
  program_ = &program;
  for (const Setting& setting : table) {
    std::string help = setting.help;
    if (!setting.fallback.empty()) help += fmt::format(" [{}]", setting.fallback);
    CLI::Option* option = program.add_option("--" + setting.name, (*values_)[setting.name], help)
                              ->type_name(setting.form)
                              ->take_last();
    if (!group.empty()) option->group(group);
  }
}

Layer SettingFlags::given() const {
  Layer out;
  for (const auto& [name, value] : *values_) {
    if (program_->count("--" + name) > 0) out.emplace(name, value);
  }
  return out;
}

Result<Layers> read_layers(std::span<const Setting> table, std::string path, Layer flags,
                           const Environment& environment, const FileReader& read_file) {
  Layers layers{.file = {},
                .file_path = std::move(path),
                .environment = layer_from_environment(environment, table),
                .flags = std::move(flags)};
  if (layers.file_path.empty()) return layers;
  const auto text = read_config_file(layers.file_path);
  if (!text) return std::unexpected(text.error());
  auto file = read_file ? read_file(*text, layers.file_path)
                        : layer_from_toml(*text, layers.file_path, table);
  if (!file) return std::unexpected(file.error());
  layers.file = std::move(*file);
  return layers;
}

CommandLine::CommandLine(Shape shape, Environment environment)
    : shape_(std::move(shape)),
      environment_(std::move(environment)),
      program_(std::make_unique<CLI::App>(shape_.about, shape_.name)),
      config_path_(environment_(shape_.config_variable).value_or("")) {
  program_->set_help_flag("-h,--help", "Show this text.");
  program_->add_option("--config", config_path_, shape_.config_help)->type_name("PATH");
  program_->add_flag("--print-config", print_config_,
                     "Show the effective settings and where each came from, then exit.");
  program_->add_flag("--json", as_json_, "With --print-config: as JSON.");
  program_->add_flag("--settings-table", print_table_,
                     "Print the table of settings as Markdown, then exit.");
  program_->add_flag("--version", version_, "Show the version.");
  flags_.add(*program_, shape_.table, "Settings");
}

CommandLine::~CommandLine() = default;

void CommandLine::add(const ListFlag& flag, std::vector<std::string>& values) {
  program_->add_option(flag.name, values, flag.help)->type_name(flag.form)->take_all();
}

std::optional<Answer> CommandLine::parse(int argc, char** argv) {
  try {
    program_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return Answer{kExitOk, program_->help()};
  } catch (const CLI::ParseError& error) {  // CLI11's edge
    return Answer{kExitUsage,
                  fmt::format("{0}: {1}\nTry {0} --help.\n", shape_.name, error.what())};
  }
  if (version_) return Answer{kExitOk, fmt::format("{} {}\n", shape_.name, kVersion)};
  if (print_table_) return Answer{kExitOk, markdown_table(shape_.table)};
  return std::nullopt;
}

Result<std::vector<Effective>> CommandLine::settings(const FileReader& read_file) const {
  const auto layers =
      read_layers(shape_.table, config_path_, flags_.given(), environment_, read_file);
  if (!layers) return std::unexpected(layers.error());
  return merge(shape_.table, *layers);
}

Answer CommandLine::config(const std::vector<Effective>& effective,
                           const std::vector<ConfigNote>& notes) const {
  return {kExitOk, describe(effective, notes, as_json_)};
}

Answer CommandLine::refuse(const Error& error) const {
  return {kExitBadConfig, fmt::format("{}: {}\n", shape_.name, error.message)};
}

std::string describe(const std::vector<Effective>& effective, const std::vector<ConfigNote>& notes,
                     bool as_json) {
  if (as_json) {
    nlohmann::ordered_json out = nlohmann::ordered_json::object();
    for (const Effective& entry : effective)
      out[entry.name] = {{"value", entry.value}, {"from", entry.where}};
    for (const ConfigNote& note : notes) {
      if (note.where.empty()) {
        out[note.name] = note.values;
      } else {
        out[note.name] = {{"value", note.values.front()}, {"from", note.where}};
      }
    }
    return dump(out, 2) + "\n";
  }
  std::string out;
  for (const Effective& entry : effective) {
    out += fmt::format("{:<24} = {:<20} # {}\n", entry.name,
                       entry.value.empty() ? "\"\"" : entry.value, entry.where);
  }
  for (const ConfigNote& note : notes) {
    for (const std::string& value : note.values)
      out += fmt::format("{:<24} = {}\n", note.name, value);
  }
  return out;
}

}  // namespace sluice::app
