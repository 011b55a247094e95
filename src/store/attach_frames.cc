#include "store/attach_frames.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace sluice::store {

Result<AttachRequest> decode_request(std::span<const std::byte> frame) {
  if (frame.size() != sizeof(AttachRequest)) {
    return fail(Code::kVersion,
                fmt::format("attach request has {} bytes, version {} has {}; use the same Sluice "
                            "version on both sides",
                            frame.size(), kAttachVersion, sizeof(AttachRequest)));
  }
  AttachRequest r;
  std::memcpy(&r, frame.data(), sizeof(r));
  if (r.magic != kAttachMagic)
    return fail(Code::kInvalidArgument, "attach request: this is not a Sluice client");
  if (r.version != kAttachVersion || r.control_version != kControlVersion) {
    return fail(Code::kVersion,
                fmt::format("the client speaks attach version {} with control version {}, this "
                            "daemon {} and {}; use "
                            "the same Sluice version on both sides",
                            r.version, r.control_version, kAttachVersion, kControlVersion));
  }
  if (r.reserved != 0)
    return fail(Code::kInvalidArgument, "attach request: reserved field is not zero");
  return r;
}

Result<AttachReply> decode_reply(std::span<const std::byte> frame) {
  if (frame.size() != sizeof(AttachReply)) {
    return fail(
        Code::kVersion,
        fmt::format("the daemon's attach reply has {} bytes, version {} has {}; use the same "
                    "Sluice version on both sides",
                    frame.size(), kAttachVersion, sizeof(AttachReply)));
  }
  AttachReply r;
  std::memcpy(&r, frame.data(), sizeof(r));
  r.message.back() = '\0';
  if (r.magic != kAttachMagic || r.version != kAttachVersion) {
    return fail(Code::kVersion,
                "the other end of the attach socket is not a Sluice daemon of this version");
  }
  if (r.code > static_cast<std::uint32_t>(Code::kInternal) + 1) {
    return fail(Code::kVersion, fmt::format("the daemon refused with an unknown code {}", r.code));
  }
  return r;
}

AttachReply refuse(Code code, std::string_view message) noexcept {
  AttachReply reply;
  reply.code = 1 + static_cast<std::uint32_t>(code);
  std::memcpy(reply.message.data(), message.data(),
              std::min(message.size(), reply.message.size() - 1));
  return reply;
}

std::string label_text(const std::array<char, kLabelBytes>& label) {
  std::string text;
  for (const char c : label) {
    if (c < 0x20 || c > 0x7E) break;
    text.push_back(c);
  }
  return text;
}

std::array<char, kLabelBytes> label_bytes(std::string_view text) noexcept {
  std::array<char, kLabelBytes> label{};
  std::memcpy(label.data(), text.data(), std::min(text.size(), label.size() - 1));
  return label;
}

}  // namespace sluice::store
