// limits.h: everything has a limit, and all of them are here.
//
// A limit that a user may change has a setting in apps/sluiced; these are then its default or its
// ceiling.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

inline constexpr std::size_t kKeyBytesMax = 1024;         // a formatted object key
inline constexpr std::size_t kAttributesBytesMax = 4096;  // encoded attributes of one object
inline constexpr std::size_t kTensorsPerObjectMax = 64;   // tensors in one feature bundle
inline constexpr int kDimsMax = 8;
inline constexpr std::size_t kChunkBytes = 256 * 1024;  // unit of checksums and of ranged reads

inline constexpr std::size_t kPageBytes = 4096;          // unit of extents
inline constexpr std::uint32_t kSegmentsMax = 64;        // data segments of one arena
inline constexpr std::uint32_t kProbeMax = 256;          // slots a look-up may touch
inline constexpr std::uint32_t kObjectsMax = 16u << 20;  // ceiling of the index
inline constexpr std::uint32_t kPrefixesMax = 1024;      // interned key prefixes

inline constexpr std::size_t kKindsMax = 8;        // kinds of objects with counters of their own
inline constexpr std::uint32_t kClientsMax = 256;  // attached processes
inline constexpr std::uint32_t kLeasesPerClient = 8192;  // views one process may hold at a time
inline constexpr std::uint32_t kRingEntries = 64;        // requests one process may have in flight
inline constexpr std::uint32_t kReservationsPerClient = 1024;
inline constexpr std::uint32_t kWaitersMax = 1024;        // grants waiting for space in the daemon
inline constexpr std::uint32_t kWaitKeysMax = 4096;       // keys in one wait()
inline constexpr std::size_t kBoardBytesMax = 60 * 1024;  // what one process posts for its peers
inline constexpr std::uint64_t kAttachRetryNs = 5'000'000;  // between two tries to reach a daemon
inline constexpr std::uint64_t kRequestTimeoutMsMax = 10ull * 60 * 1000;

}  // namespace sluice
