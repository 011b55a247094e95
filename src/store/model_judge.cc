#include <algorithm>

#include "base/checked.h"
#include "store/model_world.h"

namespace sluice::store::model {

void World::judge(const Asked& a, const std::map<std::uint32_t, Object>& before) {
  const Completion& c = page(a.client).completion(a.number);
  if (c.number.load() != a.number) {
    expect(a.op == Op::kGrant || a.op == Op::kReserve, "request {} has no answer", a.number);
    expect(now_ < a.deadline, "request {} waits beyond its deadline", a.number);
    expect_no_room(a.bytes);
    waiting_.push_back(a);
    return;
  }
  const auto answer = static_cast<Answer>(c.answer);
  const std::uint32_t key = a.key.value_or(kKeys);  // kKeys: none
  switch (a.op) {
    case Op::kGrant:
    case Op::kReserve:
      judge_space(a, c, answer, before);
      break;
    case Op::kPublish:
      judge_publish(a, answer, before);
      break;
    case Op::kAbandon: {
      const auto mine = std::ranges::find_if(held_, [&](const Held& h) {
        return h.reservation == a.reservation && h.client == a.client;
      });
      expect_answer(a, answer, mine == held_.end() ? Answer::kUnknownReservation : Answer::kOk);
      if (mine != held_.end()) held_.erase(mine), ++totals_.abandoned;
      break;
    }
    case Op::kRemove:
      if (objects_.contains(key)) {
        expect_answer(a, answer, Answer::kOk);
        retire(key);
      } else {
        expect_answer(a, answer, is_pending(key) ? Answer::kPending : Answer::kNotFound);
      }
      break;
    case Op::kInvalidate: {
      std::vector<std::uint32_t> ended;
      for (const auto& [held, object] : objects_) {
        if (a.bytes == 3 || held % 3 == a.bytes) ended.push_back(held);
      }
      expect_answer(a, answer, Answer::kOk);
      expect(c.count == ended.size(), "invalidate says {} and ended {}", c.count, ended.size());
      for (const std::uint32_t one : ended) retire(one);
      break;
    }
    case Op::kPin: {
      const auto there = objects_.find(key);
      expect_answer(a, answer, there == objects_.end() ? Answer::kNotFound : Answer::kOk);
      if (there != objects_.end()) there->second.pin = a.pin;
      break;
    }
    case Op::kNone:
      break;
  }
}

void World::judge_space(const Asked& a, const Completion& c, Answer answer,
                        const std::map<std::uint32_t, Object>& before) {
  std::uint64_t reserved = 0;
  for (const Held& h : held_) reserved += h.client == a.client ? h.extent.bytes : 0;
  const std::uint64_t bytes = align_up(a.bytes, kPageBytes);
  std::optional<Answer> refusal;
  if (a.key) {
    refusal = same_key_answer(*a.key, a, objects_);
    // Evicted by another request of the same turn.
    if (!refusal && same_key_answer(*a.key, a, before) == answer) refusal = answer;
    if (!refusal && is_pending(*a.key)) refusal = Answer::kPending;
  }
  if (!refusal && bytes > kSegments[0]) refusal = Answer::kTooLarge;
  if (!refusal && reserved + bytes > kReservedMax) refusal = Answer::kTooMany;
  if (refusal) {
    expect_answer(a, answer, *refusal);
    count(answer);
    return;
  }
  if (answer == Answer::kOutOfSpace) {
    expect(now_ >= a.deadline, "request {} was refused before its deadline", a.number);
    expect_no_room(a.bytes);
    ++totals_.out_of_space;
    return;
  }
  expect_answer(a, answer, Answer::kOk);
  if (answer != Answer::kOk) return;
  const arena::Extent extent{.segment = c.segment, .offset = c.offset, .bytes = c.extent_bytes};
  expect(c.segment < kSegments.size() && arena::inside(extent, kSegments[c.segment]),
         "an extent outside the arena");
  expect(extent.bytes == bytes, "{} bytes asked, {} granted", a.bytes, extent.bytes);
  if (!failure_.empty()) return;
  held_.push_back({.reservation = c.reservation,
                   .client = a.client,
                   .slot = c.slot,
                   .key = a.key,
                   .spec = a.spec,
                   .deadline = std::max(a.write_deadline, now_ + kNsPerMs),
                   .extent = extent,
                   .stamp = ++last_stamp_});
  stamp(extent, last_stamp_);
}

void World::judge_publish(const Asked& a, Answer answer,
                          const std::map<std::uint32_t, Object>& before) {
  const auto mine = std::ranges::find_if(
      held_, [&](const Held& h) { return h.reservation == a.reservation && h.client == a.client; });
  if (mine == held_.end()) return expect_answer(a, answer, Answer::kUnknownReservation);
  if (a.bytes > mine->extent.bytes) return expect_answer(a, answer, Answer::kMalformed);
  const Held held = *mine;
  const std::uint32_t key = held.key.value_or(a.key.value_or(kKeys));
  auto lost = same_key_answer(key, a, before);
  if (held.key && !held.expired) lost.reset();
  if (!lost && held.expired) lost = Answer::kExpired;
  held_.erase(mine);
  if (lost) {
    expect_answer(a, answer, *lost);
    count(answer);
    return;
  }
  expect_answer(a, answer, Answer::kOk);
  if (!held.key) {
    for (Held& rival : held_) {
      if (rival.key == key && !rival.expired) rival.expired = true, ++totals_.expired;
    }
  }
  ++totals_.published;
  Object object{.spec = a.spec,
                .content = a.content,
                .pin = a.pin,
                .bytes = a.bytes,
                .extent = held.extent,
                .stamp = held.stamp};
  object.extent.bytes = align_up(align_up(a.bytes, 64), kPageBytes);
  bool found = false;
  for (std::uint32_t slot = 0; slot < control_.index_slots(); ++slot) {
    const SlotWord word = control_.slot(slot).load();
    if (word.state != SlotState::kPublished || extent_in(slot) != object.extent) continue;
    object.slot = slot;
    object.generation = word.generation;
    found = true;
  }
  expect(found, "key {} was published and stands in no slot", key);
  objects_[key] = object;
}

void World::expect_answer(const Asked& a, Answer answer, Answer right) {
  expect(answer == right, "request {} of client {} (op {}): answer {}, not {}", a.number, a.client,
         static_cast<int>(a.op), static_cast<int>(answer), static_cast<int>(right));
}

void World::expect_no_room(std::uint64_t bytes) {
  if (!one_at_a_time_) return;  // a request that was served after it may have made some
  for (const auto& [key, o] : objects_) {
    expect(o.pin == kHardPin || named(o.slot, o.generation),
           "no room is said while key {} could go", key);
  }
  const std::uint64_t pages = (bytes + kPageBytes - 1) / kPageBytes;
  for (std::uint32_t segment = 0; segment < kSegments.size(); ++segment) {
    std::vector<bool> taken(kSegments[segment] / kPageBytes);
    for (std::uint32_t slot = 0; slot < control_.all_slots(); ++slot) {
      if (is_free(control_.slot(slot).load().state)) continue;
      const arena::Extent e = extent_in(slot);
      if (e.segment != segment) continue;
      for (std::uint64_t i = 0; i < e.bytes / kPageBytes; ++i)
        taken[e.offset / kPageBytes + i] = true;
    }
    std::uint64_t run = 0;
    for (const bool t : taken) {
      run = t ? 0 : run + 1;
      expect(run < pages, "no room is said while {} pages are free in a row", run);
    }
  }
}

std::optional<Answer> World::same_key_answer(std::uint32_t key, const Asked& a,
                                             const std::map<std::uint32_t, Object>& objects) {
  const auto there = objects.find(key);
  if (there == objects.end()) return std::nullopt;
  if (there->second.spec != a.spec) return Answer::kConflict;
  if (a.op == Op::kReserve) return Answer::kDuplicate;
  const bool differs =
      there->second.content != 0 && a.content != 0 && there->second.content != a.content;
  return differs ? Answer::kDivergentDuplicate : Answer::kDuplicate;
}

void World::count(Answer answer) {
  totals_.conflicts += answer == Answer::kConflict;
  totals_.duplicates += answer == Answer::kDuplicate || answer == Answer::kDivergentDuplicate;
  totals_.divergent += answer == Answer::kDivergentDuplicate;
}

void World::retire(std::uint32_t key) {
  ++totals_.removals;
  const auto it = objects_.find(key);
  if (named(it->second.slot, it->second.generation)) retired_.push_back(it->second);
  objects_.erase(it);
}

void World::reconcile(bool may_evict) {
  bool soft_evicted = false;
  for (auto it = objects_.begin(); it != objects_.end();) {
    const Object& o = it->second;
    const SlotWord word = control_.slot(o.slot).load();
    if (word == SlotWord{SlotState::kPublished, o.generation}) {
      ++it;
      continue;
    }
    if (control_.header().counters.evictions.load() == totals_.evictions) {
      ++it;  // removed by the request that is being judged
      continue;
    }
    expect(may_evict, "key {} was evicted though nothing needed room", it->first);
    expect(o.pin != kHardPin, "key {} is pinned and was evicted", it->first);
    expect(!named(o.slot, o.generation), "key {} is leased and was evicted", it->first);
    soft_evicted |= o.pin > now_;
    ++totals_.evictions;
    it = objects_.erase(it);
  }
  for (const auto& [key, o] : objects_) {
    const bool evictable = o.pin <= now_ && !named(o.slot, o.generation) &&
                           control_.slot(o.slot).load().state == SlotState::kPublished;
    expect(!soft_evicted || !evictable, "a soft pin gave way while key {} could have", key);
  }
}

}  // namespace sluice::store::model
