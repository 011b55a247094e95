#include "kv/handoff_key.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace sluice::kv {

bool is_handoff_id(std::string_view text) noexcept {
  return text.size() == kHandoffIdDigits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

HandoffKeys::HandoffKeys(ObjectKey any, std::string id, std::string prefix)
    : any_(std::move(any)), id_(std::move(id)), prefix_(std::move(prefix)) {}

Result<HandoffKeys> HandoffKeys::make(std::string_view tenant, std::string_view handoff) {
  if (!is_handoff_id(handoff)) {
    return fail(Code::kInvalidArgument,
                fmt::format("a hand-off is named by {} lower-case hexadecimal digits, not by '{}'",
                            kHandoffIdDigits, handoff.substr(0, 64)));
  }
  const std::string id = std::string(handoff) + ".";
  auto any = ObjectKey::make({.tenant = std::string(tenant),
                              .kind = ObjectKind::kKvHandoff,
                              .model = "kv",
                              .revision = "1",
                              .encoder = "none",
                              .dtype = "uint8",
                              .id = id});
  if (!any) return std::unexpected(std::move(any.error()));
  // The longest key must fit as well.
  const auto longest = any->with_id(id + "4294967295.4294967295.4294967295");
  if (!longest) return std::unexpected(longest.error());
  std::string prefix = any->text();
  return HandoffKeys(std::move(*any), id, std::move(prefix));
}

std::string HandoffKeys::prefix_of(std::uint32_t generation, std::uint32_t rank) const {
  return fmt::format("{}{}.{}.", prefix_, generation, rank);
}

ObjectKey HandoffKeys::part(const Part& part) const {
  return named(fmt::format("{}.{}.{}", part.generation, part.rank, part.sequence));
}

ObjectKey HandoffKeys::commit(std::uint32_t generation, std::uint32_t rank) const {
  return named(fmt::format("{}.{}.end", generation, rank));
}

ObjectKey HandoffKeys::named(std::string_view rest) const {
  auto key = any_.with_id(id_ + std::string(rest));
  CHECK(key.has_value());  // make() tried the longest
  return std::move(*key);
}

}  // namespace sluice::kv
