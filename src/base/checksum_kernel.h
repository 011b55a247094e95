// checksum_kernel.h: the bodies of hashing and of copy-and-hash, compiled once per instruction set by
// checksum.cc and checksum_avx2.cc.
//
// Included by those two files only, inside their own anonymous namespace, so that the same code
// exists once for the baseline and once for AVX2 without either leaking into the other. Each brings
// copy_block(), copy_run() and copy_done().

// A piece of at least this size is not put together with its neighbours first.
inline constexpr std::size_t kOwnBytesMin = 1024;

static_assert(sizeof(XXH3_state_t) <= CopyState::kHashStateBytes);

void hash_chunks_kernel(const std::byte* from, std::size_t bytes, std::uint64_t* digests) noexcept {
  for (std::size_t at = 0, i = 0; at < bytes; at += kChunkBytes, ++i) {
    digests[i] = XXH3_64bits(from + at, std::min(kChunkBytes, bytes - at));
  }
}

XXH3_state_t* hash_state(CopyState& s) noexcept {
  return reinterpret_cast<XXH3_state_t*>(s.hash);
}

// Hashes the next n bytes of the chunk; `from` is where they are, or s.to.
void hash_block(CopyState& s, const std::byte* from, std::size_t n) noexcept {
  if (s.in_chunk == 0) XXH3_64bits_reset(hash_state(s));
  XXH3_64bits_update(hash_state(s), from, n);
}

void end_block(CopyState& s, std::size_t n) noexcept {
  s.to += n;
  s.in_chunk += n;
  if (s.in_chunk < kChunkBytes) return;
  *s.digests++ = XXH3_64bits_digest(hash_state(s));
  s.in_chunk = 0;
}

void write_block(CopyState& s, const std::byte* from, std::size_t n) noexcept {
  hash_block(s, from, n);
  copy_block(s.to, from, n);
  end_block(s, n);
}

void write_held(CopyState& s) noexcept {
  if (const std::size_t n = std::exchange(s.held, 0); n != 0) write_block(s, s.block, n);
}

std::size_t block_room(const CopyState& s) noexcept {
  return std::min(CopyState::kBlockBytes, kChunkBytes - s.in_chunk);
}

void hash_in_place(CopyState& s, std::size_t bytes) noexcept {
  write_held(s);
  while (bytes != 0) {
    const std::size_t n = std::min(block_room(s), bytes);
    hash_block(s, s.to, n);
    end_block(s, n);
    bytes -= n;
  }
}

void add_piece_kernel(CopyState& s, const Piece& piece) noexcept {
  if (piece.from == nullptr) return hash_in_place(s, piece.bytes);
  const std::byte* from = piece.from;
  for (std::size_t left = piece.bytes; left != 0;) {
    std::size_t n = std::min(block_room(s) - s.held, left);
    if (s.held == 0 && n >= kOwnBytesMin) {
      if (n == left) n &= ~std::size_t{63};  // what follows begins with a cache line
      write_block(s, from, n);
    } else {
      std::memcpy(s.block + s.held, from, n);
      s.held += n;
      if (s.held == block_room(s)) write_held(s);
    }
    from += n;
    left -= n;
  }
}

void finish_kernel(CopyState& s) noexcept {
  write_held(s);
  if (s.in_chunk != 0) *s.digests = XXH3_64bits_digest(hash_state(s));
  copy_done();
}

void copy_runs_kernel(const CopyRun* runs, std::size_t count, bool past_caches) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    if (past_caches && runs[i].bytes >= kOwnBytesMin) {
      copy_run(runs[i].to, runs[i].from, runs[i].bytes);
    } else if (runs[i].bytes != 0) {
      std::memcpy(runs[i].to, runs[i].from, runs[i].bytes);
    }
  }
  copy_done();
}
