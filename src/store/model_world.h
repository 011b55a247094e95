// model_world.h: ObjectStore on an arena of its own, beside the naive model of what it must do.
// Tests only; store_model.h drives it.
//
// Invariant: after every step each answer, counter, slot and byte is what the model says.
// Owner:     the memory of one arena: a control segment, the pages of four clients, the data.
// Failure:   the first difference is kept as text and returned by step(). Threads: one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "store/object_store.h"
#include "store/store_model.h"

namespace sluice::store::model {

inline constexpr std::uint32_t kClients = 4;
inline constexpr std::uint32_t kHostile = 3;
inline constexpr std::uint32_t kKeys = 9;
inline constexpr std::uint32_t kObjects = 6;
inline constexpr std::uint32_t kLeases = 6;  // of one client
inline constexpr std::array<std::uint64_t, 2> kSegments{12 * kPageBytes, 5 * kPageBytes};
inline constexpr std::uint64_t kReservedMax = 10 * kPageBytes;

struct PageAligned {
  void operator()(std::byte* p) const noexcept {
    ::operator delete[](p, std::align_val_t{kPageBytes});
  }
};
using Memory = std::unique_ptr<std::byte[], PageAligned>;

std::string key_text(std::uint32_t key);
std::size_t id_at_of(const std::string& text);

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
  explicit World(Fault fault);

  // The first thing that is not as it must be, or nothing.
  std::optional<std::string> step(const ModelOp& op);

 private:
  template <class... Args>
  void expect(bool condition, fmt::format_string<Args...> text, Args&&... args) {
    if (!condition && failure_.empty()) failure_ = fmt::format(text, std::forward<Args>(args)...);
  }

  // --- the arena's memory: model_world.cc ---

  // Eight a page stand for all of its bytes.
  std::span<std::uint64_t> words(const arena::Extent& e);
  void stamp(const arena::Extent& e, std::uint64_t value) { std::ranges::fill(words(e), value); }
  bool stamped(const arena::Extent& e, std::uint64_t value);
  PageView page(std::uint32_t c) const { return {pages_[c].get(), control_.index_slots()}; }
  arena::Extent extent_in(std::uint32_t slot) const;

  // --- processes and time: model_world.cc ---

  void make_store();
  void attach(std::uint32_t c);
  void forget(std::uint32_t c);
  void die(std::uint32_t c);
  // A new daemon on the same memory; those whose bit is set died meanwhile.
  void restart(std::uint32_t died);
  void tick();

  // --- what clients do: model_requests.cc ---

  void ask(Asked a, const ModelOp& op);
  void ask_for_space(std::uint32_t client, const ModelOp& op);
  void ask_publish(std::uint32_t client, const ModelOp& op);
  void ask_abandon(std::uint32_t client, const ModelOp& op);
  void ask_pin(std::uint32_t client, const ModelOp& op);
  // What a correct reader does, step by step.
  void acquire(std::uint32_t client, std::uint32_t key);
  void release(std::uint32_t which);
  // Anything at all in a page of which the daemon believes nothing. It asks for nothing that it
  // could get.
  void garbage(const ModelOp& op);

  // --- what must have been answered: model_judge.cc ---

  // `before`: the objects there were when the request was served; evictions may have come between.
  void judge(const Asked& a, const std::map<std::uint32_t, Object>& before);
  void judge_space(const Asked& a, const Completion& c, Answer answer,
                   const std::map<std::uint32_t, Object>& before);
  void judge_publish(const Asked& a, Answer answer, const std::map<std::uint32_t, Object>& before);
  void expect_answer(const Asked& a, Answer answer, Answer right);
  // All that could be evicted has been, and still nothing large enough is free.
  void expect_no_room(std::uint64_t bytes);
  std::optional<Answer> same_key_answer(std::uint32_t key, const Asked& a,
                                        const std::map<std::uint32_t, Object>& objects);
  void count(Answer answer);
  void retire(std::uint32_t key);
  // Finds out what was evicted, and whether it might be.
  void reconcile(bool may_evict);

  // --- what must stand in the arena: model_compare.cc ---

  // Every slot, counter and byte.
  void compare();
  bool named(std::uint32_t slot, std::uint32_t generation) const;
  bool is_pending(std::uint32_t key) const;
  // A lease word of the hostile client may come between an eviction's scan and its retirement.
  bool evicted_under_lease(std::uint32_t slot) const;

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

}  // namespace sluice::store::model
