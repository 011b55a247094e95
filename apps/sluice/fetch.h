// fetch.h: GETs to several servers at the same time, for a screen that must not wait for each in
// turn.
//
// Threads: any; blocks the caller until all have answered, at most until the deadline.
// Failure: by answer: kUnavailable when nothing listens there, kTimedOut at the deadline,
//          kPermission for 401 and 403, kLimit beyond `bytes_max`, kIo for any other status and
//          broken answers, kInvalidArgument for an address that is none. Never all for one.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <sluice/error.h>

namespace sluice::cli {

struct FetchTarget {
  std::string address;  // http://127.0.0.1:8000
  std::string path;     // /metrics
  std::string token;    // said as a bearer token; empty: none
};

struct FetchLimits {
  std::chrono::milliseconds timeout{1000};
  std::size_t bytes_max = 8u << 20;
};

// The bodies of answers with status 200, in the order of the targets.
std::vector<Result<std::string>> fetch_all(std::span<const FetchTarget> targets,
                                           const FetchLimits& limits);

// Whether this is an address that fetch_all() can ask.
Status check_address(const std::string& address);

}  // namespace sluice::cli
