// json_cut.h: takes members out of JSON text that an engine sent, wherever they stand.
//
// Pure. The text is not checked: what is not JSON comes back as it was. Only members whose key is
// spelled without escapes are found, which is how engines spell them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::proxy {

// The text without kv_transfer_params and ec_transfer_params; nothing when it has neither.
std::optional<std::string> cut_transfer_params(std::string_view text);

}  // namespace sluice::proxy
