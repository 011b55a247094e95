// utf8.h: strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
// Threads: a pure function, any thread.
#pragma once

#include <string_view>

namespace sluice::tensor {

bool is_utf8(std::string_view text) noexcept;

}  // namespace sluice::tensor
