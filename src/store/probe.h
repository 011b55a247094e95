// probe.h: finding a key in the index without lock, message or retry.
//
// Invariant: at most kProbeMax slots are looked at, each once. A slot that changes while it is
//            looked at counts as another key. Answers without a lease are hints.
// Threads:   any thread of any process.
#pragma once

#include <sluice/client.h>
#include <sluice/object_key.h>

#include "store/control.h"

namespace sluice::store {

inline Hash128 hash_of(std::string_view key_text) noexcept {
  return hash128(std::as_bytes(std::span(key_text.data(), key_text.size())));
}

// A slot whose hash matched, and the word it had then.
struct Found {
  std::uint32_t slot = 0;
  SlotWord word;
};

// Calls visit(slot number, word) for each slot in a state other than free whose hash equals `hash`,
// until it answers true. Returns whether it did.
template <class Visit>
bool probe(const ControlView& control, const Hash128& hash, Visit&& visit) noexcept {
  const std::uint32_t home = control.home(hash);
  for (std::uint32_t i = 0; i < kProbeMax; ++i) {
    const Slot& slot = control.slot(home + i);
    const SlotWord before = slot.load();
    if (before.state == SlotState::kEmpty) return false;
    if (is_free(before.state)) continue;
    const Hash128 found = slot.hash();  // acquire: stands before the second look at the word
    if (found == hash && slot.load(std::memory_order_relaxed) == before) {
      if (visit(home + i, before)) return true;
    }
  }
  return false;
}

inline Presence look_up(const ControlView& control, const Hash128& hash) noexcept {
  Presence answer = Presence::kAbsent;
  probe(control, hash, [&](std::uint32_t, SlotWord word) {
    if (word.state == SlotState::kPublished) answer = Presence::kPresent;
    if (word.state == SlotState::kReserved && answer == Presence::kAbsent)
      answer = Presence::kPending;
    return answer == Presence::kPresent;
  });
  return answer;
}

// Full comparison of a record's key. Only under a lease, or in the daemon.
inline bool same_key(const ControlView& control, const Slot& slot, std::string_view prefix,
                     std::string_view id) noexcept {
  const RecordInfo info = unpack_record_info(slot.record_info.load(std::memory_order_relaxed));
  const Record* record = control.record(info);
  return record != nullptr && control.id_of(*record, info) == id &&
         prefix_text(control.prefixes(), record->prefix) == prefix;
}

}  // namespace sluice::store
