// npy.h: NumPy's .npy files, format 1.0 to 3.0, for the dtypes that need no Python to be read.
//
// Pure functions over bytes; nothing outside the span is read, nothing is evaluated. Refused, each
// with its own sentence: object arrays (they hold pickles), structured dtypes, big-endian and
// Fortran-ordered data, headers over 64 KiB, shapes that do not match the file's length exactly,
// and anything but the one dictionary that NumPy writes. Source of the format: numpy/lib/format.py,
// described in NEP 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <sluice/error.h>

#include "file_tensor.h"

namespace sluice::cli {

inline constexpr std::size_t kNpyHeadBytesMax = 64 * 1024 + 12;

bool looks_like_npy(std::span<const std::byte> head) noexcept;

// `head`: the first bytes of the file, all of it or at least kNpyHeadBytesMax. `file_bytes`: its
// whole length.
Result<FileTensor> parse_npy(std::span<const std::byte> head, std::uint64_t file_bytes);

// The header that goes before the elements. Refuses dtypes that NumPy has no name for (bfloat16,
// float8).
Result<std::string> npy_header(const TensorSpec& spec);

}  // namespace sluice::cli
