// The part of ObjectStore that rebuilds its private knowledge from the slots. A new arena is the
// case without any.
#include <span>

#include "base/check.h"
#include "store/object_store.h"

namespace sluice::store {

void ObjectStore::rebuild() {
  ControlCounters& c = counters();
  c.arena_bytes.store(extents_.total_bytes(), std::memory_order_relaxed);
  for (auto* gauge : {&c.objects, &c.reserved_bytes, &c.clients})
    gauge->store(0, std::memory_order_relaxed);
  for (auto& kind : c.kinds) {
    kind.objects.store(0, std::memory_order_relaxed);
    kind.object_bytes.store(0, std::memory_order_relaxed);
  }
  for (std::uint32_t id = 0; id < kClientsMax; ++id) {
    clients_[id].serial = control_.client(id).serial.load(std::memory_order_relaxed);
  }
  // Index slots before grant slots: a grant whose publish was cut short is recognised by the object
  // that it became.
  for (std::uint32_t slot = 0; slot < control_.all_slots(); ++slot) {
    if (is_free(control_.slot(slot).load(std::memory_order_relaxed).state) || !adopt_slot(slot)) {
      if (slot >= control_.index_slots()) free_grants_.push_back(slot);
    }
  }
  for (std::uint32_t id = 0; id < kClientsMax; ++id) {
    control_.client(id).reserved_bytes.store(clients_[id].reserved_bytes,
                                             std::memory_order_relaxed);
  }
  // The last slot first: one pass then empties every tombstone that an interrupted sweep left
  // behind.
  for (std::uint32_t slot = control_.index_slots(); slot-- > 0;) sweep_tombstones(slot);
  c.used_bytes.store(extents_.used_bytes(), std::memory_order_relaxed);
  changed_bits_ =
      kAllKeys;  // an earlier daemon may have published and died before it woke those who wait
}

// Takes over one slot that is not free. Returns false when it was emptied instead.
bool ObjectStore::adopt_slot(std::uint32_t slot) {
  Slot& s = control_.slot(slot);
  const SlotWord word = s.load(std::memory_order_relaxed);
  const bool keyed = slot < control_.index_slots();
  const std::uint64_t number = s.reservation.load(std::memory_order_relaxed);
  const auto empty_it = [&] {
    s.word.store(pack(SlotWord{keyed ? SlotState::kTombstone : SlotState::kEmpty, word.generation}),
                 std::memory_order_seq_cst);
    return false;
  };
  // Published from the grant table, but the daemon died before it emptied the grant.
  if (!keyed && published_before_.contains(number)) return empty_it();

  const RecordInfo info = unpack_record_info(s.record_info.load(std::memory_order_relaxed));
  const Record* record = control_.record(info);
  if (!extents_.reserve(extent_of(slot)))
    return empty_it();  // no correct daemon writes this; never two owners
  if (keyed) {
    const bool whole = record != nullptr && records_.reserve(info.granule, info.granules);
    if (!whole || !prefixes_.retain(record->prefix)) {
      if (whole) records_.free(info.granule, info.granules);
      extents_.free(extent_of(slot));
      return empty_it();
    }
  }
  switch (word.state) {
    case SlotState::kReserved:
    case SlotState::kExpired: {
      const ExtentInfo extent = unpack_extent_info(s.extent_info.load(std::memory_order_relaxed));
      const std::uint64_t bytes = static_cast<std::uint64_t>(extent.pages) * kPageBytes;
      reservations_.emplace(number, slot);
      if (keyed && word.state == SlotState::kReserved) {
        deadlines_.emplace(s.deadline_or_pin.load(std::memory_order_relaxed), slot);
      }
      if (extent.owner < kClientsMax) {
        clients_[extent.owner].reservations.insert(number);
        clients_[extent.owner].reserved_bytes += bytes;
      }
      counters().reserved_bytes.fetch_add(bytes, std::memory_order_relaxed);
      break;
    }
    case SlotState::kPublished: {
      published_before_.emplace(number, slot);
      order_.insert(slot);
      counters().objects.fetch_add(1, std::memory_order_relaxed);
      if (auto* kind = kind_counters(slot)) {
        kind->objects.fetch_add(1, std::memory_order_relaxed);
        kind->object_bytes.fetch_add(record->object_bytes, std::memory_order_relaxed);
      }
      break;
    }
    default:  // retired, or no state at all: wait for the leases, then free
      retired_.push_back({.slot = slot, .life = {.state = SlotState::kRetired, .clean_passes = 0}});
      break;
  }
  return true;
}

}  // namespace sluice::store
