// Frames of the attach socket: whatever is accepted is exactly what its sender wrote, with texts that end.
#include <cstring>

#include "base/check.h"
#include "fuzz_target.h"
#include "store/attach_frames.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::store;
  const auto bytes = sluice::fuzz::bytes_of(data, size);
  if (const auto request = decode_request(bytes)) {
    CHECK(size == sizeof(AttachRequest));
    CHECK(std::memcmp(&*request, data, size) == 0);
    const std::string label = label_text(request->label);
    CHECK(label.size() <= kLabelBytes);
    for (const char c : label) CHECK(c >= 0x20 && c <= 0x7E);
    CHECK(label_text(label_bytes(label)) == label.substr(0, kLabelBytes - 1));
  } else {
    CHECK(!request.error().message.empty());
  }
  if (const auto reply = decode_reply(bytes)) {
    CHECK(size == sizeof(AttachReply));
    CHECK(std::strlen(reply->message.data()) < reply->message.size());
    CHECK(reply->code <= static_cast<std::uint32_t>(sluice::Code::kInternal) + 1);
  } else {
    CHECK(!reply.error().message.empty());
  }
  return 0;
}
