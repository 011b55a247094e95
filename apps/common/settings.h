// settings.h: one table of settings, read from a file, the environment and flags, in that order of
// rising precedence.
//
// A setting called `segment-size` is the flag --segment-size, the variable SLUICE_SEGMENT_SIZE and
// the TOML key segment-size. Values travel as text and are checked once, where they are applied, so
// that every source is refused with the same sentence.
// Threads: plain values and pure functions.
// Failure: kInvalidArgument naming the key, its source and the nearest known key. Nothing unknown
//          is ignored.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/error.h>

namespace sluice::app {

struct Setting {
  std::string name;      // segment-size
  std::string form;      // what a value looks like: SIZE, DURATION, NAME, true|false, ...
  std::string fallback;  // its default, as text
  std::string help;      // one sentence
};

enum class Source { kDefault, kFile, kEnvironment, kFlag };

struct Effective {
  std::string name;
  std::string value;
  Source source = Source::kDefault;
  std::string where;  // "default", "/etc/sluice/sluiced.toml", "SLUICE_SIZE", "--size"
};

using Layer = std::map<std::string, std::string>;  // setting name -> text
using Environment = std::function<std::optional<std::string>(const std::string& variable)>;

std::string environment_name(std::string_view setting);  // SLUICE_SEGMENT_SIZE

// The top-level keys of a TOML text, each of which must be in the table and hold a plain value.
Result<Layer> layer_from_toml(std::string_view text, std::string_view path,
                              std::span<const Setting> table);
Layer layer_from_environment(const Environment& environment, std::span<const Setting> table);

struct Layers {
  Layer file;
  std::string file_path;
  Layer environment;
  Layer flags;
};

// One entry per row of the table, in its order.
std::vector<Effective> merge(std::span<const Setting> table, const Layers& layers);

// Reads a whole configuration file of at most 1 MiB.
Result<std::string> read_config_file(const std::string& path);

// "Markdown table of the settings", as docs/operating/ holds it.
std::string markdown_table(std::span<const Setting> table);

}  // namespace sluice::app
