#include "kv/descriptor.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/bytes.h"

namespace sluice::kv {
namespace {

constexpr std::uint32_t kMagic = 0x444b'4c53;  // "SLKD"

struct Text {
  std::string_view name;
  std::string Descriptor::* field;
};
constexpr Text kTexts[] = {{"engine", &Descriptor::engine},     {"model", &Descriptor::model},
                           {"revision", &Descriptor::revision}, {"dtype", &Descriptor::dtype},
                           {"layout", &Descriptor::layout},     {"digest", &Descriptor::digest}};

struct Count {
  std::string_view name;
  std::uint32_t Descriptor::* field;
  bool shared;  // both sides must agree on it
};
constexpr Count kCounts[] = {
    {"layers", &Descriptor::layers, true}, {"heads_total", &Descriptor::heads_total, true},
    {"planes", &Descriptor::planes, true}, {"block_tokens", &Descriptor::block_tokens, true},
    {"rank", &Descriptor::rank, false},    {"ranks", &Descriptor::ranks, false},
    {"parts", &Descriptor::parts, false}};

// What makes the numbers usable at all.
Status check_numbers(const Descriptor& d) {
  const auto shape = shape_of(d);
  if (!shape) return std::unexpected(shape.error());
  if (d.tokens == 0) return fail(Code::kInvalidArgument, "a hand-off of no tokens");
  if (d.layers == 0 || d.layers > kLayersMax)
    return fail(Code::kInvalidArgument, fmt::format("a hand-off of {} layers", d.layers));
  if (d.parts == 0) return fail(Code::kInvalidArgument, "a hand-off of no parts");
  return {};
}

template <class T>
Status differs(std::string_view field, const T& found, const T& expected) {
  if (found == expected) return {};
  return fail(
      Code::kConflict,
      fmt::format("the hand-off's {} is {} where this engine has {}", field, found, expected),
      Drop::kObject);
}

}  // namespace

Result<std::vector<std::byte>> encode(const Descriptor& d) {
  if (auto s = check_numbers(d); !s) return std::unexpected(s.error());
  std::vector<std::byte> out(kDescriptorBytesMax);
  ByteWriter writer(out);
  writer.write(kMagic);
  writer.write(kDescriptorVersion);
  writer.write(d.tokens);
  writer.write(d.entry_bytes);
  for (const Count& count : kCounts) writer.write(d.*count.field);
  for (const Text& text : kTexts) {
    const std::string& value = d.*text.field;
    if (value.size() > kDescriptorTextMax) {
      return fail(Code::kLimit, fmt::format("the hand-off's {} has {} bytes; it may have {}",
                                            text.name, value.size(), kDescriptorTextMax));
    }
    writer.write(static_cast<std::uint32_t>(value.size()));
    writer.put_text(value);
  }
  if (!writer.ok()) return fail(Code::kLimit, "the hand-off's descriptor is too long");
  out.resize(writer.position());
  return out;
}

Result<Descriptor> parse(std::span<const std::byte> bytes) {
  if (bytes.size() > kDescriptorBytesMax)
    return fail(Code::kCorrupt, "a descriptor longer than any", Drop::kObject);
  ByteReader reader(bytes);
  if (reader.read<std::uint32_t>() != kMagic)
    return fail(Code::kCorrupt, "this is not a hand-off's descriptor", Drop::kObject);
  if (const auto version = reader.read<std::uint32_t>(); version != kDescriptorVersion) {
    return fail(Code::kVersion,
                fmt::format("the hand-off's descriptor is version {}; this engine reads {}",
                            version, kDescriptorVersion),
                Drop::kObject);
  }
  Descriptor d;
  d.tokens = reader.read<std::uint64_t>();
  d.entry_bytes = reader.read<std::uint64_t>();
  for (const Count& count : kCounts) d.*count.field = reader.read<std::uint32_t>();
  for (const Text& text : kTexts) {
    const auto length = reader.read<std::uint32_t>();
    if (length > kDescriptorTextMax)
      return fail(Code::kCorrupt, "a descriptor's text is too long", Drop::kObject);
    d.*text.field = reader.take_text(length);
  }
  if (!reader.ok() || reader.remaining() != 0)
    return fail(Code::kCorrupt, "a hand-off's descriptor of a wrong length", Drop::kObject);
  if (auto s = check_numbers(d); !s)
    return fail(Code::kCorrupt, std::move(s.error().message), Drop::kObject);
  return d;
}

Status check_same(const Descriptor& found, const Descriptor& expected) {
  for (const Text& text : kTexts) {
    if (auto s = differs(text.name, found.*text.field, expected.*text.field); !s) return s;
  }
  if (auto s = differs("tokens", found.tokens, expected.tokens); !s) return s;
  if (auto s = differs("entry_bytes", found.entry_bytes, expected.entry_bytes); !s) return s;
  for (const Count& count : kCounts) {
    if (!count.shared) continue;
    if (auto s = differs(count.name, found.*count.field, expected.*count.field); !s) return s;
  }
  return {};
}

Result<BlockShape> shape_of(const Descriptor& d) {
  const auto heads = heads_of_rank(d.heads_total, d.rank, d.ranks);
  if (!heads) return std::unexpected(heads.error());
  const BlockShape shape{.planes = d.planes,
                         .heads = heads->count,
                         .block_tokens = d.block_tokens,
                         .entry_bytes = d.entry_bytes};
  if (const auto bytes = block_bytes(shape); !bytes) return std::unexpected(bytes.error());
  return shape;
}

Result<HeadMap> share_of(const Descriptor& writer, std::uint32_t reader_rank,
                         std::uint32_t reader_ranks) {
  const auto theirs = heads_of_rank(writer.heads_total, writer.rank, writer.ranks);
  if (!theirs) return std::unexpected(theirs.error());
  const auto ours = heads_of_rank(writer.heads_total, reader_rank, reader_ranks);
  if (!ours) return std::unexpected(ours.error());
  const std::uint32_t first = std::max(theirs->first, ours->first);
  const std::uint32_t end =
      std::min(theirs->first + theirs->count, ours->first + ours->count);  // within heads_total
  if (first >= end) return HeadMap{};
  // Of ranks that hold the same head, the first gives it.
  if (writer.rank > 0) {
    const auto before = heads_of_rank(writer.heads_total, writer.rank - 1, writer.ranks);
    if (before && *before == *theirs) return HeadMap{};
  }
  return HeadMap{first - theirs->first, first - ours->first, end - first};
}

}  // namespace sluice::kv
