// role.h: what an engine does in a deployment, and what follows for its connectors and the proxy.
//
// Pure. docs/protocols/serving.md says what each role does for a request.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

enum class Role { kEncoder, kPrefill, kDecode, kPrefillDecode, kEncodeAll, kColocated };

std::string_view name(Role role) noexcept;  // "encoder", "prefill", ..., as a topology file says it
std::optional<Role> role_of(std::string_view text);  // vLLM's names "ec_producer" etc. as well
std::vector<std::string> role_names();               // all that role_of() takes

std::string_view ec_role(Role role) noexcept;  // of --ec-transfer-config; empty: no such connector
std::string_view kv_role(Role role) noexcept;  // of --kv-transfer-config; empty: no such connector

bool makes_features(Role role) noexcept;
bool takes_features(Role role) noexcept;

}  // namespace sluice::cli
