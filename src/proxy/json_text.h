// json_text.h: whether the escapes inside a JSON string mean something, without unescaping it.
#pragma once

#include <string_view>

namespace sluice::proxy {

// `text`: what stands between the quotes. Refuses unknown escapes and halves of surrogate pairs,
// which readers of JSON treat differently.
bool escapes_are_valid(std::string_view text) noexcept;

}  // namespace sluice::proxy
