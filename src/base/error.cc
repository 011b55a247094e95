#include <sluice/error.h>

namespace sluice {

std::string_view name(Code code) noexcept {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kNotFound:
      return "not_found";
    case Code::kPending:
      return "pending";
    case Code::kConflict:
      return "conflict";
    case Code::kOutOfSpace:
      return "out_of_space";
    case Code::kTimedOut:
      return "timed_out";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kDetached:
      return "detached";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kExpired:
      return "expired";
    case Code::kLimit:
      return "limit";
    case Code::kPermission:
      return "permission";
    case Code::kVersion:
      return "version";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kIo:
      return "io";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
}

std::string_view name(Drop drop) noexcept {
  switch (drop) {
    case Drop::kNothing:
      return "nothing";
    case Drop::kObject:
      return "object";
    case Drop::kTransfer:
      return "transfer";
    case Drop::kPeer:
      return "peer";
    case Drop::kSegment:
      return "segment";
    case Drop::kProcess:
      return "process";
  }
  return "unknown";
}

}  // namespace sluice
