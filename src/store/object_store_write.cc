// The part of ObjectStore that turns requests of producers into reservations and published objects.
#include <algorithm>

#include "base/check.h"
#include "base/kill_point.h"
#include "store/object_store.h"
#include "store/probe.h"

namespace sluice::store {
namespace {

constexpr unsigned kRequestBits = 40;
constexpr std::uint64_t kSerialMax = (std::uint64_t{1} << 24) - 1;

}  // namespace

// Names the request that asked for it, so that a request served twice is recognised: {client serial
// : 24, request : 40}.
std::uint64_t ObjectStore::reservation_number(std::uint32_t id,
                                              std::uint64_t request_number) const noexcept {
  const std::uint64_t serial = clients_[id].serial;
  CHECK(serial != 0 && serial <= kSerialMax);
  return serial << kRequestBits | (request_number & ((std::uint64_t{1} << kRequestBits) - 1));
}

std::optional<ObjectStore::Reply> ObjectStore::reserve(std::uint32_t id, const Request& request,
                                                       Instant now) {
  Client& client = clients_[id];
  const std::uint64_t number = reservation_number(id, request.number);
  if (const auto served = reservations_.find(number); served != reservations_.end()) {
    return Reply{.slot = served->second};
  }
  const bool keyed = request.op == Op::kReserve;
  if (draining_) return Reply{.answer = Answer::kDraining};
  if (keyed) {
    if (const auto there = find(request.prefix(), request.id(), SlotState::kPublished)) {
      const RecordInfo info =
          unpack_record_info(control_.slot(*there).record_info.load(std::memory_order_relaxed));
      const bool same = control_.record(info)->spec_digest == request.spec_digest;
      (same ? counters().duplicates : counters().conflicts).fetch_add(1, std::memory_order_relaxed);
      return Reply{.answer = same ? Answer::kDuplicate : Answer::kConflict};
    }
    if (find(request.prefix(), request.id(), SlotState::kReserved))
      return Reply{.answer = Answer::kPending};
  }

  const auto bytes = checked_align(request.extent_bytes, kPageBytes);
  const ControlHeader& header = control_.header();
  const std::uint64_t largest =
      *std::ranges::max_element(std::span(header.segment_bytes).first(header.segment_count));
  if (request.extent_bytes == 0 || !bytes || *bytes > largest)
    return Reply{.answer = Answer::kTooLarge};
  if (client.reservations.size() >= kReservationsPerClient)
    return Reply{.answer = Answer::kTooMany};
  const bool over_limit = *bytes > options_.reserved_bytes_per_client ||
                          client.reserved_bytes > options_.reserved_bytes_per_client - *bytes;
  if (over_limit) return Reply{.answer = Answer::kTooMany};

  const Hash128 hash = keyed ? hash_of(request.key) : Hash128{};
  if (keyed) {
    make_room_for_one(request.id().size(), now);
  } else if (free_grants_.empty()) {
    return Reply{.answer = Answer::kTooMany};
  }

  const auto extent = allocate(*bytes, now);
  if (!extent) {
    if (now >= request.deadline_ns) {
      if ((request.flags & kAskedAhead) == 0)
        counters().out_of_space.fetch_add(1, std::memory_order_relaxed);
      return Reply{.answer = Answer::kOutOfSpace};
    }
    if (waiters_.size() >= kWaitersMax) return Reply{.answer = Answer::kTooMany};
    waiters_.push_back({.client = id, .request = request});
    return std::nullopt;
  }
  // Only now: making room for the extent may have emptied the slots before the one that was free
  //           until then, and a key
  // behind an empty slot is never found.
  const std::optional<std::uint32_t> slot = keyed ? free_index_slot(hash) : free_grants_.back();
  if (!slot || (keyed && !make_record(*slot, request))) {
    extents_.free(*extent);
    return Reply{.answer = Answer::kIndexFull};
  }
  if (!keyed) {
    free_grants_.pop_back();
    control_.slot(*slot).record_info.store(pack(RecordInfo{}), std::memory_order_relaxed);
  }

  Slot& s = control_.slot(*slot);
  const Instant write_deadline = std::max(request.write_deadline_ns, now + kNsPerMs);
  s.hash_low.store(hash.low, std::memory_order_relaxed);
  s.hash_high.store(hash.high, std::memory_order_relaxed);
  s.reservation.store(number, std::memory_order_relaxed);
  KILL_POINT("reserve.half_written");
  s.extent.store(arena::pack_extent(*extent), std::memory_order_relaxed);
  s.extent_info.store(
      pack(ExtentInfo{.pages = static_cast<std::uint32_t>(extent->bytes / kPageBytes),
                      .owner = static_cast<std::uint16_t>(id)}),
      std::memory_order_relaxed);
  s.deadline_or_pin.store(write_deadline, std::memory_order_relaxed);
  KILL_POINT("reserve.before_word");
  apply(*slot, SlotEvent::kReserve);
  KILL_POINT("reserve.after_word");

  reservations_.emplace(number, *slot);
  if (keyed) deadlines_.emplace(write_deadline, *slot);
  client.reservations.insert(number);
  client.reserved_bytes += extent->bytes;
  counters().reserved_bytes.fetch_add(extent->bytes, std::memory_order_relaxed);
  control_.client(id).reserved_bytes.store(client.reserved_bytes, std::memory_order_relaxed);
  return Reply{.slot = *slot};
}

ObjectStore::Reply ObjectStore::publish(std::uint32_t id, const Request& request, Instant now) {
  const auto known = reservations_.find(request.reservation);
  if (known == reservations_.end()) {
    // An earlier daemon published it and died before it answered.
    const auto before = published_before_.find(request.reservation);
    return {.answer =
                before != published_before_.end() ? Answer::kOk : Answer::kUnknownReservation};
  }
  if (!clients_[id].reservations.contains(request.reservation))
    return {.answer = Answer::kUnknownReservation};
  const std::uint32_t slot = known->second;
  const bool keyed = slot < control_.index_slots();
  if (!fits_extent(request, extent_of(slot).bytes) || keyed != request.key.empty()) {
    counters().refused.fetch_add(1, std::memory_order_relaxed);
    return {.answer = Answer::kMalformed};
  }
  return keyed ? publish_keyed(slot, request, now) : publish_grant(slot, request, now);
}

ObjectStore::Reply ObjectStore::publish_keyed(std::uint32_t slot, const Request& request,
                                              Instant now) {
  Slot& s = control_.slot(slot);
  if (s.load().state == SlotState::kExpired) {
    // Too late, or another writer published this key meanwhile. Its word that it stopped writing
    // frees the extent.
    const RecordInfo info = unpack_record_info(s.record_info.load(std::memory_order_relaxed));
    const Record* record = control_.record(info);
    const auto winner = find(prefix_text(control_.prefixes(), record->prefix),
                             control_.id_of(*record, info), SlotState::kPublished);
    if (winner) return lost_to(*winner, slot, request);
    apply(slot, SlotEvent::kPublish);
    return {.answer = Answer::kExpired};
  }
  const arena::Extent extent = extent_of(slot);
  fill_record(slot, request, now);
  forget_reservation(slot);
  const std::uint64_t need = align_up(request.object_bytes, 64) + request.meta_bytes;
  const arena::Extent kept = extents_.trim(extent, need);
  const ExtentInfo info = unpack_extent_info(s.extent_info.load(std::memory_order_relaxed));
  s.extent_info.store(pack(ExtentInfo{.pages = static_cast<std::uint32_t>(kept.bytes / kPageBytes),
                                      .owner = info.owner}),
                      std::memory_order_relaxed);
  s.deadline_or_pin.store(request.pin, std::memory_order_relaxed);
  KILL_POINT("publish.before_word");
  apply(slot, SlotEvent::kPublish);
  KILL_POINT("publish.after_word");
  count_published(slot);
  return {};
}

ObjectStore::Reply ObjectStore::publish_grant(std::uint32_t slot, const Request& request,
                                              Instant now) {
  if (const auto winner = find(request.prefix(), request.id(), SlotState::kPublished)) {
    return lost_to(*winner, slot, request);
  }
  // First to publish wins: a keyed reservation of the same key by somebody else ends as a
  // duplicate.
  if (const auto rival = find(request.prefix(), request.id(), SlotState::kReserved)) {
    deadlines_.erase(
        {control_.slot(*rival).deadline_or_pin.load(std::memory_order_relaxed), *rival});
    apply(*rival, SlotEvent::kExpire);
    KILL_POINT("install.rival_expired");
  }
  make_room_for_one(request.id().size(), now);
  const Hash128 hash = hash_of(request.key);
  const auto target = free_index_slot(hash);
  if (!target || !make_record(*target, request)) return {.answer = Answer::kIndexFull};

  Slot& grant = control_.slot(slot);
  Slot& s = control_.slot(*target);
  const std::uint64_t need = align_up(request.object_bytes, 64) + request.meta_bytes;
  const arena::Extent extent = extent_of(slot);
  forget_reservation(slot);
  const arena::Extent kept = extents_.trim(extent, need);
  const auto pages = static_cast<std::uint32_t>(kept.bytes / kPageBytes);
  fill_record(*target, request, now);
  s.hash_low.store(hash.low, std::memory_order_relaxed);
  s.hash_high.store(hash.high, std::memory_order_relaxed);
  s.reservation.store(request.reservation, std::memory_order_relaxed);
  s.extent.store(arena::pack_extent(kept), std::memory_order_relaxed);
  const std::uint16_t owner =
      unpack_extent_info(grant.extent_info.load(std::memory_order_relaxed)).owner;
  s.extent_info.store(pack(ExtentInfo{.pages = pages, .owner = owner}), std::memory_order_relaxed);
  s.deadline_or_pin.store(request.pin, std::memory_order_relaxed);
  KILL_POINT("install.before_word");
  apply(*target, SlotEvent::kInstall);
  KILL_POINT("install.between_slots");  // two slots name the extent
  apply(slot, SlotEvent::kHandOver);
  KILL_POINT("install.after_grant");
  count_published(*target);
  return {};
}

// Rule R8: the first published object stays.
ObjectStore::Reply ObjectStore::lost_to(std::uint32_t winner, std::uint32_t loser,
                                        const Request& request) {
  const RecordInfo info =
      unpack_record_info(control_.slot(winner).record_info.load(std::memory_order_relaxed));
  const Record* record = control_.record(info);
  const bool same_spec = record->spec_digest == request.spec_digest;
  const bool both_digests = record->content_digest != 0 && request.content_digest != 0;
  const bool divergent = both_digests && record->content_digest != request.content_digest;
  apply(loser, SlotEvent::kPublishLost);
  // Kinds that are bit-exact by nature conflict when their bytes differ; encoder outputs may differ
  // in the last bit.
  const bool bit_exact = record->kind != 0;
  if (!same_spec || (divergent && bit_exact)) {
    counters().conflicts.fetch_add(1, std::memory_order_relaxed);
    return {.answer = Answer::kConflict};
  }
  counters().duplicates.fetch_add(1, std::memory_order_relaxed);
  if (auto* kind = kind_counters(winner)) kind->duplicates.fetch_add(1, std::memory_order_relaxed);
  if (divergent) counters().divergent_duplicates.fetch_add(1, std::memory_order_relaxed);
  return {.answer = divergent ? Answer::kDivergentDuplicate : Answer::kDuplicate};
}

ObjectStore::Reply ObjectStore::abandon(std::uint32_t id, const Request& request) {
  const auto known = reservations_.find(request.reservation);
  if (known == reservations_.end() || !clients_[id].reservations.contains(request.reservation)) {
    return {.answer = Answer::kUnknownReservation};
  }
  apply(known->second, SlotEvent::kAbort);
  return {};
}

bool ObjectStore::fits_extent(const Request& r, std::uint64_t extent_bytes) const noexcept {
  const auto object = checked_align(r.object_bytes, 64);
  if (r.object_bytes == 0 || !object || !fits(*object, r.meta_bytes, extent_bytes)) return false;
  const std::uint64_t digests =
      (r.flags & kHasChecksums) != 0 ? chunk_count(r.object_bytes) * sizeof(std::uint64_t) : 0;
  return r.meta_bytes == align_up(r.attribute_bytes, 8) + digests;
}

bool ObjectStore::make_record(std::uint32_t slot, const Request& request) {
  const std::uint32_t granules = record_granules_for(request.id().size());
  const auto granule = records_.allocate(granules);
  if (!granule) return false;
  const auto prefix = prefixes_.intern(request.prefix());
  if (!prefix) {
    records_.free(*granule, granules);
    return false;
  }
  const RecordInfo info{.granule = *granule, .granules = static_cast<std::uint16_t>(granules)};
  Record* record = control_.record(info);
  *record = Record{.prefix = *prefix,
                   .id_bytes = static_cast<std::uint16_t>(request.id().size()),
                   .kind = request.kind,
                   .flags = 0,
                   .object_bytes = 0,
                   .attribute_bytes = 0,
                   .meta_bytes = 0,
                   .meta_digest = 0,
                   .spec_digest = request.spec_digest,
                   .content_digest = 0,
                   .created_ns = 0};
  KILL_POINT("record.half_made");
  std::ranges::copy(request.id(), reinterpret_cast<char*>(record + 1));
  control_.slot(slot).record_info.store(pack(info), std::memory_order_relaxed);
  return true;
}

void ObjectStore::fill_record(std::uint32_t slot, const Request& r, Instant now) {
  Record* record = control_.record(
      unpack_record_info(control_.slot(slot).record_info.load(std::memory_order_relaxed)));
  record->flags = r.flags;
  record->object_bytes = r.object_bytes;
  record->attribute_bytes = r.attribute_bytes;
  KILL_POINT("record.half_filled");
  record->meta_bytes = r.meta_bytes;
  record->meta_digest = r.meta_digest;
  record->spec_digest = r.spec_digest;
  record->content_digest = r.content_digest;
  record->created_ns = now;
}

void ObjectStore::count_published(std::uint32_t slot) {
  order_.insert(slot);
  counters().objects.fetch_add(1, std::memory_order_relaxed);
  if (auto* kind = kind_counters(slot)) {
    const Record* record = control_.record(
        unpack_record_info(control_.slot(slot).record_info.load(std::memory_order_relaxed)));
    kind->objects.fetch_add(1, std::memory_order_relaxed);
    kind->object_bytes.fetch_add(record->object_bytes, std::memory_order_relaxed);
    kind->puts.fetch_add(1, std::memory_order_relaxed);
  }
}

std::optional<std::uint32_t> ObjectStore::find(std::string_view prefix, std::string_view id,
                                               SlotState state) const {
  std::string text;
  text.reserve(prefix.size() + id.size() + 4);
  text.append(prefix).append("@id:").append(id);
  std::optional<std::uint32_t> found;
  probe(control_, hash_of(text), [&](std::uint32_t number, SlotWord word) {
    if (word.state != state || !same_key(control_, control_.slot(number), prefix, id)) return false;
    found = number;
    return true;
  });
  return found;
}

// Objects are evicted for want of an index entry or of room for their ids as they are for want of
// bytes.
void ObjectStore::make_room_for_one(std::size_t id_bytes, Instant now) {
  const auto full = [&] {
    return counters().objects.load(std::memory_order_relaxed) >= control_.header().objects_max ||
           records_.total_granules() - records_.used_granules() < 4 * record_granules_for(id_bytes);
  };
  while (full() &&
         (evict(1, Evictable::kUnpinned, now) != 0 || evict(1, Evictable::kSoftPinned, now) != 0)) {
  }
}

std::optional<std::uint32_t> ObjectStore::free_index_slot(const Hash128& hash) const {
  const std::uint32_t home = control_.home(hash);
  for (std::uint32_t i = 0; i < kProbeMax; ++i) {
    if (is_free(control_.slot(home + i).load(std::memory_order_relaxed).state)) return home + i;
  }
  return std::nullopt;
}

}  // namespace sluice::store
