// checksum_dispatch.h: which compiled form of the checksum kernels runs on this machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checksum.h"

namespace sluice {

struct ChecksumKernels {
  void (*hash_chunks)(const std::byte* from, std::size_t bytes, std::uint64_t* digests) noexcept;
  void (*add_piece)(CopyState& state, const Piece& piece) noexcept;
  void (*finish)(CopyState& state) noexcept;
  void (*copy_runs)(const CopyRun* runs, std::size_t count, bool past_caches) noexcept;
  void (*copy)(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
};

// From this size on a transfer is worth keeping out of the caches: it would push out more than
// anybody reads again soon.
inline constexpr std::uint64_t kStreamBytesMin = 1024 * 1024;

// The AVX2 kernels, or nullptr where the machine (or the build) has none.
const ChecksumKernels* avx2_kernels() noexcept;

}  // namespace sluice
