// auth.h: bearer tokens. A token is compared in a time that does not depend on where it differs,
// and never printed.
#pragma once

#include <string_view>

namespace sluice::http {

bool equal_in_constant_time(std::string_view given, std::string_view secret) noexcept;

// True when `authorization` is "Bearer <token>"; an empty token matches nothing.
bool bearer_matches(std::string_view authorization, std::string_view token) noexcept;

}  // namespace sluice::http
