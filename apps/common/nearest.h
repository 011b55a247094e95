// nearest.h: "did you mean ...?" for settings, commands and keys. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice::app {

// Insertions, deletions, substitutions and swaps of neighbours; case does not count. At most 256
// bytes of each text are compared.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The known text closest to `wanted`, unless nothing is close enough to be a likely slip.
std::optional<std::string> nearest(std::string_view wanted, std::span<const std::string> known);

// " (did you mean 'x'?)", or "".
std::string did_you_mean(std::string_view wanted, std::span<const std::string> known);

}  // namespace sluice::app
