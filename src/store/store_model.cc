#include "store/store_model.h"

#include <algorithm>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "base/check.h"
#include "base/checked.h"
#include "store/probe.h"

namespace sluice::store {
namespace {

constexpr std::uint32_t kClients = 4;
constexpr std::uint32_t kHostile = 3;
constexpr std::uint32_t kKeys = 9;
constexpr std::uint32_t kObjects = 6;
constexpr std::uint32_t kLeases = 6;  // of one client
constexpr std::array<std::uint64_t, 2> kSegments{12 * kPageBytes, 5 * kPageBytes};
constexpr std::uint64_t kReservedMax = 10 * kPageBytes;

struct PageAligned {
  void operator()(std::byte* p) const noexcept {
    ::operator delete[](p, std::align_val_t{kPageBytes});
  }
};
using Memory = std::unique_ptr<std::byte[], PageAligned>;

Memory zeroed(std::uint64_t bytes) {
  auto* p = static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kPageBytes}));
  std::memset(p, 0, bytes);
  return Memory(p);
}

std::string key_text(std::uint32_t key) {
  // Some ids need more than one granule more.
  return fmt::format("configuration:{}@id:{}{}", key % 3, key,
                     std::string(key % 4 == 0 ? 150 : 0, 'x'));
}
std::size_t id_at_of(const std::string& text) {
  return text.find("@id:") + 4;
}

struct Held {
  std::uint64_t reservation = 0;
  std::uint32_t client = 0;
  std::uint32_t slot = 0;
  std::optional<std::uint32_t> key;  // of a keyed one
  std::uint64_t spec = 0;
  Instant deadline = 0;
  bool expired = false;
  arena::Extent extent;
  std::uint64_t stamp = 0;
};

struct Object {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::uint64_t spec = 0;
  std::uint64_t content = 0;
  std::uint64_t pin = 0;
  std::uint64_t bytes = 0;
  arena::Extent extent;
  std::uint64_t stamp = 0;
};

struct Standing {  // a lease
  std::uint32_t client = 0;
  std::uint32_t index = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  arena::Extent extent;
  std::uint64_t stamp = 0;
};

struct Asked {
  std::uint32_t client = 0;
  std::uint64_t number = 0;
  Op op = Op::kNone;
  std::optional<std::uint32_t> key;
  std::uint64_t bytes = 0;  // of the extent, or the object
  Instant deadline = 0;
  Instant write_deadline = 0;
  std::uint64_t reservation = 0;
  std::uint64_t spec = 0;
  std::uint64_t content = 0;
  std::uint64_t pin = 0;
};

struct Totals {
  std::uint64_t published = 0, duplicates = 0, divergent = 0, conflicts = 0, evictions = 0,
                removals = 0, expired = 0, abandoned = 0, out_of_space = 0, of_dead = 0;
};

class World {
 public:
  explicit World(Fault fault) : fault_(fault) {
    const ControlShape shape{.objects_max = kObjects, .segment_bytes = kSegments};
    control_memory_ = zeroed(ControlView::bytes_for(shape));
    control_ =
        ControlView::create({control_memory_.get(), ControlView::bytes_for(shape)}, shape, 42);
    data_.resize(kSegments.size());
    for (std::size_t i = 0; i < kSegments.size(); ++i)
      data_[i].resize(kSegments[i] / kPageBytes * 8);
    make_store();
    for (std::uint32_t c = 0; c < kClients; ++c) attach(c);
  }

  std::optional<std::string> step(const ModelOp& op) {
    const std::uint32_t client = op.client % kHostile;
    if (!alive_[client] && op.kind != OpKind::kDie) attach(client);
    switch (op.kind) {
      case OpKind::kGrant:
      case OpKind::kReserve:
        ask_for_space(client, op);
        break;
      case OpKind::kPublish:
        ask_publish(client, op);
        break;
      case OpKind::kAbandon:
        ask_abandon(client, op);
        break;
      case OpKind::kRemove:
        ask({.client = client, .op = Op::kRemove, .key = op.a % kKeys}, op);
        break;
      case OpKind::kInvalidate:
        ask({.client = client, .op = Op::kInvalidate, .bytes = op.a % 4}, op);
        break;
      case OpKind::kPin:
        ask_pin(client, op);
        break;
      case OpKind::kAcquire:
        acquire(client, op.a % kKeys);
        break;
      case OpKind::kRelease:
        release(op.a);
        break;
      case OpKind::kPassTime:
        now_ += op.a % 40 * kNsPerMs;
        break;
      case OpKind::kDie:
        alive_[client] ? die(client) : attach(client);
        break;
      case OpKind::kRestart:
        restart(op.a);
        break;
      case OpKind::kGarbage:
        garbage(op);
        break;
    }
    tick();
    compare();
    if (failure_.empty()) return std::nullopt;
    return failure_;
  }

 private:
  template <class... Args>
  void expect(bool condition, fmt::format_string<Args...> text, Args&&... args) {
    if (!condition && failure_.empty()) failure_ = fmt::format(text, std::forward<Args>(args)...);
  }

  // --- the arena's memory ---

  std::span<std::uint64_t> words(
      const arena::Extent& e) {  // eight a page stand for all of its bytes
    return std::span(data_[e.segment]).subspan(e.offset / kPageBytes * 8, e.bytes / kPageBytes * 8);
  }
  void stamp(const arena::Extent& e, std::uint64_t value) { std::ranges::fill(words(e), value); }
  bool stamped(const arena::Extent& e, std::uint64_t value) {
    return std::ranges::all_of(words(e), [value](std::uint64_t w) { return w == value; });
  }
  PageView page(std::uint32_t c) const { return {pages_[c].get(), control_.index_slots()}; }

  arena::Extent extent_in(std::uint32_t slot) const {
    const Slot& s = control_.slot(slot);
    return arena::unpack_extent(
        s.extent.load(),
        std::uint64_t{unpack_extent_info(s.extent_info.load()).pages} * kPageBytes);
  }

  // --- processes ---

  void make_store() {
    store_ = std::make_unique<ObjectStore>(control_,
                                           StoreOptions{.reserved_bytes_per_client = kReservedMax,
                                                        .high_watermark = 0.95,
                                                        .low_watermark = 0.7});
  }

  void attach(std::uint32_t c) {
    pages_[c] = zeroed(page_layout(control_.index_slots()).bytes);
    new (pages_[c].get()) PageHeader{};
    ClientEntry& entry = control_.client(c);
    entry.serial.store(control_.header().next_client_serial.fetch_add(1));
    entry.state.store(static_cast<std::uint32_t>(ClientState::kAttached));
    store_->add_client(c, page(c));
    alive_[c] = true;
    number_[c] = 0;
  }

  void forget(std::uint32_t c) {
    alive_[c] = false;
    totals_.of_dead += std::erase_if(held_, [c](const Held& h) { return h.client == c; });
    std::erase_if(leases_, [c](const Standing& l) { return l.client == c; });
    std::erase_if(waiting_, [c](const Asked& a) { return a.client == c; });
  }

  void die(std::uint32_t c) {
    forget(c);
    store_->client_gone(c);
  }

  // A new daemon on the same memory; those whose bit is set died meanwhile.
  void restart(std::uint32_t died) {
    make_store();
    for (std::uint32_t c = 0; c < kClients; ++c) {
      if (alive_[c] && (died >> c & 1) == 0) store_->add_client(c, page(c));
    }
    for (std::uint32_t c = 0; c < kClients; ++c) {
      if (!alive_[c] || (died >> c & 1) == 0) continue;
      forget(c);
      store_->client_gone(c);
      if (c == kHostile) attach(c);
    }
    // What waited for space stands in the rings still, and is served again in their order.
    std::deque<Asked> again = std::exchange(waiting_, {});
    std::ranges::stable_sort(again, {},
                             [](const Asked& a) { return std::pair(a.client, a.number); });
    one_at_a_time_ = false;
    for (std::uint32_t c = 0; c < kClients; ++c) {
      const auto before = objects_;
      store_->serve(c, now_);
      reconcile(true);
      for (const Asked& a : again) {
        if (a.client == c) judge(a, before);
      }
    }
    one_at_a_time_ = true;
  }

  // --- requests ---

  void ask(Asked a, const ModelOp& op) {
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

  void ask_for_space(std::uint32_t client, const ModelOp& op) {
    Asked a{.client = client, .op = op.kind == OpKind::kReserve ? Op::kReserve : Op::kGrant};
    if (a.op == Op::kReserve) a.key = op.a % kKeys;
    a.bytes = op.b % 16 == 15 ? 13 * kPageBytes : 1 + op.b % (5 * kPageBytes);
    a.deadline = now_ + op.a % 3 * 20 * kNsPerMs;
    a.write_deadline = now_ + (1 + op.a % 50) * kNsPerMs;
    a.spec = 1 + op.b % 2;
    ask(a, op);
  }

  void ask_publish(std::uint32_t client, const ModelOp& op) {
    Asked a{
        .client = client, .op = Op::kPublish, .spec = 1 + op.b % 2, .content = 1 + op.b / 2 % 2};
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

  void ask_abandon(std::uint32_t client, const ModelOp& op) {
    Asked a{.client = client, .op = Op::kAbandon, .reservation = 999};
    if (!held_.empty()) a.reservation = held_[op.a % held_.size()].reservation;
    ask(a, op);
  }

  void ask_pin(std::uint32_t client, const ModelOp& op) {
    const std::array<std::uint64_t, 4> pins{0, 0, now_ + 25 * kNsPerMs, kHardPin};
    ask({.client = client, .op = Op::kPin, .key = op.a % kKeys, .pin = pins[op.b % 4]}, op);
  }

  // What a correct reader does, step by step.
  void acquire(std::uint32_t client, std::uint32_t key) {
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

  void release(std::uint32_t which) {
    if (leases_.empty()) return;
    const auto at = leases_.begin() + which % leases_.size();
    page(at->client).lease(at->index).store(0);
    leases_.erase(at);
  }

  // Anything at all in a page of which the daemon believes nothing. It asks for nothing that it
  // could get.
  void garbage(const ModelOp& op) {
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

  // --- what must have happened ---

  bool named(std::uint32_t slot, std::uint32_t generation) const {
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

  // Finds out what was evicted, and whether it might be.
  void reconcile(bool may_evict) {
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

  std::optional<Answer> same_key_answer(std::uint32_t key, const Asked& a,
                                        const std::map<std::uint32_t, Object>& objects) {
    const auto there = objects.find(key);
    if (there == objects.end()) return std::nullopt;
    if (there->second.spec != a.spec) return Answer::kConflict;
    if (a.op == Op::kReserve) return Answer::kDuplicate;
    const bool differs =
        there->second.content != 0 && a.content != 0 && there->second.content != a.content;
    return differs ? Answer::kDivergentDuplicate : Answer::kDuplicate;
  }

  void count(Answer answer) {
    totals_.conflicts += answer == Answer::kConflict;
    totals_.duplicates += answer == Answer::kDuplicate || answer == Answer::kDivergentDuplicate;
    totals_.divergent += answer == Answer::kDivergentDuplicate;
  }

  // `before`: the objects there were when the request was served; evictions may have come between.
  void judge(const Asked& a, const std::map<std::uint32_t, Object>& before) {
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

  void expect_answer(const Asked& a, Answer answer, Answer right) {
    expect(answer == right, "request {} of client {} (op {}): answer {}, not {}", a.number,
           a.client, static_cast<int>(a.op), static_cast<int>(answer), static_cast<int>(right));
  }

  bool is_pending(std::uint32_t key) const {
    return std::ranges::any_of(held_, [key](const Held& h) { return h.key == key && !h.expired; });
  }

  // All that could be evicted has been, and still nothing large enough is free.
  void expect_no_room(std::uint64_t bytes) {
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

  void judge_space(const Asked& a, const Completion& c, Answer answer,
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

  void judge_publish(const Asked& a, Answer answer, const std::map<std::uint32_t, Object>& before) {
    const auto mine = std::ranges::find_if(held_, [&](const Held& h) {
      return h.reservation == a.reservation && h.client == a.client;
    });
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

  void retire(std::uint32_t key) {
    ++totals_.removals;
    const auto it = objects_.find(key);
    if (named(it->second.slot, it->second.generation)) retired_.push_back(it->second);
    objects_.erase(it);
  }

  void tick() {
    for (Held& h : held_) {
      if (h.key && !h.expired && h.deadline <= now_) h.expired = true, ++totals_.expired;
    }
    const auto before = objects_;
    store_->tick(now_);
    store_->flush();
    reconcile(true);
    std::deque<Asked> asked = std::exchange(waiting_, {});
    for (const Asked& a : asked) judge(a, before);
    std::erase_if(retired_, [&](const Object& o) { return !named(o.slot, o.generation); });
  }

  // Every slot, counter and byte.
  void compare() {
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

  // A lease word of the hostile client may come between an eviction's scan and its retirement.
  bool evicted_under_lease(std::uint32_t slot) const {
    const SlotWord word = control_.slot(slot).load();
    return word.state == SlotState::kRetired && named(slot, word.generation);
  }

  Fault fault_;
  Memory control_memory_;
  ControlView control_;
  std::array<Memory, kClients> pages_;
  std::vector<std::vector<std::uint64_t>> data_;
  std::unique_ptr<ObjectStore> store_;

  std::array<bool, kClients> alive_{};
  std::array<std::uint64_t, kClients> number_{};
  std::vector<Held> held_;
  std::map<std::uint32_t, Object> objects_;
  std::vector<Object> retired_;
  std::vector<Standing> leases_;
  std::deque<Asked> waiting_;
  Totals totals_;
  Instant now_ = 1000 * kNsPerMs;
  std::uint64_t last_stamp_ = 0;
  bool one_at_a_time_ = true;  // the arena is looked at after every request
  std::string failure_;
};

constexpr std::array<const char*, kOpKinds> kNames{
    "kGrant",   "kReserve", "kPublish",  "kAbandon", "kRemove",  "kInvalidate", "kPin",
    "kAcquire", "kRelease", "kPassTime", "kDie",     "kRestart", "kGarbage"};

}  // namespace

std::vector<ModelOp> random_ops(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  // How often each kind comes.
  std::discrete_distribution<int> kinds{10, 8, 20, 3, 4, 1, 3, 10, 6, 4, 1, 2, 3};
  std::vector<ModelOp> ops(count);
  for (ModelOp& op : ops) {
    op = {.kind = static_cast<OpKind>(kinds(random)),
          .client = static_cast<std::uint32_t>(random()),
          .a = static_cast<std::uint32_t>(random()),
          .b = static_cast<std::uint32_t>(random())};
  }
  return ops;
}

std::string describe(const std::vector<ModelOp>& ops) {
  std::string text;
  for (const ModelOp& op : ops) {
    text +=
        fmt::format("    {{OpKind::{}, {}, {}u, {}u}},\n",
                    kNames[static_cast<std::size_t>(op.kind)], op.client % kHostile, op.a, op.b);
  }
  return text;
}

std::optional<std::string> run_ops(const std::vector<ModelOp>& ops, Fault fault) {
  World world(fault);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (auto failure = world.step(ops[i])) return fmt::format("step {}: {}", i, *failure);
  }
  return std::nullopt;
}

std::vector<ModelOp> shrink(std::vector<ModelOp> ops, Fault fault) {
  for (std::size_t chunk = std::max<std::size_t>(ops.size() / 2, 1);;
       chunk = std::max<std::size_t>(chunk / 2, 1)) {
    bool smaller = false;
    for (std::size_t at = 0; at < ops.size();) {
      std::vector<ModelOp> fewer = ops;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at),
                  fewer.begin() + static_cast<std::ptrdiff_t>(std::min(at + chunk, fewer.size())));
      if (run_ops(fewer, fault)) {
        ops = std::move(fewer);
        smaller = true;
      } else {
        at += chunk;
      }
    }
    if (chunk == 1 && !smaller) return ops;
  }
}

}  // namespace sluice::store
