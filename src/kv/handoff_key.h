// handoff_key.h: the names of what one hand-off of KV puts into the arena (docs/formats/kv-handoff.md).
//
// Every key of a hand-off begins with prefix(), so that whoever ends it can remove all of it
// without knowing how far it came. The id goes on GENERATION.RANK.SEQUENCE or GENERATION.RANK.end.
//
// Invariant: a HandoffKeys object makes only valid keys, and two hand-offs of any tenants share
//            none.
// Threads:   an immutable value, any thread.
// Failure:   kInvalidArgument for an id that is not 32 lower-case hexadecimal digits, or for a
//            tenant that no key can name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sluice/error.h>
#include <sluice/object_key.h>

namespace sluice::kv {

inline constexpr std::size_t kHandoffIdDigits = 32;

bool is_handoff_id(std::string_view text) noexcept;

class HandoffKeys {
 public:
  static Result<HandoffKeys> make(std::string_view tenant, std::string_view handoff);

  const std::string& prefix() const noexcept { return prefix_; }
  // Everything that one rank wrote in one generation.
  std::string prefix_of(std::uint32_t generation, std::uint32_t rank) const;

  struct Part {
    std::uint32_t generation = 0;
    std::uint32_t rank = 0;
    std::uint32_t sequence = 0;
  };
  ObjectKey part(const Part& part) const;
  ObjectKey commit(std::uint32_t generation, std::uint32_t rank) const;

 private:
  HandoffKeys(ObjectKey any, std::string id, std::string prefix);
  ObjectKey named(std::string_view rest) const;

  ObjectKey any_;  // some key of the hand-off: the others differ from it in the id
  std::string id_;
  std::string prefix_;
};

}  // namespace sluice::kv
