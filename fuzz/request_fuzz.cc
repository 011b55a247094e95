// One ring entry: whatever is accepted has a key of the right form and sizes within their limits.
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "fuzz_target.h"
#include "store/request.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::store;
  const auto submission = std::make_unique<Submission>();
  // The atomic number in front is the ring's, not the entry's.
  auto* fields = reinterpret_cast<std::uint8_t*>(submission.get()) + sizeof(submission->number);
  std::memcpy(fields, data, std::min(size, sizeof(Submission) - sizeof(submission->number)));
  const auto request = read_request(*submission, 5);
  if (!request) return 0;
  CHECK(request->number == 5);
  CHECK(request->op != Op::kNone && request->op <= Op::kPin);
  CHECK(request->kind < sluice::kKindsMax);
  CHECK(request->key.size() <= sluice::kKeyBytesMax);
  const bool needs_key =
      request->op == Op::kReserve || request->op == Op::kRemove || request->op == Op::kPin;
  if (needs_key || (request->op == Op::kPublish && !request->key.empty())) {
    CHECK(!request->prefix().empty() && !request->id().empty());
    CHECK(std::string(request->prefix()) + "@id:" + std::string(request->id()) == request->key);
  }
  return 0;
}
