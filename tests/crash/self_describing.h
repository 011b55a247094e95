// self_describing.h: object bytes that say what they are, in every word.
//
// Invariant: written(key, sequence, n) differs in every 8-byte word between any two {key, sequence}; read_back() answers
//            only when all words belong to one of them. So one foreign or stale word anywhere is seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

namespace sluice::crash {

struct Identity {
  std::uint32_t key = 0;
  std::uint32_t sequence = 0;
  bool operator==(const Identity&) const = default;
};

constexpr std::uint64_t first_word(Identity id) noexcept {
  return static_cast<std::uint64_t>(id.key) << 32 | id.sequence;
}

// Bijective in the identity for every position, so different identities differ in every word.
constexpr std::uint64_t word_of(std::uint64_t first, std::size_t i) noexcept {
  return i == 0 ? first : (first ^ (0x9E3779B97F4A7C15ull * i)) * 0xD6E8FEB86659FD93ull;
}

inline void write(std::span<std::byte> to, Identity id) noexcept {
  const std::uint64_t first = first_word(id);
  for (std::size_t i = 0; i < to.size() / 8; ++i) {
    const std::uint64_t word = word_of(first, i);
    std::memcpy(to.data() + i * 8, &word, 8);
  }
}

inline std::vector<std::byte> written(Identity id, std::size_t bytes) {
  std::vector<std::byte> out(bytes / 8 * 8);
  write(out, id);
  return out;
}

// Whose bytes these are, or nothing when they are not all of one object.
inline std::optional<Identity> read_back(std::span<const std::byte> from) noexcept {
  if (from.size() < 8 || from.size() % 8 != 0) return std::nullopt;
  std::uint64_t first = 0;
  std::memcpy(&first, from.data(), 8);
  for (std::size_t i = 0; i < from.size() / 8; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, from.data() + i * 8, 8);
    if (word != word_of(first, i)) return std::nullopt;
  }
  return Identity{.key = static_cast<std::uint32_t>(first >> 32),
                  .sequence = static_cast<std::uint32_t>(first)};
}

}  // namespace sluice::crash
