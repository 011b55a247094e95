// bundle.h: the bytes of one object: several named tensors back to back, each with its own header.
//
// Format: docs/formats/bundle.md. Every tensor object begins at a multiple of 64 bytes and its
// elements 320 bytes later, so elements are 64-byte aligned; gaps are zero; the object ends with
// the last element. A bundle of one tensor called "tensor" has no listing: it is exactly a Mooncake
// tensor object, and a foreign one is read as such a bundle.
//
// Invariant: parse_bundle(bytes written from a plan) == plan.tensors. Ranges in a parsed bundle
//            never overlap and never leave the object.
// Threads:   pure functions, any thread.
// Limits:    1..kTensorsPerObjectMax tensors, names 1..64 bytes of UTF-8, no tensor without
//            elements, attributes and listing together kAttributesBytesMax.
// Failure:   plan: kInvalidArgument or kLimit naming the tensor. parse: kCorrupt, kVersion or
//            kUnsupported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <sluice/error.h>
#include <sluice/tensor.h>

namespace sluice::tensor {

inline constexpr std::size_t kTensorNameBytesMax = 64;
inline constexpr std::string_view kOnlyTensorName = "tensor";

struct BundlePlan {
  std::vector<TensorView>
      tensors;  // in the order given; data_offset says where each one's elements go
  std::uint64_t object_bytes = 0;
  std::vector<std::byte> attributes;  // encoded: the user's and, where needed, the listing
  std::uint64_t spec_digest = 0;
};

Result<BundlePlan> plan_bundle(std::span<const NamedTensorSpec> specs, const Attributes& user = {});

// Writes headers and zeroes every gap, nothing else. Requires object.size() == plan.object_bytes.
void write_headers(const BundlePlan& plan, std::span<std::byte> object);

// Reads only headers. `attributes` is as encoded in a plan, empty for an object of a foreign
// writer.
Result<std::vector<TensorView>> parse_bundle(std::span<const std::byte> object,
                                             std::span<const std::byte> attributes);

// What makes two objects with one key "the same": XXH3-64 over names, dtypes and shapes in order,
// and all user attributes. Offsets and contents do not count. Equal to plan.spec_digest for the
// parsed form of a written plan.
Result<std::uint64_t> spec_digest(std::span<const TensorView> tensors,
                                  std::span<const std::byte> attributes);

}  // namespace sluice::tensor
