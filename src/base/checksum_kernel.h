// checksum_kernel.h: the body of copy-and-hash, compiled once per instruction set by checksum.cc
// and checksum_avx2.cc.
//
// Included by those two files only, inside their own anonymous namespace, so that the same code
// exists once for the baseline and once for AVX2 without either leaking into the other.

// Blocks small enough to stay in the first-level cache between the hash that reads them and the
// copy that reads them again.
inline constexpr std::size_t kBlockBytes = 8 * 1024;

void hash_chunks_kernel(const std::byte* from, std::size_t bytes, std::uint64_t* digests) noexcept {
  for (std::size_t at = 0, i = 0; at < bytes; at += kChunkBytes, ++i) {
    digests[i] = XXH3_64bits(from + at, std::min(kChunkBytes, bytes - at));
  }
}

void copy_pieces_kernel(std::byte* to, const Piece* pieces, std::size_t count,
                        std::uint64_t* digests) noexcept {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  std::size_t in_chunk = 0;  // bytes of the chunk that `state` has seen
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* from = pieces[i].from;
    for (std::size_t left = pieces[i].bytes; left != 0;) {
      const std::size_t n = std::min({kBlockBytes, left, kChunkBytes - in_chunk});
      if (from != nullptr) {
        XXH3_64bits_update(&state, from, n);
        copy_block(to, from, n);
        from += n;
      } else {
        XXH3_64bits_update(&state, to, n);
      }
      to += n;
      left -= n;
      in_chunk += n;
      if (in_chunk == kChunkBytes) {
        *digests++ = XXH3_64bits_digest(&state);
        XXH3_64bits_reset(&state);
        in_chunk = 0;
      }
    }
  }
  if (in_chunk != 0) *digests = XXH3_64bits_digest(&state);
  copy_done();
}
