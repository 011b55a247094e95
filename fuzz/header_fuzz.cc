// The 304-byte header: whatever is not refused is self-consistent and encodes back to the same
// bytes.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/checked.h"
#include "fuzz_target.h"
#include "tensor/object_header.h"
#include "tensor/tensor_spec.h"

namespace {

using namespace sluice::tensor;

void decode(std::span<const std::byte> bytes, std::uint64_t object_bytes) {
  const auto header = decode_header(bytes, object_bytes);
  if (!header) {
    CHECK(!describe(header.error()).empty());
    return;
  }
  CHECK(header->data_offset >= kHeaderBytes);
  CHECK(sluice::fits(header->data_offset, header->data_bytes, object_bytes));
  CHECK(sluice::tensor::byte_size(header->dims(), sluice::size_of(header->dtype)) ==
        header->data_bytes);
  std::array<std::byte, kHeaderBytes> back{};
  encode_header(*header, back);
  CHECK(std::ranges::equal(back, bytes.first(kHeaderBytes)));
  CHECK(make_header(spec_of(*header), header->data_offset).value() == *header);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = sluice::fuzz::bytes_of(data, size);
  decode(bytes, size);
  decode(bytes, UINT64_MAX);  // only the header is at hand, the object is as large as it claims
  return 0;
}
