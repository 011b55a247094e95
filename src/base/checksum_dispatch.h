// checksum_dispatch.h: which compiled form of the checksum kernels runs on this machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checksum.h"

namespace sluice {

struct ChecksumKernels {
  void (*hash_chunks)(const std::byte* from, std::size_t bytes, std::uint64_t* digests) noexcept;
  void (*copy_pieces)(std::byte* to, const Piece* pieces, std::size_t count,
                      std::uint64_t* digests) noexcept;
  void (*copy)(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
};

// The AVX2 kernels, or nullptr where the machine (or the build) has none.
const ChecksumKernels* avx2_kernels() noexcept;

}  // namespace sluice
