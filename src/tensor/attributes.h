// attributes.h: the small typed values that travel with an object, and the bundle's own listing
// among them.
//
// Encoding: docs/formats/attributes.md. The bytes are canonical: entries ascend by name, so the
// same set of attributes always encodes alike whatever order it was given in, and no attributes at
// all are zero bytes.
//
// Invariant: decode_attributes(encode_attributes(a)) == a sorted by name, and encode(decode(b)) ==
//            b for every b that is not refused. Names that begin with "sluice." belong to Sluice:
//            refused from users, never shown to them.
// Threads:   pure functions, any thread.
// Limits:    kAttributesBytesMax encoded, listing included; names 1..64 bytes of UTF-8.
// Failure:   encode: kInvalidArgument or kLimit naming the attribute. decode: kCorrupt, or
//            kVersion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <sluice/error.h>
#include <sluice/tensor.h>

namespace sluice::tensor {

inline constexpr std::uint16_t kAttributesVersion = 1;
inline constexpr std::size_t kAttributeNameBytesMax = 64;
inline constexpr std::string_view kReservedNames = "sluice.";
inline constexpr std::string_view kListingName = "sluice.tensors";

enum class AttributeType : std::uint8_t { kInts = 1, kFloats = 2, kText = 3, kListing = 4 };

// Where one tensor object begins inside a bundle.
struct ListingEntry {
  std::string_view name;     // borrowed
  std::uint64_t offset = 0;  // of its header, from the start of the object

  bool operator==(const ListingEntry&) const = default;
};

// An empty listing is not written.
Result<std::vector<std::byte>> encode_attributes(const Attributes& user,
                                                 std::span<const ListingEntry> listing = {});

// What the user stored, ascending by name.
Result<Attributes> decode_attributes(std::span<const std::byte> encoded);

// The listing; empty when there is none. Checks all of `encoded` as decode_attributes() does. The
// names borrow from it.
Result<std::vector<ListingEntry>> decode_listing(std::span<const std::byte> encoded);

// The entries without the reserved ones, as bytes that are equal exactly when the user attributes
// are.
Result<std::vector<std::byte>> user_attribute_bytes(std::span<const std::byte> encoded);

}  // namespace sluice::tensor
