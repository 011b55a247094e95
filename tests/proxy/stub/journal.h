// journal.h: what the stub engine has received, for tests to read.
//
// Threads: one.
// Limits:  the first kEntriesMax requests since the last clear() are kept whole; later ones are counted.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "ask.h"
#include "base/clock.h"
#include "incoming.h"

namespace sluice::stub {

struct Entry {
  Incoming request;
  std::string body;  // when it is short
  std::uint64_t body_bytes = 0;
  Ask ask;
  std::uint64_t connection = 0, nth_on_connection = 0;
  std::uint64_t events = 0;         // tokens sent
  std::string outcome = "running";  // then whole, cancelled, or what its script did
  Instant began = 0, ended = 0;
};

struct Counts {
  std::uint64_t requests = 0, in_flight = 0, in_flight_max = 0, cancelled = 0, malformed = 0;
  std::uint64_t probes = 0;  // GET /health
  std::uint64_t connections = 0, connections_open = 0, closed_idle = 0, reused = 0;
};

class Journal {
 public:
  static constexpr std::size_t kEntriesMax = 20'000;
  static constexpr std::size_t kBodyBytesMax = 64 * 1024;

  // The entry, valid until clear(); null when no more are kept.
  Entry* add(Entry entry);
  // Forgets what is over. Requests in flight must not be touched: false, and nothing is forgotten.
  bool clear();
  std::string text(std::string_view role, bool with_requests) const;

  Counts counts;

 private:
  std::deque<Entry> entries_;
};

}  // namespace sluice::stub
