#include "store/object_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/futex.h"
#include "base/kill_point.h"
#include "store/probe.h"

namespace sluice::store {
namespace {

std::span<const std::uint64_t> segments_of(const ControlView& control) noexcept {
  const ControlHeader& h = control.header();
  return std::span(h.segment_bytes).first(h.segment_count);
}

// Waiting grants and retired slots under lease are looked at again after this time: nobody tells
// the daemon that a lease ended.
constexpr std::uint64_t kRetryNs = 5 * kNsPerMs;
constexpr std::uint64_t kRescanNs = 100 * kNsPerMs;

bool is_waited_for(const Request& request) noexcept {
  return request.op != Op::kAbandon && (request.flags & kAskedAhead) == 0;
}

}  // namespace

ObjectStore::ObjectStore(ControlView control, StoreOptions options)
    : control_(control),
      options_(options),
      extents_(segments_of(control)),
      records_(control.record_granules()),
      prefixes_(control.prefixes()),
      order_(control.all_slots()),
      clients_(kClientsMax),
      leased_(control.all_slots(), 0) {
  control_.header().high_watermark_percent.store(
      static_cast<std::uint32_t>(options_.high_watermark * 100), std::memory_order_relaxed);
  rebuild();
}

ObjectStore::~ObjectStore() = default;

void ObjectStore::add_client(std::uint32_t id, PageView page) {
  CHECK(id < kClientsMax && page);
  Client& client = clients_[id];
  client.page = page;
  client.serial = control_.client(id).serial.load(std::memory_order_relaxed);
  // Go on behind the last request that was answered. Requests are served in order, so the answered
  // ones of this ring and the waiting ones of an earlier daemon are told apart by their completion.
  std::uint64_t first_open = UINT64_MAX;
  std::uint64_t last = 0;
  for (std::uint32_t i = 0; i < kRingEntries; ++i) {
    const std::uint64_t submitted = page.submission(i).number.load(std::memory_order_acquire);
    const std::uint64_t answered = page.completion(i).number.load(std::memory_order_relaxed);
    if (submitted % kRingEntries != i) continue;  // never written, or garbage
    last = std::max(last, submitted);
    if (submitted > answered) first_open = std::min(first_open, submitted);
  }
  client.next_number = first_open != UINT64_MAX ? first_open : last + 1;
  counters().clients.fetch_add(1, std::memory_order_relaxed);
}

bool ObjectStore::serve(std::uint32_t id, Instant now) {
  Client& client = clients_[id];
  if (!client.page) return false;
  std::uint32_t served = 0;
  for (; served < kRingEntries; ++served) {
    const std::uint64_t number = client.next_number;
    const Submission& submission = client.page.submission(number);
    if (submission.number.load(std::memory_order_acquire) != number) break;
    ++client.next_number;
    // Answered by an earlier daemon while an older request waited.
    if (client.page.completion(number).number.load(std::memory_order_relaxed) == number) continue;
    const auto request = read_request(submission, number);
    if (!request) {
      counters().refused.fetch_add(1, std::memory_order_relaxed);
      reply(id, number, {.answer = Answer::kMalformed});
      continue;
    }
    if (is_waited_for(*request) && now > request->deadline_ns)
      late_requests_.fetch_add(1, std::memory_order_relaxed);
    if (const auto answer = handle(id, *request, now)) {
      KILL_POINT("serve.before_answer");
      reply(id, number, *answer);
    }
  }
  return served != 0;
}

std::optional<ObjectStore::Reply> ObjectStore::handle(std::uint32_t id, const Request& request,
                                                      Instant now) {
  switch (request.op) {
    case Op::kGrant:
    case Op::kReserve:
      return reserve(id, request, now);
    case Op::kPublish:
      return publish(id, request, now);
    case Op::kAbandon:
      return abandon(id, request);
    case Op::kRemove:
      return remove(request);
    case Op::kInvalidate:
      return invalidate(request);
    case Op::kPin:
      return pin(request);
    case Op::kNone:
      break;
  }
  return Reply{.answer = Answer::kMalformed};
}

void ObjectStore::reply(std::uint32_t id, std::uint64_t number, const Reply& reply) {
  Client& client = clients_[id];
  Completion& c = client.page.completion(number);
  c.answer = static_cast<std::uint32_t>(reply.answer);
  KILL_POINT("reply.half_written");
  c.slot = reply.slot;
  c.count = reply.count;
  if (reply.slot != UINT32_MAX) {
    const Slot& slot = control_.slot(reply.slot);
    const arena::Extent extent = extent_of(reply.slot);
    c.reservation = slot.reservation.load(std::memory_order_relaxed);
    c.generation = slot.load(std::memory_order_relaxed).generation;
    c.segment = extent.segment;
    c.offset = extent.offset;
    c.extent_bytes = extent.bytes;
  }
  KILL_POINT("reply.before_number");
  c.number.store(number, std::memory_order_release);
  client.answered = true;
}

ObjectStore::Reply ObjectStore::pin(const Request& request) {
  const auto slot = find(request.prefix(), request.id(), SlotState::kPublished);
  if (!slot) return {.answer = Answer::kNotFound};
  control_.slot(*slot).deadline_or_pin.store(request.pin, std::memory_order_relaxed);
  return {};
}

void ObjectStore::tick(Instant now) {
  published_before_
      .clear();  // every request that an earlier daemon left open has been served by now
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const std::uint32_t slot = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    apply(slot, SlotEvent::kExpire);
  }

  // In order of arrival, but a request that fits is not held up by a larger one before it.
  for (std::size_t i = waiters_.size(); i > 0; --i) {
    Waiter waiter = std::move(waiters_.front());
    waiters_.pop_front();
    if (!has_client(waiter.client)) continue;
    if (const auto answer = reserve(waiter.client, waiter.request, now)) {
      reply(waiter.client, waiter.request.number, *answer);
    }  // otherwise reserve() has put it at the end of the queue again
  }

  if (!retired_.empty()) scan_retired();

  if (now >= next_eviction_) {
    const auto total = static_cast<double>(extents_.total_bytes());
    const auto used = static_cast<double>(extents_.used_bytes());
    if (used > options_.high_watermark * total) {
      evict(static_cast<std::uint64_t>(used - options_.low_watermark * total), Evictable::kUnpinned,
            now);
      next_eviction_ = now + kRescanNs;
    }
  }
  counters().used_bytes.store(extents_.used_bytes(), std::memory_order_relaxed);
  counters().record_bytes.store(records_.used_granules() * kGranuleBytes,
                                std::memory_order_relaxed);
}

Instant ObjectStore::next_tick(Instant now) const noexcept {
  Instant next = kFarFuture;
  if (!deadlines_.empty()) next = deadlines_.begin()->first;
  if (!waiters_.empty()) next = std::min(next, now + kRetryNs);
  if (!retired_.empty()) next = std::min(next, now + kRescanNs);
  return next;
}

void ObjectStore::flush() {
  if (const std::uint32_t bits = std::exchange(changed_bits_, 0); bits != 0) {
    auto& changes = control_.header().changes;
    changes.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(changes, bits);
  }
  for (Client& client : clients_) {
    if (!client.page || !std::exchange(client.answered, false)) continue;
    PageHeader& header = client.page.header();
    header.answers.fetch_add(1, std::memory_order_seq_cst);
    if (header.sleepers.load(std::memory_order_seq_cst) != 0) futex_wake_all(header.answers);
  }
}

void ObjectStore::set_draining(bool draining) noexcept {
  draining_ = draining;
  control_.header().draining.store(draining ? 1 : 0, std::memory_order_release);
}

arena::Extent ObjectStore::extent_of(std::uint32_t slot) const noexcept {
  const Slot& s = control_.slot(slot);
  const ExtentInfo info = unpack_extent_info(s.extent_info.load(std::memory_order_relaxed));
  return arena::unpack_extent(s.extent.load(std::memory_order_relaxed),
                              static_cast<std::uint64_t>(info.pages) * kPageBytes);
}

ControlCounters::Kind* ObjectStore::kind_counters(std::uint32_t slot) noexcept {
  const RecordInfo info =
      unpack_record_info(control_.slot(slot).record_info.load(std::memory_order_relaxed));
  const Record* record = control_.record(info);
  return record != nullptr && record->kind < kKindsMax ? &counters().kinds[record->kind] : nullptr;
}

}  // namespace sluice::store
