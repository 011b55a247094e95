// checksum_kernel.h: the body of copy-and-hash, compiled once per instruction set by checksum.cc and checksum_avx2.cc.
//
// Included by those two files only, inside their own anonymous namespace, so that the same code exists once for the
// baseline and once for AVX2 without either leaking into the other.

// Blocks small enough to stay in the first-level cache between the hash that reads them and the copy that reads them
// again.
inline constexpr std::size_t kBlockBytes = 8 * 1024;

void hash_chunks_kernel(const std::byte* from, std::size_t bytes, std::uint64_t* digests) noexcept {
  for (std::size_t at = 0, i = 0; at < bytes; at += kChunkBytes, ++i) {
    digests[i] = XXH3_64bits(from + at, std::min(kChunkBytes, bytes - at));
  }
}

void copy_and_hash_kernel(std::byte* to, const std::byte* from, std::size_t bytes,
                          std::uint64_t* digests) noexcept {
  XXH3_state_t state;
  for (std::size_t at = 0, i = 0; at < bytes; at += kChunkBytes, ++i) {
    const std::size_t chunk = std::min(kChunkBytes, bytes - at);
    XXH3_64bits_reset(&state);
    for (std::size_t block = 0; block < chunk; block += kBlockBytes) {
      const std::size_t n = std::min(kBlockBytes, chunk - block);
      XXH3_64bits_update(&state, from + at + block, n);
      copy_block(to + at + block, from + at + block, n);
    }
    digests[i] = XXH3_64bits_digest(&state);
  }
  copy_done();
}
