// The part of ObjectStore that takes objects away and gives slots, records and extents back.
#include <algorithm>

#include "base/check.h"
#include "base/kill_point.h"
#include "store/object_store.h"
#include "store/probe.h"

namespace sluice::store {

bool ObjectStore::apply(std::uint32_t slot, SlotEvent event) {
  Slot& s = control_.slot(slot);
  const SlotWord word = s.load(std::memory_order_relaxed);
  const Step step = advance({.state = word.state, .clean_passes = 0}, event);
  if (step.has(effect::kCountPublished))
    counters().published.fetch_add(1, std::memory_order_relaxed);
  if (step.has(effect::kCountExpired)) counters().expired.fetch_add(1, std::memory_order_relaxed);
  if (step.has(effect::kCountAbandoned))
    counters().abandoned.fetch_add(1, std::memory_order_relaxed);
  if (step.has(effect::kCountOfDead))
    counters().reclaimed_of_dead.fetch_add(1, std::memory_order_relaxed);
  if (step.has(effect::kWakeKeyWaiters) && slot < control_.index_slots()) changed(s.hash());
  if (step.next.state == word.state) return !step.refuse;

  if (is_free(step.next.state)) {
    if (is_being_written(word.state)) forget_reservation(slot);
    if (event == SlotEvent::kHandOver) {
      // The extent stands in an index slot now.
      s.word.store(pack(SlotWord{SlotState::kEmpty, word.generation}), std::memory_order_seq_cst);
      free_grants_.push_back(slot);
    } else {
      release_slot(slot, step.next.state);
    }
    return !step.refuse;
  }
  std::uint32_t generation = word.generation;
  if (step.has(effect::kNewGeneration) && ++generation == 0)
    generation = 1;  // 0 is never a lease's generation
  s.word.store(pack(SlotWord{step.next.state, generation}), std::memory_order_seq_cst);
  return !step.refuse;
}

// Slot and extent become free together: the word first, for those who look, then the private lists.
void ObjectStore::release_slot(std::uint32_t slot, SlotState next) {
  Slot& s = control_.slot(slot);
  const arena::Extent extent = extent_of(slot);
  const RecordInfo info = unpack_record_info(s.record_info.load(std::memory_order_relaxed));
  const std::uint32_t generation = s.load(std::memory_order_relaxed).generation;
  const bool keyed = slot < control_.index_slots();
  KILL_POINT("release.before_word");
  s.word.store(pack(SlotWord{keyed ? next : SlotState::kEmpty, generation}),
               std::memory_order_seq_cst);
  KILL_POINT("release.after_word");
  if (const Record* record = keyed ? control_.record(info) : nullptr) {
    prefixes_.release(record->prefix);
    records_.free(info.granule, info.granules);
  }
  extents_.free(extent);
  if (keyed) {
    sweep_tombstones(slot);
  } else {
    free_grants_.push_back(slot);
  }
}

void ObjectStore::forget_reservation(std::uint32_t slot) {
  const Slot& s = control_.slot(slot);
  const std::uint64_t number = s.reservation.load(std::memory_order_relaxed);
  if (reservations_.erase(number) == 0) return;
  deadlines_.erase({s.deadline_or_pin.load(std::memory_order_relaxed), slot});
  const ExtentInfo info = unpack_extent_info(s.extent_info.load(std::memory_order_relaxed));
  const std::uint64_t bytes = static_cast<std::uint64_t>(info.pages) * kPageBytes;
  Client& client = clients_[info.owner];
  client.reservations.erase(number);
  client.reserved_bytes -= std::min(client.reserved_bytes, bytes);
  counters().reserved_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  control_.client(info.owner)
      .reserved_bytes.store(client.reserved_bytes, std::memory_order_relaxed);
}

// A tombstone becomes empty only when the slot after it is empty: then no probe that went past it
// can miss anything.
void ObjectStore::sweep_tombstones(std::uint32_t from) {
  const std::uint32_t end = control_.index_slots();
  const auto empty = [&](std::uint32_t i) {
    return i == end || control_.slot(i).load(std::memory_order_relaxed).state == SlotState::kEmpty;
  };
  if (!empty(from + 1)) return;
  for (std::uint32_t i = from;; --i) {
    Slot& s = control_.slot(i);
    const SlotWord word = s.load(std::memory_order_relaxed);
    if (word.state != SlotState::kTombstone) break;
    s.word.store(pack(SlotWord{SlotState::kEmpty, word.generation}), std::memory_order_release);
    KILL_POINT("sweep.between_slots");
    if (i == 0) break;
  }
}

void ObjectStore::retire(std::uint32_t slot, SlotEvent why) {
  if (auto* kind = kind_counters(slot)) {
    const Record* record = control_.record(
        unpack_record_info(control_.slot(slot).record_info.load(std::memory_order_relaxed)));
    kind->objects.fetch_sub(1, std::memory_order_relaxed);
    kind->object_bytes.fetch_sub(record->object_bytes, std::memory_order_relaxed);
    (why == SlotEvent::kEvict ? kind->evictions : kind->removals)
        .fetch_add(1, std::memory_order_relaxed);
  }
  (why == SlotEvent::kEvict ? counters().evictions : counters().removals)
      .fetch_add(1, std::memory_order_relaxed);
  counters().objects.fetch_sub(1, std::memory_order_relaxed);
  order_.erase(slot);
  KILL_POINT("retire.before_word");
  apply(slot, why);
  KILL_POINT("retire.after_word");
  retired_.push_back({.slot = slot, .life = {.state = SlotState::kRetired, .clean_passes = 0}});
}

// One pass over all client pages: leased_[slot] == scan_ for every slot whose current generation is
// named by a lease.
void ObjectStore::mark_leased() {
  ++scan_;
  for (std::uint32_t id = 0; id < clients_.size(); ++id) {
    const PageView& page = clients_[id].page;
    if (!page) continue;
    const std::uint32_t high =
        std::min(page.header().leases_high.load(std::memory_order_seq_cst), kLeasesPerClient);
    std::uint64_t leases = 0;
    for (std::uint32_t i = 0; i < high; ++i) {
      const std::uint64_t lease = page.lease(i).load(std::memory_order_seq_cst);
      if (lease == 0) continue;
      ++leases;
      const std::uint64_t slot = (lease >> 32) - 1;
      if (slot >= control_.all_slots()) continue;  // not written by a correct client; names nothing
      const auto generation = static_cast<std::uint32_t>(lease);
      if (control_.slot(static_cast<std::uint32_t>(slot))
              .load(std::memory_order_relaxed)
              .generation == generation) {
        leased_[slot] = scan_;
      }
    }
    control_.client(id).leases.store(leases, std::memory_order_relaxed);
  }
}

// Two clean passes in a row free a retired slot; a lease handed from one process to another can
// hide from one pass only.
void ObjectStore::scan_retired() {
  for (int pass = 0; pass < kCleanPassesToFree && !retired_.empty(); ++pass) {
    mark_leased();
    std::erase_if(retired_, [&](Retired& r) {
      const Step step = advance(
          r.life, leased_[r.slot] == scan_ ? SlotEvent::kScanDirtyPass : SlotEvent::kScanCleanPass);
      r.life = step.next;
      if (!is_free(step.next.state)) return false;
      KILL_POINT("scan.before_release");
      release_slot(r.slot, step.next.state);
      return true;
    });
  }
}

bool ObjectStore::take_visited(std::uint32_t slot) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << (slot % 64);
  bool visited = false;
  for (const Client& client : clients_) {
    if (!client.page) continue;
    auto& word = client.page.touched_word(slot);
    if ((word.load(std::memory_order_relaxed) & bit) != 0) {
      word.fetch_and(~bit, std::memory_order_relaxed);
      visited = true;
    }
  }
  return visited;
}

// Retires objects of the given class that nobody leases until `bytes` are freed. Returns how many
// bytes were.
std::uint64_t ObjectStore::evict(std::uint64_t bytes, Evictable which, Instant now) {
  mark_leased();
  std::uint64_t chosen = 0;
  const std::uint64_t before = extents_.free_bytes();
  const auto evictable = [&](std::uint32_t slot) {
    if (leased_[slot] == scan_) return false;
    const std::uint64_t pin = control_.slot(slot).deadline_or_pin.load(std::memory_order_relaxed);
    if (pin == kHardPin) return false;
    return which == Evictable::kSoftPinned || pin <= now;
  };
  while (chosen < bytes) {
    const auto victim = order_.next_victim([&](std::uint32_t slot) { return take_visited(slot); },
                                           evictable, order_.full_search());
    if (!victim) break;
    chosen += extent_of(*victim).bytes;
    retire(*victim, SlotEvent::kEvict);
  }
  if (chosen != 0) scan_retired();
  return extents_.free_bytes() - before;
}

std::optional<arena::Extent> ObjectStore::allocate(std::uint64_t bytes, Instant now) {
  if (auto extent = extents_.allocate(bytes)) return extent;
  if (!retired_.empty()) {
    scan_retired();
    if (auto extent = extents_.allocate(bytes)) return extent;
  }
  for (const Evictable which : {Evictable::kUnpinned, Evictable::kSoftPinned}) {
    while (evict(bytes, which, now) != 0) {
      if (auto extent = extents_.allocate(bytes)) return extent;
    }
  }
  return std::nullopt;
}

ObjectStore::Reply ObjectStore::remove(const Request& request) {
  const auto slot = find(request.prefix(), request.id(), SlotState::kPublished);
  if (!slot) {
    const bool pending = find(request.prefix(), request.id(), SlotState::kReserved).has_value();
    return {.answer = pending ? Answer::kPending : Answer::kNotFound};
  }
  retire(*slot, SlotEvent::kRemove);
  changed(hash_of(request.key));
  scan_retired();
  return {};
}

ObjectStore::Reply ObjectStore::invalidate(const Request& request) {
  std::uint64_t count = 0;
  std::string text;
  for (std::uint32_t slot = 0; slot < control_.index_slots(); ++slot) {
    if (control_.slot(slot).load(std::memory_order_relaxed).state != SlotState::kPublished)
      continue;
    const RecordInfo info =
        unpack_record_info(control_.slot(slot).record_info.load(std::memory_order_relaxed));
    const Record* record = control_.record(info);
    text.assign(prefix_text(control_.prefixes(), record->prefix))
        .append("@id:")
        .append(control_.id_of(*record, info));
    if (!text.starts_with(request.key)) continue;
    retire(slot, SlotEvent::kRemove);
    ++count;
  }
  if (count != 0) {
    changed_bits_ = kAllKeys;
    scan_retired();
  }
  return {.count = count};
}

// Leases and reservations of the dead first, the page last.
void ObjectStore::client_gone(std::uint32_t id) {
  Client& client = clients_[id];
  ClientEntry& entry = control_.client(id);
  const PageView page = client.page;
  client.page = {};  // its leases count no longer
  KILL_POINT("gone.before_reservations");
  const std::vector<std::uint64_t> numbers(client.reservations.begin(), client.reservations.end());
  for (const std::uint64_t number : numbers) {
    if (const auto known = reservations_.find(number); known != reservations_.end()) {
      apply(known->second, SlotEvent::kOwnerDied);
    }
    KILL_POINT("gone.between_reservations");
  }
  std::erase_if(waiters_, [id](const Waiter& w) { return w.client == id; });
  if (page) counters().clients.fetch_sub(1, std::memory_order_relaxed);
  entry.leases.store(0, std::memory_order_relaxed);
  entry.reserved_bytes.store(0, std::memory_order_relaxed);
  KILL_POINT("gone.before_entry");
  entry.state.store(static_cast<std::uint32_t>(ClientState::kFree), std::memory_order_release);
  client = Client{};
  if (!retired_.empty()) scan_retired();
}

}  // namespace sluice::store
