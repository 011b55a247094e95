// checksum.h: XXH3-64 and XXH3-128, and the copy that computes a checksum on the way.
//
// A payload is hashed in chunks of kChunkBytes (limits.h), seed 0, so that a ranged read verifies
// only the chunks it touches. Source of the algorithm: xxHash 0.8 (XXH3), https://xxhash.com.
// Threads: pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/limits.h"

namespace sluice {

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const Hash128&) const = default;
};

std::uint64_t hash64(std::span<const std::byte> bytes) noexcept;
Hash128 hash128(std::span<const std::byte> bytes) noexcept;

constexpr std::size_t chunk_count(std::uint64_t bytes) noexcept {
  return static_cast<std::size_t>(bytes / kChunkBytes + (bytes % kChunkBytes != 0));
}

// One digest per chunk of `from`. Requires digests.size() == chunk_count(from.size()).
void hash_chunks(std::span<const std::byte> from, std::span<std::uint64_t> digests) noexcept;

// Part of an object that is put together in one pass: bytes to copy in, or bytes that stand at
// their place already.
struct Piece {
  std::size_t bytes = 0;
  const std::byte* from = nullptr;  // nullptr: in place
};

// Fills `to` with the pieces in order (their sizes add up to to.size()) and computes the digests of
// the result.
void copy_pieces_and_hash(std::span<std::byte> to, std::span<const Piece> pieces,
                          std::span<std::uint64_t> digests) noexcept;

// Copies `from` to `to` (same size, no overlap) and computes the digests of the bytes copied in the
// same pass.
void copy_and_hash(std::span<std::byte> to, std::span<const std::byte> from,
                   std::span<std::uint64_t> digests) noexcept;

// What stands between two calls of a CopyAndHash; for the kernels alone.
struct CopyState {
  static constexpr std::size_t kHashStateBytes = 576;
  // Stays in the first-level cache between the hash that reads a block and the copy that reads it
  // again. Short, so that a block's stores drain while the next one is read: 8 KiB take a sixth
  // longer for large copies, below 2 KiB the calls cost more than that.
  static constexpr std::size_t kBlockBytes = 2 * 1024;

  std::byte* to = nullptr;
  std::uint64_t* digests = nullptr;
  std::size_t in_chunk = 0;  // bytes of the current chunk that are hashed and copied
  std::size_t held = 0;      // bytes that wait in `block` for their neighbours
  alignas(64) std::byte hash[kHashStateBytes];
  alignas(64) std::byte block[kBlockBytes];
};

// Fills an object front to back, in as many calls as wanted, and hashes it on the way, block by
// block. Short pieces are put together first, so that they cost neither a hash nor a write each.
// Threads: one owner. `to` and `digests` outlive it; what was given is at its place after finish().
class CopyAndHash {
 public:
  // Requires digests.size() == chunk_count(to.size()).
  CopyAndHash(std::span<std::byte> to, std::span<std::uint64_t> digests) noexcept;
  CopyAndHash(const CopyAndHash&) = delete;
  CopyAndHash& operator=(const CopyAndHash&) = delete;

  // The next bytes of the object. Requires piece.bytes <= left().
  void add(const Piece& piece) noexcept;
  std::size_t left() const noexcept { return left_; }
  // Requires left() == 0. The last call.
  void finish() noexcept;

 private:
  std::size_t left_;
  CopyState state_;
};

// A stretch of bytes to be copied; the two sides do not overlap.
struct CopyRun {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
};

// Copies all of them. `total_bytes`, of the transfer they are part of, decides whether they go past
// the caches.
void copy_runs(std::span<const CopyRun> runs, std::uint64_t total_bytes) noexcept;

// Plain copy of a large block, the fastest this machine has.
void copy_bytes(std::span<std::byte> to, std::span<const std::byte> from) noexcept;

}  // namespace sluice
