// Attributes: whatever is not refused is canonical: it encodes back to the same bytes.
#include <algorithm>

#include "base/check.h"
#include "fuzz_target.h"
#include "tensor/attributes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::tensor;
  const auto bytes = sluice::fuzz::bytes_of(data, size);
  const auto user = decode_attributes(bytes);
  const auto listing = decode_listing(bytes);
  const auto user_bytes = user_attribute_bytes(bytes);
  CHECK(user.has_value() == listing.has_value() && user.has_value() == user_bytes.has_value());
  if (!user) return 0;
  for (const auto& attribute : *user) CHECK(!attribute.name.starts_with(kReservedNames));
  const auto again = encode_attributes(*user, *listing);
  CHECK(again.has_value() && std::ranges::equal(*again, bytes));
  return 0;
}
