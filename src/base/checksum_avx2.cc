// The checksum kernels for x86-64 machines with AVX2. Large copies use streaming stores, as a large
// memcpy does: they do not read the destination first and do not push the source out of the cache.
#include "base/checksum_dispatch.h"

#if defined(__AVX2__)

#include <immintrin.h>

#define XXH_INLINE_ALL
#include <algorithm>
#include <cstring>
#include <utility>

#include <xxhash.h>

#include "base/limits.h"

namespace sluice {
namespace {

void copy_block(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  constexpr std::size_t kLine = 128;
  if (reinterpret_cast<std::uintptr_t>(to) % 32 != 0) {
    std::memcpy(to, from, n);
    return;
  }
  std::size_t i = 0;
  for (; i + kLine <= n; i += kLine) {
    const auto load = [&](std::size_t k) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + k));
    };
    const auto store = [&](std::size_t k, __m256i v) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + k), v);
    };
    const __m256i a = load(0), b = load(32), c = load(64), d = load(96);
    store(0, a), store(32, b), store(64, c), store(96, d);
  }
  if (i < n) std::memcpy(to + i, from + i, n - i);
}

// Streaming stores are weakly ordered: they must be complete before a publish makes the bytes
// visible.
void copy_done() noexcept {
  _mm_sfence();
}

// Streams all but what is in front of the first aligned address.
void copy_run(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  const std::size_t head = std::min<std::size_t>(-reinterpret_cast<std::uintptr_t>(to) % 32, n);
  std::memcpy(to, from, head);
  copy_block(to + head, from + head, n - head);
}

// Half as fast again as the C library's memcpy for blocks of several MiB, which streams only above
// a share of the last-level cache and from several pages at a time.
void copy_kernel(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  if (bytes < kStreamBytesMin) {
    std::memcpy(to, from, bytes);
    return;
  }
  copy_run(to, from, bytes);
  copy_done();
}

#include "base/checksum_kernel.h"

constexpr ChecksumKernels kKernels{hash_chunks_kernel, add_piece_kernel, finish_kernel,
                                   copy_runs_kernel, copy_kernel};

}  // namespace

const ChecksumKernels* avx2_kernels() noexcept {
  return __builtin_cpu_supports("avx2") ? &kKernels : nullptr;
}

}  // namespace sluice

#else

namespace sluice {
const ChecksumKernels* avx2_kernels() noexcept {
  return nullptr;
}
}  // namespace sluice

#endif
