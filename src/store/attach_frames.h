// attach_frames.h: the one exchange on the attach socket, and the answer that carries the
// descriptors.
//
// A client connects to <arena>/attach.sock (SOCK_SEQPACKET), sends one AttachRequest, and gets one
// AttachReply with, on success, these descriptors: control segment (read-only), its client page,
// the doorbell (eventfd), then the data segments in order. The connection then stays open without
// traffic; its end is only a reason to look.
// Format: docs/formats/attach.md; little-endian, fixed size, unknown version refused with the
//         reason in the reply.
// Failure: decode_* answer a reason for every frame that is not exactly right.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <sluice/error.h>
#include <sluice/version.h>

namespace sluice::store {

inline constexpr std::uint64_t kAttachMagic = 0x31485441'454C5353;  // "SSLEATH1"
inline constexpr std::size_t kLabelBytes = 64;                      // zero-terminated
inline constexpr std::uint32_t kNoClient = UINT32_MAX;

struct AttachRequest {
  std::uint64_t magic = kAttachMagic;
  std::uint32_t version = kAttachVersion;
  std::uint32_t control_version = kControlVersion;
  std::uint32_t client = kNoClient;  // re-attach: the number it has; else kNoClient
  std::uint32_t reserved = 0;
  std::uint64_t serial = 0;  // re-attach: of that number
  std::uint64_t boot = 0;    // re-attach: of the arena it knows
  std::array<char, kLabelBytes> label{};
};
static_assert(sizeof(AttachRequest) == 104 && std::is_trivially_copyable_v<AttachRequest>);

struct AttachReply {
  std::uint64_t magic = kAttachMagic;
  std::uint32_t version = kAttachVersion;
  std::uint32_t code = 0;  // 0, or 1 + Code
  std::uint32_t client = kNoClient;
  std::uint32_t segment_count = 0;
  std::uint64_t serial = 0;
  std::uint64_t boot = 0;
  std::uint64_t epoch = 0;
  std::array<char, 256> message{};  // zero-terminated; why it was refused
};
static_assert(sizeof(AttachReply) == 304 && std::is_trivially_copyable_v<AttachReply>);

// Descriptors before the data segments.
inline constexpr std::size_t kAttachFixedFds = 3;

Result<AttachRequest> decode_request(std::span<const std::byte> frame);
Result<AttachReply> decode_reply(std::span<const std::byte> frame);

AttachReply refuse(Code code, std::string_view message) noexcept;

// The label as text, whatever follows its first zero or non-printable byte cut off.
std::string label_text(const std::array<char, kLabelBytes>& label);
std::array<char, kLabelBytes> label_bytes(std::string_view text) noexcept;

}  // namespace sluice::store
