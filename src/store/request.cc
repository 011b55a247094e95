#include "store/request.h"

#include <algorithm>

#include "base/checked.h"

namespace sluice::store {
namespace {

constexpr std::string_view kIdMark = "@id:";

bool key_character(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '~' || c == '%' || c == ':' || c == '@';
}

bool whole_key(const Request& r) noexcept {
  return r.id_at > kIdMark.size() && r.id_at < r.key.size() &&
         std::string_view(r.key).substr(r.id_at - kIdMark.size(), kIdMark.size()) == kIdMark;
}

// Its client may write the page meanwhile: what was checked must be what is used.
template <class T>
T read_once(const T& field) noexcept {
  return __atomic_load_n(&field, __ATOMIC_RELAXED);
}

bool known_op(std::uint32_t op) noexcept {
  return op >= static_cast<std::uint32_t>(Op::kGrant) && op <= static_cast<std::uint32_t>(Op::kPin);
}

}  // namespace

std::optional<Request> read_request(const Submission& s, std::uint64_t number) {
  Request r;
  const std::uint32_t op = read_once(s.op);
  const std::uint32_t kind = read_once(s.kind);
  const std::uint32_t flags = read_once(s.flags);
  const std::size_t key_bytes = read_once(s.key_bytes);
  if (!known_op(op) || kind >= kKindsMax || flags > 0xFF || key_bytes > kKeyBytesMax)
    return std::nullopt;
  r.number = number;
  r.op = static_cast<Op>(op);
  r.kind = static_cast<std::uint8_t>(kind);
  r.flags = static_cast<std::uint8_t>(flags);
  r.deadline_ns = read_once(s.deadline_ns);
  r.reservation = read_once(s.reservation);
  r.extent_bytes = read_once(s.extent_bytes);
  r.write_deadline_ns = read_once(s.write_deadline_ns);
  r.object_bytes = read_once(s.object_bytes);
  r.attribute_bytes = read_once(s.attribute_bytes);
  r.meta_bytes = read_once(s.meta_bytes);
  r.meta_digest = read_once(s.meta_digest);
  r.spec_digest = read_once(s.spec_digest);
  r.content_digest = read_once(s.content_digest);
  r.pin = read_once(s.pin);
  r.id_at = read_once(s.id_at);
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
    case Op::kNone:
      break;
  }
  return r;
}

}  // namespace sluice::store
