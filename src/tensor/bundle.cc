#include "tensor/bundle.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/checked.h"
#include "base/checksum.h"
#include "base/limits.h"
#include "tensor/attributes.h"
#include "tensor/object_header.h"
#include "tensor/utf8.h"

namespace sluice::tensor {
namespace {

constexpr std::uint32_t kSpecDigestVersion = 1;

std::unexpected<Error> corrupt(std::string_view message) {
  return fail(Code::kCorrupt, "bundle: " + std::string(message), Drop::kObject);
}

bool good_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= kTensorNameBytesMax && is_utf8(name);
}

// True for the bundle that needs no listing, because it is what a foreign tensor object is read as.
bool is_plain(std::size_t tensors, std::string_view first_name) noexcept {
  return tensors == 1 && first_name == kOnlyTensorName;
}

Status check_specs(std::span<const NamedTensorSpec> specs) {
  if (specs.empty()) {
    return fail(Code::kInvalidArgument, "an object holds at least one tensor");
  }
  if (specs.size() > kTensorsPerObjectMax) {
    return fail(Code::kLimit, fmt::format("an object holds at most {} tensors, not {}",
                                          kTensorsPerObjectMax, specs.size()));
  }
  std::unordered_set<std::string_view> names;
  for (const auto& tensor : specs) {
    if (!good_name(tensor.name)) {
      return fail(Code::kInvalidArgument,
                  fmt::format("tensor names are 1..{} bytes of UTF-8", kTensorNameBytesMax));
    }
    if (!names.insert(tensor.name).second) {
      return fail(Code::kInvalidArgument,
                  fmt::format("two tensors of one object are called '{}'", tensor.name));
    }
  }
  return {};
}

// Places one tensor object at the first aligned place from `end` on.
Result<TensorView> place(const NamedTensorSpec& tensor, std::uint64_t end) {
  const auto bytes = sluice::byte_size(tensor.spec);
  if (!bytes) {
    return fail(bytes.error().code,
                fmt::format("tensor '{}': {}", tensor.name, bytes.error().message));
  }
  if (*bytes == 0) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("tensor '{}' has no elements; nothing of size zero is stored", tensor.name));
  }
  const auto start = checked_align(end, kObjectAlign);
  const auto data_offset = start ? checked_add(*start, kElementsOffset) : std::nullopt;
  if (!data_offset || !checked_add(*data_offset, *bytes)) {
    return fail(Code::kLimit,
                fmt::format("tensor '{}': the object's size does not fit 64 bits", tensor.name));
  }
  return TensorView{tensor.name, tensor.spec, *data_offset, *bytes};
}

std::vector<ListingEntry> listing_of(std::span<const TensorView> tensors) {
  std::vector<ListingEntry> listing;
  if (is_plain(tensors.size(), tensors.front().name)) return listing;
  listing.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    listing.push_back({tensor.name, tensor.data_offset - kElementsOffset});
  }
  return listing;
}

// The tensor object that begins at `start` in an object of which it may take `room` bytes.
Result<TensorView> parse_tensor(std::span<const std::byte> object, std::uint64_t start,
                                std::uint64_t room, std::string_view name) {
  const auto header = decode_header(object.subspan(start, room));
  if (!header) return std::unexpected(to_error(header.error()));
  if (header->data_bytes == 0) {
    return corrupt(fmt::format("tensor '{}' has no elements", name));
  }
  return TensorView{std::string(name), spec_of(*header), start + header->data_offset,
                    header->data_bytes};
}

// A tensor object without a listing: one of Sluice's own, or a foreign one with any data_offset.
Result<std::vector<TensorView>> parse_plain(std::span<const std::byte> object) {
  auto tensor = parse_tensor(object, 0, object.size(), kOnlyTensorName);
  if (!tensor) return std::unexpected(std::move(tensor.error()));
  if (tensor->data_bytes != object.size() - tensor->data_offset) {
    return corrupt("bytes follow the elements of the only tensor");
  }
  std::vector<TensorView> tensors;
  tensors.push_back(*std::move(tensor));
  return tensors;
}

Status check_listing(std::span<const ListingEntry> listing) {
  if (is_plain(listing.size(), listing.front().name)) {
    return corrupt("one tensor called 'tensor' is written without a listing");
  }
  std::unordered_set<std::string_view> names;
  for (const auto& entry : listing) {
    if (!good_name(entry.name)) return corrupt("a tensor's name is over 64 bytes");
    if (!names.insert(entry.name).second) {
      return corrupt(fmt::format("two tensors are called '{}'", entry.name));
    }
  }
  return {};
}

Result<std::vector<TensorView>> parse_listed(std::span<const std::byte> object,
                                             std::span<const ListingEntry> listing) {
  if (auto good = check_listing(listing); !good) return std::unexpected(good.error());
  std::vector<TensorView> tensors;
  tensors.reserve(listing.size());
  std::uint64_t expected = 0;  // where the next tensor object must begin
  for (const auto& entry : listing) {
    if (entry.offset != expected || entry.offset > object.size()) {
      return corrupt(
          fmt::format("tensor '{}' does not begin where the one before it ends", entry.name));
    }
    auto tensor = parse_tensor(object, entry.offset, object.size() - entry.offset, entry.name);
    if (!tensor) return std::unexpected(std::move(tensor.error()));
    if (tensor->data_offset - entry.offset != kElementsOffset) {
      return corrupt(
          fmt::format("tensor '{}': data_offset is not {}", entry.name, kElementsOffset));
    }
    // Inside the object, so small enough to be rounded up.
    expected = align_up(tensor->data_offset + tensor->data_bytes, kObjectAlign);
    tensors.push_back(*std::move(tensor));
  }
  const auto& last = tensors.back();
  if (last.data_bytes != object.size() - last.data_offset) {
    return corrupt("bytes follow the elements of the last tensor");
  }
  return tensors;
}

}  // namespace

Result<BundlePlan> plan_bundle(std::span<const NamedTensorSpec> specs, const Attributes& user) {
  if (auto good = check_specs(specs); !good) return std::unexpected(good.error());
  BundlePlan plan;
  plan.tensors.reserve(specs.size());
  for (const auto& spec : specs) {
    auto placed = place(spec, plan.object_bytes);
    if (!placed) return std::unexpected(std::move(placed.error()));
    plan.object_bytes = placed->data_offset + placed->data_bytes;  // checked by place()
    plan.tensors.push_back(*std::move(placed));
  }
  auto attributes = encode_attributes(user, listing_of(plan.tensors));
  if (!attributes) return std::unexpected(std::move(attributes.error()));
  plan.attributes = *std::move(attributes);
  auto digest = spec_digest(plan.tensors, plan.attributes);
  CHECK(digest.has_value());
  plan.spec_digest = *digest;
  return plan;
}

void write_headers(const BundlePlan& plan, std::span<std::byte> object) {
  CHECK(object.size() == plan.object_bytes);
  std::uint64_t end = 0;  // of the elements before this tensor object
  for (const auto& tensor : plan.tensors) {
    const auto start = tensor.data_offset - kElementsOffset;
    const auto header = make_header(tensor.spec);
    CHECK(header.has_value() && fits(tensor.data_offset, tensor.data_bytes, object.size()));
    std::ranges::fill(object.subspan(end, tensor.data_offset - end), std::byte{0});
    encode_header(*header, object.subspan(start).first<kHeaderBytes>());
    end = tensor.data_offset + tensor.data_bytes;
  }
}

Result<std::vector<TensorView>> parse_bundle(std::span<const std::byte> object,
                                             std::span<const std::byte> attributes) {
  const auto listing = decode_listing(attributes);
  if (!listing) return std::unexpected(listing.error());
  return listing->empty() ? parse_plain(object) : parse_listed(object, *listing);
}

Result<std::uint64_t> spec_digest(std::span<const TensorView> tensors,
                                  std::span<const std::byte> attributes) {
  const auto user = user_attribute_bytes(attributes);
  if (!user) return std::unexpected(user.error());
  constexpr std::size_t kFixedBytes = 1 + 4 + 1 + kDimsMax * 8;  // of one tensor, without its name
  std::size_t room = 8 + user->size();
  for (const auto& tensor : tensors) room += kFixedBytes + tensor.name.size();

  std::vector<std::byte> text(room);
  ByteWriter writer(text);
  writer.write(kSpecDigestVersion);
  writer.write(static_cast<std::uint32_t>(tensors.size()));
  for (const auto& tensor : tensors) {
    writer.write(static_cast<std::uint8_t>(tensor.name.size()));
    writer.put_text(tensor.name);
    writer.write(static_cast<std::int32_t>(tensor.spec.dtype));
    writer.write(static_cast<std::uint8_t>(tensor.spec.shape.size()));
    for (const auto dim : tensor.spec.shape) writer.write(dim);
  }
  writer.put(*user);
  CHECK(writer.ok());
  return hash64(std::span(text).first(writer.position()));
}

}  // namespace sluice::tensor
