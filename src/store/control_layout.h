// control_layout.h: the control segment: one file that the daemon writes and every client maps
// read-only.
//
//   header | segment table | client table | key prefixes | index slots | grant slots | record heap
//
// Invariant: sizes and offsets are fixed when the file is created and validated whenever it is
//            opened; nothing in it is a pointer. It outlives the daemon: a new one goes on from
//            what stands here.
// Threads:   the daemon's store loop writes; any thread of any process reads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sluice/version.h>

#include "base/limits.h"
#include "store/prefix_table.h"
#include "store/slot.h"

namespace sluice::store {

inline constexpr std::uint64_t kControlMagic = 0x4C52544E4F435331;  // "1SCONTRL"
inline constexpr std::uint32_t kGrantSlots = 8192;  // keyless reservations of all clients
inline constexpr std::size_t kGranuleBytes = 64;

// Counters that the daemon raises; readers see each one whole.
struct ControlCounters {
  std::atomic<std::uint64_t> arena_bytes, used_bytes, reserved_bytes, objects, clients;
  std::atomic<std::uint64_t> published, duplicates, divergent_duplicates, conflicts;
  std::atomic<std::uint64_t> evictions, removals, expired, abandoned, out_of_space,
      reclaimed_of_dead, refused;
  std::atomic<std::uint64_t> record_bytes;
  struct Kind {
    std::atomic<std::uint64_t> objects, object_bytes, puts, duplicates, evictions, removals;
  };
  std::array<Kind, kKindsMax> kinds;
};

struct ControlHeader {
  std::atomic<std::uint64_t> magic;  // stored last at creation
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t boot;  // identity of this arena's contents
  std::uint64_t control_bytes;
  std::uint64_t arena_bytes;
  std::uint32_t segment_count;
  std::uint32_t objects_max;
  std::uint32_t index_slots;  // kProbeMax more than the range of home()
  std::uint32_t grant_slots;
  std::uint32_t record_granules;
  std::uint32_t reserved;
  std::uint64_t clients_offset, prefixes_offset, slots_offset, records_offset;

  alignas(64) std::atomic<std::uint64_t> epoch;  // starts of a daemon on this arena
  std::atomic<std::int64_t> daemon_pid;
  std::atomic<std::uint64_t> next_client_serial;
  std::atomic<std::uint32_t> draining;
  std::atomic<std::uint32_t> high_watermark_percent;
  // Changes with every publish, abort, expiry and death: what wait() sleeps on.
  alignas(64) std::atomic<std::uint32_t> changes;
  // 1 while the store loop is about to sleep: whoever submits then rings the doorbell.
  alignas(64) std::atomic<std::uint32_t> doorbell_needed;

  alignas(64) ControlCounters counters;
  alignas(64) std::array<std::uint64_t, kSegmentsMax> segment_bytes;
};
static_assert(sizeof(ControlHeader) <= kPageBytes);
static_assert(std::is_standard_layout_v<ControlHeader>);

enum class ClientState : std::uint32_t { kFree = 0, kAttached = 1 };

// Written by the daemon at attach, from what the kernel says about the peer.
struct alignas(64) ClientEntry {
  std::atomic<std::uint32_t> state;
  std::uint32_t reserved;
  std::atomic<std::uint64_t> serial;  // never repeated in this arena
  std::atomic<std::int64_t> pid;
  std::atomic<std::uint64_t>
      start_time;  // of the process, clock ticks since boot: tells a recycled pid apart
  std::atomic<std::uint64_t> reserved_bytes;
  std::atomic<std::uint64_t> leases;  // as of the daemon's last look
};
static_assert(sizeof(ClientEntry) == 64);

// Follows the slot of an object: written by the daemon before publish (the key already at reserve),
// read under a lease.
struct Record {
  std::uint32_t prefix;    // number in the prefix table
  std::uint16_t id_bytes;  // of the escaped id that follows this struct
  std::uint8_t kind;
  std::uint8_t flags;             // kHasChecksums
  std::uint64_t object_bytes;     // the bundle
  std::uint32_t attribute_bytes;  // encoded attributes, at align64(object_bytes)
  std::uint32_t meta_bytes;       // attributes, padding and digests
  std::uint64_t meta_digest;      // XXH3-64 of those meta_bytes
  std::uint64_t spec_digest;      // names, dtypes, shapes, attributes
  std::uint64_t content_digest;   // XXH3-64 of the chunk digests; 0 without checksums
  std::uint64_t created_ns;
};
static_assert(sizeof(Record) == 56 && std::is_trivially_copyable_v<Record>);
inline constexpr std::uint8_t kHasChecksums = 1;

constexpr std::uint32_t record_granules_for(std::size_t id_bytes) noexcept {
  return static_cast<std::uint32_t>((sizeof(Record) + id_bytes + kGranuleBytes - 1) /
                                    kGranuleBytes);
}

}  // namespace sluice::store
