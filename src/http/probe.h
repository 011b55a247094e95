// probe.h: one blocking GET with a deadline, for health checks of programs on this machine.
//
// Threads: any; blocks the caller until the answer or the deadline.
// Failure: kUnavailable when nothing listens there, kTimedOut at the deadline, kIo otherwise.
//          Bodies over 1 MiB are refused.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <sluice/error.h>

namespace sluice::http {

struct ProbeOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::string target = "/";
  std::chrono::milliseconds timeout{1000};
};

struct ProbeAnswer {
  unsigned status = 0;
  std::string body;
};

Result<ProbeAnswer> probe(const ProbeOptions& options);

}  // namespace sluice::http
