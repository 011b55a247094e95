// descriptor.h: what a hand-off's commit says of itself: whose KV this is, of which prompt, in which
// shape. The reader compares it with what it expects before it uses one byte of a part.
//
// Encoding: docs/formats/kv-handoff.md. Canonical: encode(parse(b)) == b for every b that is not
// refused.
// Threads:   plain values and pure functions, any thread.
// Limits:    kDescriptorBytesMax encoded, kDescriptorTextMax in each text.
// Failure:   parse: kCorrupt, or kVersion for another format. check_same: kConflict naming the field
//            and both values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sluice/error.h>

#include "kv/layout.h"

namespace sluice::kv {

inline constexpr std::uint32_t kDescriptorVersion = 1;
inline constexpr std::size_t kDescriptorBytesMax = 4096;
inline constexpr std::size_t kDescriptorTextMax = 512;

struct Descriptor {
  // Equal on both sides, or the hand-off is refused.
  std::string engine;  // name and version of what computed it
  std::string model;
  std::string revision;
  std::string dtype;   // of the cache's elements
  std::string layout;  // of what lies inside an entry
  std::string digest;  // of the prompt's tokens and media identifiers
  std::uint64_t tokens = 0;
  std::uint32_t layers = 0;
  std::uint32_t heads_total = 0;  // KV heads of the model, all ranks together
  std::uint32_t planes = 1;
  std::uint32_t block_tokens = 0;
  std::uint64_t entry_bytes = 0;

  // The writer's own.
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint32_t parts = 0;  // that its commit stands for

  bool operator==(const Descriptor&) const = default;
};

Result<std::vector<std::byte>> encode(const Descriptor& descriptor);
Result<Descriptor> parse(std::span<const std::byte> bytes);

// The fields that both sides must agree on.
Status check_same(const Descriptor& found, const Descriptor& expected);

// What one block of one layer of this writer holds.
Result<BlockShape> shape_of(const Descriptor& descriptor);

// Which of the writer's heads the reader needs, and where they go in the reader's cache. A count of
// zero: none.
Result<HeadMap> share_of(const Descriptor& writer, std::uint32_t reader_rank,
                         std::uint32_t reader_ranks);

}  // namespace sluice::kv
