#include <algorithm>
#include <random>

#include "store/model_world.h"
#include "store/probe.h"

namespace sluice::store::model {

void World::ask(Asked a, const ModelOp& op) {
  a.number = ++number_[a.client];
  // An index is used again only after its answer was read; a client waits for a place.
  const auto blocks = [&](const Asked& w) {
    return w.client == a.client && w.number + kRingEntries <= a.number;
  };
  if (std::ranges::any_of(waiting_, blocks)) {
    --number_[a.client];
    return;
  }
  Submission& s = page(a.client).submission(a.number);
  s.op = static_cast<std::uint32_t>(a.op);
  s.kind = 0;
  s.flags = 0;
  s.deadline_ns = a.deadline;
  s.reservation = a.reservation;
  s.extent_bytes = a.bytes;
  s.write_deadline_ns = a.write_deadline;
  s.object_bytes = a.bytes;
  s.attribute_bytes = s.meta_bytes = 0;
  s.meta_digest = 0;
  s.spec_digest = a.spec;
  s.content_digest = a.content;
  s.pin = a.pin;
  std::string key;
  if (a.key) key = key_text(*a.key);
  if (a.op == Op::kInvalidate)
    key = a.bytes == 3 ? "configuration:" : fmt::format("configuration:{}@", a.bytes);
  s.key_bytes = static_cast<std::uint16_t>(key.size());
  s.id_at = static_cast<std::uint16_t>(a.key ? id_at_of(key) : 0);
  std::ranges::copy(key, s.key.begin());
  s.number.store(a.number);
  if (op.b % 8 == 7) {  // the daemon dies between the submission and its answer
    waiting_.push_back(a);
    restart(0);
    return;
  }
  const auto before = objects_;
  store_->serve(a.client, now_);
  reconcile(a.op == Op::kGrant || a.op == Op::kReserve || a.op == Op::kPublish);
  judge(a, before);
}

void World::ask_for_space(std::uint32_t client, const ModelOp& op) {
  Asked a{.client = client, .op = op.kind == OpKind::kReserve ? Op::kReserve : Op::kGrant};
  if (a.op == Op::kReserve) a.key = op.a % kKeys;
  a.bytes = op.b % 16 == 15 ? 13 * kPageBytes : 1 + op.b % (5 * kPageBytes);
  a.deadline = now_ + op.a % 3 * 20 * kNsPerMs;
  a.write_deadline = now_ + (1 + op.a % 50) * kNsPerMs;
  a.spec = 1 + op.b % 2;
  ask(a, op);
}

void World::ask_publish(std::uint32_t client, const ModelOp& op) {
  Asked a{.client = client, .op = Op::kPublish, .spec = 1 + op.b % 2, .content = 1 + op.b / 2 % 2};
  std::vector<const Held*> mine;
  for (const Held& h : held_) {
    if (h.client == client || op.b % 32 == 5) mine.push_back(&h);  // sometimes somebody else's
  }
  if (mine.empty()) {
    a.reservation = 12345;
    a.key = op.a % kKeys;
    a.bytes = 64;
  } else {
    const Held& h = *mine[op.a % mine.size()];
    a.reservation = h.reservation;
    if (!h.key) a.key = op.b % kKeys;
    if (h.key) a.spec = h.spec;
    a.bytes = op.b % 32 == 9 ? h.extent.bytes + 1 : 1 + op.b % h.extent.bytes;
  }
  if (op.b % 5 == 1) a.pin = op.b % 2 == 0 ? kHardPin : now_ + 30 * kNsPerMs;
  ask(a, op);
}

void World::ask_abandon(std::uint32_t client, const ModelOp& op) {
  Asked a{.client = client, .op = Op::kAbandon, .reservation = 999};
  if (!held_.empty()) a.reservation = held_[op.a % held_.size()].reservation;
  ask(a, op);
}

void World::ask_pin(std::uint32_t client, const ModelOp& op) {
  const std::array<std::uint64_t, 4> pins{0, 0, now_ + 25 * kNsPerMs, kHardPin};
  ask({.client = client, .op = Op::kPin, .key = op.a % kKeys, .pin = pins[op.b % 4]}, op);
}

void World::acquire(std::uint32_t client, std::uint32_t key) {
  std::array<bool, kLeases> taken{};
  for (const Standing& l : leases_) {
    if (l.client == client) taken[l.index] = true;
  }
  const auto index = static_cast<std::uint32_t>(std::ranges::find(taken, false) - taken.begin());
  if (index == kLeases) return;
  page(client).header().leases_high.store(kLeases);
  const std::string text = key_text(key);
  bool found = false;
  probe(control_, hash_of(text), [&](std::uint32_t slot, SlotWord word) {
    if (word.state != SlotState::kPublished) return false;
    if (fault_ != Fault::kLeasesAreNotPublished)
      page(client).lease(index).store(lease_word(slot, word.generation));
    page(client).touched_word(slot).fetch_or(std::uint64_t{1} << slot % 64);
    const auto there = objects_.find(key);
    found = true;
    expect(there != objects_.end() && there->second.slot == slot,
           "key {} is found and should not be", key);
    if (there == objects_.end()) return true;
    leases_.push_back(
        {client, index, slot, word.generation, there->second.extent, there->second.stamp});
    return true;
  });
  expect(found == objects_.contains(key), "key {} is there and is not found", key);
}

void World::release(std::uint32_t which) {
  if (leases_.empty()) return;
  const auto at = leases_.begin() + which % leases_.size();
  page(at->client).lease(at->index).store(0);
  leases_.erase(at);
}

void World::garbage(const ModelOp& op) {
  std::mt19937_64 random(op.a);
  const PageView p = page(kHostile);
  const auto published =
      [&]() -> std::uint64_t {  // a lease that really stands, of somebody who is none
    if (objects_.empty() || random() % 2 == 0) return random();
    const Object& o =
        std::next(objects_.begin(), static_cast<std::ptrdiff_t>(random() % objects_.size()))
            ->second;
    return lease_word(o.slot, o.generation);
  };
  switch (op.b % 5) {
    case 0:
      p.header().leases_high.store(static_cast<std::uint32_t>(random()));
      for (std::uint32_t i = 0; i < 8; ++i)
        p.lease(static_cast<std::uint32_t>(random() % kLeasesPerClient)).store(published());
      break;
    case 1:
      for (std::uint32_t i = 0; i < kLeasesPerClient; ++i) p.lease(i).store(0);
      break;
    case 2:
      for (std::uint32_t slot = 0; slot < control_.index_slots(); slot += 64)
        p.touched_word(slot).store(random());
      p.header().sleepers.store(static_cast<std::uint32_t>(random()));
      p.header().answers.store(static_cast<std::uint32_t>(random()));
      break;
    case 3:
      for (std::uint32_t i = 0; i < kRingEntries; ++i)
        p.completion(i).number.store(random() % 2 == 0 ? random() : random() % 200);
      break;
    default: {
      const std::uint64_t first = random() % 2 == 0 ? random() % 200 : random();
      for (std::uint64_t n = first; n - first < kRingEntries; ++n) {
        Submission& s = p.submission(n);
        auto* bytes = reinterpret_cast<std::uint64_t*>(&s);
        for (std::size_t i = 1; i < sizeof(Submission) / 8; ++i) bytes[i] = random();
        s.op = static_cast<std::uint32_t>(random() % 9);
        s.kind = static_cast<std::uint32_t>(random() % 9);
        s.flags = static_cast<std::uint32_t>(random() % 300);
        s.key_bytes = static_cast<std::uint16_t>(random() % 1100);
        s.id_at = static_cast<std::uint16_t>(random() % 1100);
        s.extent_bytes |= std::uint64_t{1} << 40;  // more than there is
        if (!held_.empty() && random() % 2 == 0)
          s.reservation = held_[random() % held_.size()].reservation;
        if (random() % 2 == 0) std::ranges::fill(s.key, 'a');
        s.number.store(n);
      }
    }
  }
  for (int i = 0; i < 3; ++i) store_->serve(kHostile, now_);
}

}  // namespace sluice::store::model
