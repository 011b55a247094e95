// Bundles: whatever is not refused has its tensors in order, inside the object and apart from each
// other, and planning the same specs again gives the same layout.
//
// Input: u16 length of the attributes, the attributes, the object.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/checked.h"
#include "fuzz_target.h"
#include "tensor/attributes.h"
#include "tensor/bundle.h"
#include "tensor/object_header.h"

namespace {

using namespace sluice;
using namespace sluice::tensor;

void check_ranges(std::span<const TensorView> tensors, std::uint64_t object_bytes) {
  std::uint64_t end = 0;
  for (const auto& tensor : tensors) {
    CHECK(tensor.data_offset >= end && tensor.data_offset - end >= kHeaderBytes);
    CHECK(fits(tensor.data_offset, tensor.data_bytes, object_bytes));
    CHECK(sluice::byte_size(tensor.spec) == tensor.data_bytes && tensor.data_bytes > 0);
    end = tensor.data_offset + tensor.data_bytes;
  }
  CHECK(end == object_bytes);
}

void check_replanned(std::span<const TensorView> tensors, std::span<const std::byte> object,
                     std::span<const std::byte> attributes) {
  std::vector<NamedTensorSpec> specs;
  for (const auto& tensor : tensors) specs.push_back({tensor.name, tensor.spec});
  const auto plan = plan_bundle(specs, decode_attributes(attributes).value());
  CHECK(plan.has_value());
  CHECK(plan->spec_digest == spec_digest(tensors, attributes).value());
  if (tensors.front().data_offset != kElementsOffset) return;  // laid out by a foreign writer
  CHECK(std::ranges::equal(plan->tensors, tensors) && plan->object_bytes == object.size());
  CHECK(std::ranges::equal(plan->attributes, attributes));
  std::vector<std::byte> copy(object.begin(), object.end());
  write_headers(*plan, copy);
  for (const auto& tensor : tensors) {
    const auto header = tensor.data_offset - kElementsOffset;
    CHECK(std::memcmp(copy.data() + header, object.data() + header, kHeaderBytes) == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteReader reader(sluice::fuzz::bytes_of(data, size));
  const auto attributes = reader.take(reader.read<std::uint16_t>());
  const auto object = reader.take(reader.remaining());
  if (!reader.ok()) return 0;
  const auto tensors = parse_bundle(object, attributes);
  if (!tensors) return 0;
  CHECK(!tensors->empty());
  check_ranges(*tensors, object.size());
  check_replanned(*tensors, object, attributes);
  return 0;
}
