// version.h: the version of the library and of what it writes. An unknown version is refused, never
// guessed.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

inline constexpr std::string_view kVersion = "0.1.0";
inline constexpr std::uint32_t kControlVersion =
    1;  // layout of the control segment and client pages
inline constexpr std::uint32_t kAttachVersion = 1;  // frames on the attach socket

}  // namespace sluice
