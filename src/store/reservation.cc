#include "store/reservation.h"

namespace sluice::store {

std::string_view name(SlotState state) noexcept {
  switch (state) {
    case SlotState::kEmpty:
      return "empty";
    case SlotState::kTombstone:
      return "tombstone";
    case SlotState::kReserved:
      return "reserved";
    case SlotState::kExpired:
      return "expired";
    case SlotState::kPublished:
      return "published";
    case SlotState::kRetired:
      return "retired";
  }
  return "unknown";
}

std::string_view name(SlotEvent event) noexcept {
  switch (event) {
    case SlotEvent::kReserve:
      return "reserve";
    case SlotEvent::kInstall:
      return "install";
    case SlotEvent::kPublish:
      return "publish";
    case SlotEvent::kPublishLost:
      return "publish_lost";
    case SlotEvent::kHandOver:
      return "hand_over";
    case SlotEvent::kAbort:
      return "abort";
    case SlotEvent::kExpire:
      return "expire";
    case SlotEvent::kRemove:
      return "remove";
    case SlotEvent::kEvict:
      return "evict";
    case SlotEvent::kOwnerDied:
      return "owner_died";
    case SlotEvent::kScanCleanPass:
      return "scan_clean_pass";
    case SlotEvent::kScanDirtyPass:
      return "scan_dirty_pass";
    case SlotEvent::kSweep:
      return "sweep";
  }
  return "unknown";
}

}  // namespace sluice::store
