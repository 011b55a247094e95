#include "store/request.h"

#include <algorithm>

#include "base/checked.h"

namespace sluice::store {
namespace {

constexpr std::string_view kIdMark = "@id:";

bool key_character(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.' || c == '~' || c == '%' || c == ':' || c == '@';
}

bool whole_key(const Request& r) noexcept {
  return r.id_at > kIdMark.size() && r.id_at < r.key.size() &&
         std::string_view(r.key).substr(r.id_at - kIdMark.size(), kIdMark.size()) == kIdMark;
}

bool known_op(std::uint32_t op) noexcept {
  return op >= static_cast<std::uint32_t>(Op::kGrant) && op <= static_cast<std::uint32_t>(Op::kPin);
}

}  // namespace

std::optional<Request> read_request(const Submission& s, std::uint64_t number) {
  Request r;
  const std::uint32_t op = s.op;
  const std::uint32_t kind = s.kind;
  const std::uint32_t flags = s.flags;
  const std::size_t key_bytes = s.key_bytes;
  if (!known_op(op) || kind >= kKindsMax || flags > 0xFF || key_bytes > kKeyBytesMax) return std::nullopt;
  r.number = number;
  r.op = static_cast<Op>(op);
  r.kind = static_cast<std::uint8_t>(kind);
  r.flags = static_cast<std::uint8_t>(flags);
  r.deadline_ns = s.deadline_ns;
  r.reservation = s.reservation;
  r.extent_bytes = s.extent_bytes;
  r.write_deadline_ns = s.write_deadline_ns;
  r.object_bytes = s.object_bytes;
  r.attribute_bytes = s.attribute_bytes;
  r.meta_bytes = s.meta_bytes;
  r.meta_digest = s.meta_digest;
  r.spec_digest = s.spec_digest;
  r.content_digest = s.content_digest;
  r.pin = s.pin;
  r.id_at = s.id_at;
  r.key.assign(s.key.data(), key_bytes);
  if (!std::ranges::all_of(r.key, key_character)) return std::nullopt;

  switch (r.op) {
    case Op::kReserve:
    case Op::kRemove:
    case Op::kPin:
      if (!whole_key(r)) return std::nullopt;
      break;
    case Op::kPublish:  // the key of a keyed reservation stands in its slot already
      if (!r.key.empty() && !whole_key(r)) return std::nullopt;
      break;
    case Op::kInvalidate:
      if (r.key.empty()) return std::nullopt;
      break;
    case Op::kGrant:
    case Op::kAbandon:
    case Op::kNone: break;
  }
  return r;
}

}  // namespace sluice::store
