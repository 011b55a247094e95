// roles.h: the roles that engines can have and the stage that each serves. A pool is its role's
// name and a policy, so another role is another row here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::proxy {

enum class Stage : std::uint8_t { kEncode, kPrefill, kAnswer };

struct Role {
  std::string_view name;
  Stage stage;
  bool takes_features;  // may be sent references in the place of media
};

inline constexpr std::array<Role, 5> kRoles = {{{"encoder", Stage::kEncode, false},
                                                {"prefill", Stage::kPrefill, true},
                                                {"decode", Stage::kAnswer, true},
                                                {"prefill_decode", Stage::kAnswer, true},
                                                {"colocated", Stage::kAnswer, false}}};

inline constexpr std::size_t kEncoderRole = 0;
inline constexpr std::size_t kPrefillRole = 1;
inline constexpr std::size_t kDecodeRole = 2;
// Who answers, in falling preference.
inline constexpr std::array<std::size_t, 3> kAnswerRoles = {2, 3, 4};

constexpr std::optional<std::size_t> role_index(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kRoles.size(); ++i) {
    if (kRoles[i].name == name) return i;
  }
  return std::nullopt;
}

}  // namespace sluice::proxy
