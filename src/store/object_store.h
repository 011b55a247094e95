// object_store.h: what the daemon knows and does: reservations, objects, eviction, clients. No
// descriptor, thread or clock.
//
// Invariant: everything another process relies on stands in the control segment, in an order in
//            which a crash between any two stores leaves a state that this class goes on from
//            (R10). Free lists, the eviction order and the map of reservations are private and
//            rebuilt from the slots by the constructor. An extent is free when no slot names it; a
//            slot that clients may read becomes free only after two clean scans of all client pages
//            in a row.
// Threads:   the store loop only.
// Failure:   whatever a client page contains, at most that client's own requests are answered
//            `malformed`.
// Limits:    base/limits.h: requests served per turn, waiters, reservations and bytes per client.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "arena/extent.h"
#include "arena/extent_allocator.h"
#include "base/clock.h"
#include "base/limits.h"
#include "store/client_page.h"
#include "store/control.h"
#include "store/prefix_table.h"
#include "store/record_heap.h"
#include "store/request.h"
#include "store/reservation.h"
#include "store/sieve.h"

namespace sluice::store {

struct StoreOptions {
  std::uint64_t reserved_bytes_per_client = 0;  // never 0 here: the caller has resolved the default
  double high_watermark = 0.95;
  double low_watermark = 0.90;
};

class ObjectStore {
 public:
  // Goes on from whatever the slots say; an empty arena is one case of that.
  ObjectStore(ControlView control, StoreOptions options);
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  // The page stays mapped until client_gone() returned. At restart: every page that exists, before
  // anything is served.
  void add_client(std::uint32_t id, PageView page);
  // The kernel says it is dead, or its page says detached: it neither reads nor writes any more.
  void client_gone(std::uint32_t id);
  bool has_client(std::uint32_t id) const noexcept {
    return id < clients_.size() && clients_[id].page;
  }

  bool has_request(std::uint32_t id) const noexcept {
    const Client& client = clients_[id];
    return client.page &&
           client.page.submission(client.next_number).number.load(std::memory_order_seq_cst) ==
               client.next_number;
  }

  // Answers what the client has submitted, at most one ring full. Returns whether there was
  // anything.
  bool serve(std::uint32_t id, Instant now);
  // Expiries, waiting grants, retired slots, watermarks.
  void tick(Instant now);
  // Requests that were first seen after their deadline: whoever runs this was not run in time. May
  // be read by any thread.
  std::uint64_t late_requests() const noexcept {
    return late_requests_.load(std::memory_order_relaxed);
  }
  // Wakes everybody whose answer changed since the last call. Call after serve() and tick(), before
  // sleeping.
  void flush();
  // When tick() has to be called at the latest.
  Instant next_tick(Instant now) const noexcept;

  void set_draining(bool draining) noexcept;
  // Keyed ones. Extents granted ahead may lie unused in a client for as long as it lives; a drain
  // does not wait for them.
  std::uint64_t open_reservations() const noexcept { return deadlines_.size(); }

 private:
  struct Client {
    PageView page;
    std::uint64_t serial = 0;
    std::uint64_t next_number = 1;
    std::uint64_t reserved_bytes = 0;
    std::unordered_set<std::uint64_t> reservations;
    bool answered = false;
  };
  struct Waiter {
    std::uint32_t client = 0;
    Request request;
  };
  struct Reply {
    Answer answer = Answer::kOk;
    std::uint32_t slot = UINT32_MAX;  // when the answer describes a reservation
    std::uint64_t count = 0;
  };
  struct Retired {
    std::uint32_t slot = 0;
    SlotLife life;
  };
  enum class Evictable : std::uint8_t { kUnpinned, kSoftPinned };

  // --- object_store.cc: requests ---
  std::optional<Reply> handle(std::uint32_t id, const Request& request,
                              Instant now);  // nothing: it waits
  void reply(std::uint32_t id, std::uint64_t number, const Reply& reply);
  Reply pin(const Request& request);

  // --- object_store_write.cc: reservations ---
  std::optional<Reply> reserve(std::uint32_t id, const Request& request,
                               Instant now);  // keyed and keyless
  Reply publish(std::uint32_t id, const Request& request, Instant now);
  Reply publish_keyed(std::uint32_t slot, const Request& request, Instant now);
  Reply publish_grant(std::uint32_t slot, const Request& request, Instant now);
  Reply lost_to(std::uint32_t winner, std::uint32_t loser, const Request& request);
  Reply abandon(std::uint32_t id, const Request& request);
  bool fits_extent(const Request& request, std::uint64_t extent_bytes) const noexcept;
  bool make_record(std::uint32_t slot, const Request& request);
  void fill_record(std::uint32_t slot, const Request& request, Instant now);
  void count_published(std::uint32_t slot);
  std::optional<std::uint32_t> find(std::string_view prefix, std::string_view id,
                                    SlotState state) const;
  std::optional<std::uint32_t> free_index_slot(const Hash128& hash) const;
  void make_room_for_one(std::size_t id_bytes, Instant now);
  std::uint64_t reservation_number(std::uint32_t id, std::uint64_t request_number) const noexcept;

  // --- object_store_reclaim.cc: giving back ---
  bool apply(std::uint32_t slot,
             SlotEvent event);  // stores the next state and carries out the effects
  void release_slot(std::uint32_t slot, SlotState next);
  void forget_reservation(std::uint32_t slot);
  void sweep_tombstones(std::uint32_t from);
  void retire(std::uint32_t slot, SlotEvent why);
  void scan_retired();
  void mark_leased();
  std::uint64_t evict(std::uint64_t bytes, Evictable which, Instant now);
  std::optional<arena::Extent> allocate(std::uint64_t bytes, Instant now);
  bool take_visited(std::uint32_t slot) noexcept;
  Reply remove(const Request& request);
  Reply invalidate(const Request& request);

  // --- object_store_restart.cc ---
  void rebuild();
  bool adopt_slot(std::uint32_t slot);

  arena::Extent extent_of(std::uint32_t slot) const noexcept;
  ControlCounters& counters() noexcept { return control_.header().counters; }
  ControlCounters::Kind* kind_counters(std::uint32_t slot) noexcept;
  void changed(const Hash128& hash) noexcept { changed_bits_ |= 1u << (hash.low % 32); }

  ControlView control_;
  StoreOptions options_;
  arena::ExtentAllocator extents_;
  RecordHeap records_;
  PrefixTable prefixes_;
  Sieve order_;
  std::vector<Client> clients_;
  std::unordered_map<std::uint64_t, std::uint32_t>
      reservations_;  // number -> slot, reserved or expired
  std::unordered_map<std::uint64_t, std::uint32_t>
      published_before_;  // the same for publishes of an earlier daemon
  std::set<std::pair<Instant, std::uint32_t>> deadlines_;
  std::vector<std::uint32_t> free_grants_;
  std::vector<Retired> retired_;
  std::vector<std::uint32_t> leased_;  // per slot, the scan that last saw a lease on it
  std::uint32_t scan_ = 0;
  std::deque<Waiter> waiters_;
  static constexpr std::uint32_t kAllKeys = UINT32_MAX;
  std::uint32_t changed_bits_ = 0;
  Instant next_eviction_ = 0;
  std::atomic<std::uint64_t> late_requests_{0};
  bool draining_ = false;
};

}  // namespace sluice::store
