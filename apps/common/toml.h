// toml.h: toml++ without exceptions, for the few files that read TOML. Heavy: include it in .cc
// files only.
#pragma once

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <span>
#include <string_view>

#include <toml++/toml.h>

#include <sluice/error.h>

#include "common/settings.h"

namespace sluice::app {

Result<toml::table> parse_toml(std::string_view text, std::string_view path);

// As layer_from_toml, for one table of a larger file; `section` ("arena.") only makes messages
// readable.
Result<Layer> layer_from_table(const toml::table& values, std::string_view path,
                               std::string_view section, std::span<const Setting> table);

}  // namespace sluice::app
