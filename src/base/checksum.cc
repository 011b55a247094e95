#include "base/checksum.h"

#define XXH_INLINE_ALL
#include <algorithm>
#include <cstring>
#include <utility>

#include <xxhash.h>

#include "base/check.h"
#include "base/checksum_dispatch.h"

namespace sluice {
namespace {

void copy_block(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  std::memcpy(to, from, n);
}
void copy_run(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  std::memcpy(to, from, n);
}
void copy_done() noexcept {}
void copy_kernel(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

#include "base/checksum_kernel.h"

const ChecksumKernels& kernels() noexcept {
  static const ChecksumKernels chosen =
      avx2_kernels() != nullptr ? *avx2_kernels()
                                : ChecksumKernels{hash_chunks_kernel, add_piece_kernel,
                                                  finish_kernel, copy_runs_kernel, copy_kernel};
  return chosen;
}

}  // namespace

std::uint64_t hash64(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Hash128 hash128(std::span<const std::byte> bytes) noexcept {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.low64, h.high64};
}

void hash_chunks(std::span<const std::byte> from, std::span<std::uint64_t> digests) noexcept {
  CHECK(digests.size() == chunk_count(from.size()));
  kernels().hash_chunks(from.data(), from.size(), digests.data());
}

CopyAndHash::CopyAndHash(std::span<std::byte> to, std::span<std::uint64_t> digests) noexcept
    : left_(to.size()) {
  CHECK(digests.size() == chunk_count(to.size()));
  state_.to = to.data();
  state_.digests = digests.data();
}

void CopyAndHash::add(const Piece& piece) noexcept {
  CHECK(piece.bytes <= left_);
  left_ -= piece.bytes;
  kernels().add_piece(state_, piece);
}

void CopyAndHash::finish() noexcept {
  CHECK(left_ == 0);
  kernels().finish(state_);
}

void copy_pieces_and_hash(std::span<std::byte> to, std::span<const Piece> pieces,
                          std::span<std::uint64_t> digests) noexcept {
  CopyAndHash copy(to, digests);
  for (const Piece& piece : pieces) copy.add(piece);
  copy.finish();
}

void copy_and_hash(std::span<std::byte> to, std::span<const std::byte> from,
                   std::span<std::uint64_t> digests) noexcept {
  const Piece whole{.bytes = from.size(), .from = from.data()};
  copy_pieces_and_hash(to, std::span(&whole, 1), digests);
}

void copy_runs(std::span<const CopyRun> runs, std::uint64_t total_bytes) noexcept {
  kernels().copy_runs(runs.data(), runs.size(), total_bytes >= kStreamBytesMin);
}

void copy_bytes(std::span<std::byte> to, std::span<const std::byte> from) noexcept {
  CHECK(to.size() == from.size());
  kernels().copy(to.data(), from.data(), from.size());
}

}  // namespace sluice
