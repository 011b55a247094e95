#include <algorithm>

#include "store/model_world.h"
#include "store/probe.h"

namespace sluice::store::model {

void World::compare() {
  const ControlCounters& c = control_.header().counters;
  std::map<std::uint32_t, arena::Extent> expected;
  std::uint64_t reserved = 0, used = 0;
  for (Held& h : held_) {
    const SlotWord word = control_.slot(h.slot).load();
    expect(word.state == (h.expired ? SlotState::kExpired : SlotState::kReserved),
           "slot {} is in state {}", h.slot, static_cast<int>(word.state));
    expect(control_.slot(h.slot).reservation.load() == h.reservation,
           "slot {} has another reservation", h.slot);
    expected[h.slot] = h.extent;
    reserved += h.extent.bytes;
    // Its writer goes on, until it says that it stopped or is dead.
    stamp(h.extent, h.stamp);
  }
  for (const auto& [key, o] : objects_) {
    expect(control_.slot(o.slot).load() == SlotWord{SlotState::kPublished, o.generation},
           "key {} is lost", key);
    expected[o.slot] = o.extent;
    expect(stamped(o.extent, o.stamp), "bytes of key {} changed", key);
  }
  for (const Object& o : retired_) {
    expect(control_.slot(o.slot).load() == SlotWord{SlotState::kRetired, o.generation},
           "slot {} was freed under a lease", o.slot);
    expected[o.slot] = o.extent;
  }
  for (const Standing& l : leases_) {
    expect(control_.slot(l.slot).load().generation == l.generation,
           "slot {} was reused under a lease", l.slot);
    expect(stamped(l.extent, l.stamp), "bytes changed under a lease on slot {}", l.slot);
  }
  std::uint64_t records = 0;
  for (std::uint32_t slot = 0; slot < control_.all_slots(); ++slot) {
    if (is_free(control_.slot(slot).load().state)) continue;
    const auto right = expected.find(slot);
    expect(right != expected.end() || evicted_under_lease(slot),
           "slot {} is in state {} and nothing knows why", slot,
           static_cast<int>(control_.slot(slot).load().state));
    if (right != expected.end())
      expect(right->second == extent_in(slot), "slot {} names another extent", slot);
    used += extent_in(slot).bytes;
    if (slot < control_.index_slots()) {
      records +=
          unpack_record_info(control_.slot(slot).record_info.load()).granules * kGranuleBytes;
    }
  }
  for (auto a = expected.begin(); a != expected.end(); ++a) {
    for (auto b = std::next(a); b != expected.end(); ++b) {
      const bool apart = a->second.segment != b->second.segment ||
                         a->second.offset + a->second.bytes <= b->second.offset ||
                         b->second.offset + b->second.bytes <= a->second.offset;
      expect(apart, "slots {} and {} name the same bytes", a->first, b->first);
    }
  }
  const auto equal = [&](std::string_view what, const std::atomic<std::uint64_t>& counter,
                         std::uint64_t right) {
    expect(counter.load() == right, "{} is {}, not {}", what, counter.load(), right);
  };
  equal("objects", c.objects, objects_.size());
  equal("reserved_bytes", c.reserved_bytes, reserved);
  equal("used_bytes", c.used_bytes, used);
  equal("record_bytes", c.record_bytes, records);
  equal("clients", c.clients, static_cast<std::uint64_t>(std::ranges::count(alive_, true)));
  equal("published", c.published, totals_.published);
  equal("duplicates", c.duplicates, totals_.duplicates);
  equal("divergent_duplicates", c.divergent_duplicates, totals_.divergent);
  equal("conflicts", c.conflicts, totals_.conflicts);
  equal("evictions", c.evictions, totals_.evictions);
  equal("removals", c.removals, totals_.removals);
  equal("expired", c.expired, totals_.expired);
  equal("abandoned", c.abandoned, totals_.abandoned);
  equal("out_of_space", c.out_of_space, totals_.out_of_space);
  equal("reclaimed_of_dead", c.reclaimed_of_dead, totals_.of_dead);
  for (std::uint32_t key = 0; key < kKeys; ++key) {
    const Presence right = objects_.contains(key) ? Presence::kPresent
                           : is_pending(key)      ? Presence::kPending
                                                  : Presence::kAbsent;
    const Presence found = look_up(control_, hash_of(key_text(key)));
    expect(found == right, "key {} is looked up as {}, not {}", key, static_cast<int>(found),
           static_cast<int>(right));
  }
}

bool World::named(std::uint32_t slot, std::uint32_t generation) const {
  for (std::uint32_t c = 0; c < kClients; ++c) {
    if (!alive_[c]) continue;
    const PageView p = page(c);
    const std::uint32_t high = std::min(p.header().leases_high.load(), kLeasesPerClient);
    for (std::uint32_t i = 0; i < high; ++i) {
      if (p.lease(i).load() == lease_word(slot, generation)) return true;
    }
  }
  return false;
}

bool World::is_pending(std::uint32_t key) const {
  return std::ranges::any_of(held_, [key](const Held& h) { return h.key == key && !h.expired; });
}

bool World::evicted_under_lease(std::uint32_t slot) const {
  const SlotWord word = control_.slot(slot).load();
  return word.state == SlotState::kRetired && named(slot, word.generation);
}

}  // namespace sluice::store::model
