// error.h: how every Sluice call fails.
//
// An Error is a value: a code to branch on, what the caller has to give up, and one sentence that
// names what was wrong and what would be right. Exceptions never cross a module of Sluice.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

enum class Code : std::uint8_t {
  kInvalidArgument,  // the caller's input is wrong; the same call will fail again
  kNotFound,         // no published object has this key
  kPending,          // a live writer holds a reservation for this key
  kConflict,         // another object with this key differs in shape, dtype or bit-exact content
  kOutOfSpace,       // nothing evictable was left until the deadline
  kTimedOut,         // the deadline passed without an answer
  kUnavailable,      // no daemon serves this arena now
  kDetached,         // this handle was closed, or belongs to the parent of a fork
  kCorrupt,          // bytes do not match their checksum or their header
  kExpired,          // the reservation's deadline passed before publish
  kLimit,            // a limit of base/limits.h or of the daemon's configuration is reached
  kPermission,       // the operating system or the daemon refused access
  kVersion,          // the other side speaks another version of a format or protocol
  kUnsupported,      // reserved, not built yet
  kIo,               // an operating system call failed
  kInternal,         // a bug in Sluice
};

// What the caller has to give up. The smallest thing that is no longer usable.
enum class Drop : std::uint8_t { kNothing, kObject, kTransfer, kPeer, kSegment, kProcess };

struct [[nodiscard]] Error {
  Code code = Code::kInternal;
  Drop drop = Drop::kNothing;
  std::string message;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

inline std::unexpected<Error> fail(Code code, std::string message, Drop drop = Drop::kNothing) {
  return std::unexpected(Error{code, drop, std::move(message)});
}

// Lower-case name with underscores, e.g. "out_of_space": what logs, JSON and Python exceptions
// show.
std::string_view name(Code code) noexcept;
std::string_view name(Drop drop) noexcept;

}  // namespace sluice
