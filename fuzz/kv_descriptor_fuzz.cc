// The descriptor of a hand-off: what parses is canonical, agrees with itself, and shares its heads
// without leaving its own.
#include <algorithm>

#include "base/check.h"
#include "fuzz_target.h"
#include "kv/descriptor.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  const auto bytes = fuzz::bytes_of(data, size);
  const auto found = kv::parse(bytes);
  if (!found) return 0;
  const auto again = kv::encode(*found);
  CHECK(again.has_value() && std::ranges::equal(*again, bytes));
  CHECK(kv::check_same(*found, *found).has_value());
  const auto shape = kv::shape_of(*found);
  CHECK(shape.has_value());
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto share = kv::share_of(*found, rank, 2);
    if (share && share->count != 0) {
      CHECK(share->part_first < shape->heads && share->count <= shape->heads - share->part_first);
    }
  }
  return 0;
}
