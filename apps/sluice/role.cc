#include "role.h"

#include <algorithm>
#include <array>

namespace sluice::cli {
namespace {

struct RoleFacts {
  Role role;
  std::string_view name;
  std::string_view alias;  // vLLM's word where it means just this
  std::string_view ec_role;
  std::string_view kv_role;
};

constexpr std::array kFacts = {
    RoleFacts{Role::kEncoder, "encoder", "ec_producer", "ec_producer", ""},
    RoleFacts{Role::kPrefill, "prefill", "kv_producer", "ec_consumer", "kv_producer"},
    RoleFacts{Role::kDecode, "decode", "kv_consumer", "ec_consumer", "kv_consumer"},
    RoleFacts{Role::kPrefillDecode, "prefill_decode", "ec_consumer", "ec_consumer", ""},
    RoleFacts{Role::kEncodeAll, "ec_both", "ec_both", "ec_both", ""},
    RoleFacts{Role::kColocated, "colocated", "none", "", ""},
};

const RoleFacts& facts(Role role) noexcept {
  return *std::ranges::find(kFacts, role, &RoleFacts::role);
}

}  // namespace

std::string_view name(Role role) noexcept {
  return facts(role).name;
}

std::optional<Role> role_of(std::string_view text) {
  for (const RoleFacts& one : kFacts) {
    if (text == one.name || text == one.alias) return one.role;
  }
  return std::nullopt;
}

std::vector<std::string> role_names() {
  std::vector<std::string> out;
  out.reserve(2 * kFacts.size());
  for (const RoleFacts& one : kFacts) {
    out.emplace_back(one.name);
    if (one.alias != one.name) out.emplace_back(one.alias);
  }
  return out;
}

std::string_view ec_role(Role role) noexcept {
  return facts(role).ec_role;
}

std::string_view kv_role(Role role) noexcept {
  return facts(role).kv_role;
}

bool makes_features(Role role) noexcept {
  return role == Role::kEncoder || role == Role::kEncodeAll;
}

bool takes_features(Role role) noexcept {
  return !ec_role(role).empty() && role != Role::kEncoder;
}

}  // namespace sluice::cli
