// unfilled.h: room in a string for bytes that are read straight into it.
#pragma once

#include <cstddef>
#include <string>

namespace sluice::http {

// Makes `text` `size` bytes long, keeping what it has and leaving the rest as it is: clearing it
// would touch every page of a large body once more.
inline void resize_unfilled(std::string& text, std::size_t size) {
  // Not the size that the callback is given: libstdc++ 12 passes the capacity there.
  text.resize_and_overwrite(size, [size](char*, std::size_t) { return size; });
}

}  // namespace sluice::http
