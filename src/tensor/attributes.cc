#include "tensor/attributes.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/limits.h"
#include "tensor/utf8.h"

namespace sluice::tensor {
namespace {

constexpr std::size_t kPreambleBytes = 4;     // version, entry count
constexpr std::size_t kEntryHeaderBytes = 4;  // type, name length, value length
constexpr std::size_t kListingItemBytes = 9;  // offset, name length

std::unexpected<Error> corrupt(std::string_view message) {
  return fail(Code::kCorrupt, "attributes: " + std::string(message), Drop::kObject);
}

bool good_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= kAttributeNameBytesMax && is_utf8(name);
}

// ---- encoding ----

// One entry on its way into the encoding: a user's attribute, or (without one) the listing.
struct Pending {
  std::string_view name;
  const AttributeValue* value = nullptr;
};

std::size_t listing_bytes(std::span<const ListingEntry> listing) noexcept {
  std::size_t bytes = 0;
  for (const auto& entry : listing) bytes += kListingItemBytes + entry.name.size();
  return bytes;
}

// Numbers compared before they are multiplied: a list longer than the whole limit counts as the
// limit plus one.
std::size_t value_bytes(const AttributeValue& value) noexcept {
  const std::size_t items = std::visit([](const auto& list) { return list.size(); }, value);
  const std::size_t item_bytes = std::holds_alternative<std::string>(value) ? 1 : 8;
  return items > kAttributesBytesMax / item_bytes ? kAttributesBytesMax + 1 : items * item_bytes;
}

AttributeType type_of(const AttributeValue& value) noexcept {
  if (std::holds_alternative<std::vector<std::int64_t>>(value)) return AttributeType::kInts;
  if (std::holds_alternative<std::vector<double>>(value)) return AttributeType::kFloats;
  return AttributeType::kText;
}

Status check_user_attribute(const Attribute& attribute) {
  if (!good_name(attribute.name)) {
    return fail(Code::kInvalidArgument,
                fmt::format("attribute names are 1..{} bytes of UTF-8", kAttributeNameBytesMax));
  }
  if (attribute.name.starts_with(kReservedNames)) {
    return fail(Code::kInvalidArgument,
                fmt::format("attribute '{}': names that begin with '{}' are reserved",
                            attribute.name, kReservedNames));
  }
  const auto* text = std::get_if<std::string>(&attribute.value);
  if (text != nullptr && !is_utf8(*text)) {
    return fail(Code::kInvalidArgument,
                fmt::format("attribute '{}': the text is not UTF-8", attribute.name));
  }
  return {};
}

// The entries in the order of the encoding.
Result<std::vector<Pending>> in_order(const Attributes& user, bool with_listing) {
  std::vector<Pending> entries;
  entries.reserve(user.size() + 1);
  for (const auto& attribute : user) {
    if (auto good = check_user_attribute(attribute); !good) return std::unexpected(good.error());
    entries.push_back({attribute.name, &attribute.value});
  }
  if (with_listing) entries.push_back({kListingName, nullptr});
  std::ranges::sort(entries, {}, &Pending::name);
  const auto twice = std::ranges::adjacent_find(entries, {}, &Pending::name);
  if (twice != entries.end()) {
    return fail(Code::kInvalidArgument, fmt::format("attribute '{}' is given twice", twice->name));
  }
  return entries;
}

template <class T>
std::span<const std::byte> bytes_of(const T& list) noexcept {
  return std::as_bytes(std::span(list.data(), list.size()));
}

void write_entry_header(ByteWriter& writer, AttributeType type, std::string_view name,
                        std::size_t value_size) noexcept {
  writer.write(static_cast<std::uint8_t>(type));
  writer.write(static_cast<std::uint8_t>(name.size()));
  writer.write(static_cast<std::uint16_t>(value_size));
  writer.put_text(name);
}

void write_listing(ByteWriter& writer, std::span<const ListingEntry> listing) noexcept {
  write_entry_header(writer, AttributeType::kListing, kListingName, listing_bytes(listing));
  for (const auto& entry : listing) {
    writer.write(entry.offset);
    writer.write(static_cast<std::uint8_t>(entry.name.size()));
    writer.put_text(entry.name);
  }
}

// ---- decoding ----

struct EntryView {
  AttributeType type{};
  std::string_view name;
  std::span<const std::byte> value;
  std::span<const std::byte> whole;  // header, name and value
};

bool good_listing(std::span<const std::byte> value) noexcept {
  ByteReader reader(value);
  std::size_t entries = 0;
  while (reader.ok() && reader.remaining() > 0) {
    reader.read<std::uint64_t>();
    const auto name = reader.take_text(reader.read<std::uint8_t>());
    if (!reader.ok() || name.empty() || !is_utf8(name)) return false;
    ++entries;
  }
  return reader.ok() && entries > 0 && entries <= kTensorsPerObjectMax;
}

// Nothing wrong: nullptr. Otherwise what is.
const char* fault_of(const EntryView& entry) noexcept {
  if (!good_name(entry.name)) return "a name is empty, over 64 bytes or not UTF-8";
  const bool reserved = entry.name.starts_with(kReservedNames);
  if (reserved != (entry.type == AttributeType::kListing) ||
      (reserved && entry.name != kListingName)) {
    return "a reserved name with a value that is not Sluice's, or the reverse";
  }
  switch (entry.type) {
    case AttributeType::kInts:
    case AttributeType::kFloats:
      return entry.value.size() % 8 == 0 ? nullptr : "a list of numbers is not whole";
    case AttributeType::kText: {
      const auto* text = reinterpret_cast<const char*>(entry.value.data());
      return is_utf8({text, entry.value.size()}) ? nullptr : "a text is not UTF-8";
    }
    case AttributeType::kListing:
      return good_listing(entry.value) ? nullptr : "the list of tensors is malformed";
  }
  return "a value's type is unknown";
}

// Calls visit(EntryView) for every entry of a well-formed encoding, in order. What was visited
// before a fault was found must be dropped by the caller.
template <class Visit>
Status for_each_entry(std::span<const std::byte> encoded, Visit visit) {
  if (encoded.empty()) return {};
  if (encoded.size() > kAttributesBytesMax) return corrupt("longer than the limit of 4096 bytes");
  ByteReader reader(encoded);
  const auto version = reader.read<std::uint16_t>();
  const auto count = reader.read<std::uint16_t>();
  if (!reader.ok()) return corrupt("shorter than their own header");
  if (version != kAttributesVersion) {
    return fail(Code::kVersion, fmt::format("attributes: version {} is unknown", version),
                Drop::kObject);
  }
  if (count == 0) return corrupt("an empty set is written as no bytes at all");
  std::string_view previous;
  for (std::uint16_t i = 0; i < count; ++i) {
    const auto begin = reader.position();
    EntryView entry;
    entry.type = static_cast<AttributeType>(reader.read<std::uint8_t>());
    const auto name_bytes = reader.read<std::uint8_t>();
    const auto value_bytes = reader.read<std::uint16_t>();
    entry.name = reader.take_text(name_bytes);
    entry.value = reader.take(value_bytes);
    if (!reader.ok()) return corrupt("an entry reaches beyond the end");
    entry.whole = encoded.subspan(begin, reader.position() - begin);
    if (const char* fault = fault_of(entry)) return corrupt(fault);
    if (i > 0 && entry.name <= previous) {
      return corrupt(entry.name == previous ? "a name occurs twice" : "names do not ascend");
    }
    previous = entry.name;
    visit(entry);
  }
  if (reader.remaining() != 0) return corrupt("bytes follow the last entry");
  return {};
}

template <class T>
std::vector<T> copy_numbers(std::span<const std::byte> value) {
  std::vector<T> numbers(value.size() / sizeof(T));
  if (!value.empty()) std::memcpy(numbers.data(), value.data(), value.size());
  return numbers;
}

AttributeValue user_value(const EntryView& entry) {
  if (entry.type == AttributeType::kInts) return copy_numbers<std::int64_t>(entry.value);
  if (entry.type == AttributeType::kFloats) return copy_numbers<double>(entry.value);
  return std::string(reinterpret_cast<const char*>(entry.value.data()), entry.value.size());
}

}  // namespace

Result<std::vector<std::byte>> encode_attributes(const Attributes& user,
                                                 std::span<const ListingEntry> listing) {
  const auto entries = in_order(user, !listing.empty());
  if (!entries) return std::unexpected(entries.error());
  std::vector<std::byte> out;
  if (entries->empty()) return out;

  std::size_t size = kPreambleBytes;
  for (const auto& entry : *entries) {
    size += kEntryHeaderBytes + entry.name.size();
    size += entry.value != nullptr ? value_bytes(*entry.value) : listing_bytes(listing);
    if (size > kAttributesBytesMax) {
      return fail(Code::kLimit,
                  fmt::format("attributes, and the names of the tensors, take more than {} bytes; "
                              "'{}' is the first that does not fit",
                              kAttributesBytesMax, entry.name));
    }
  }

  out.resize(size);
  ByteWriter writer(out);
  writer.write(kAttributesVersion);
  writer.write(static_cast<std::uint16_t>(entries->size()));
  for (const auto& entry : *entries) {
    if (entry.value == nullptr) {
      write_listing(writer, listing);
      continue;
    }
    write_entry_header(writer, type_of(*entry.value), entry.name, value_bytes(*entry.value));
    writer.put(std::visit([](const auto& list) { return bytes_of(list); }, *entry.value));
  }
  CHECK(writer.ok() && writer.position() == size);
  return out;
}

Result<Attributes> decode_attributes(std::span<const std::byte> encoded) {
  Attributes user;
  auto walked = for_each_entry(encoded, [&user](const EntryView& entry) {
    if (entry.type == AttributeType::kListing) return;
    user.push_back({std::string(entry.name), user_value(entry)});
  });
  if (!walked) return std::unexpected(std::move(walked.error()));
  return user;
}

Result<std::vector<ListingEntry>> decode_listing(std::span<const std::byte> encoded) {
  std::vector<ListingEntry> listing;
  auto walked = for_each_entry(encoded, [&listing](const EntryView& entry) {
    if (entry.type != AttributeType::kListing) return;
    ByteReader reader(entry.value);
    while (reader.remaining() > 0) {
      const auto offset = reader.read<std::uint64_t>();
      const auto name_bytes = reader.read<std::uint8_t>();
      listing.push_back({reader.take_text(name_bytes), offset});
    }
  });
  if (!walked) return std::unexpected(std::move(walked.error()));
  return listing;
}

Result<std::vector<std::byte>> user_attribute_bytes(std::span<const std::byte> encoded) {
  std::vector<std::byte> bytes;
  bytes.reserve(encoded.size());
  auto walked = for_each_entry(encoded, [&bytes](const EntryView& entry) {
    if (entry.type == AttributeType::kListing) return;
    bytes.insert(bytes.end(), entry.whole.begin(), entry.whole.end());
  });
  if (!walked) return std::unexpected(std::move(walked.error()));
  return bytes;
}

}  // namespace sluice::tensor
