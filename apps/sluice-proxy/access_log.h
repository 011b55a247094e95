// access_log.h: one JSON object for each request, on the standard output stream.
//
// Threads: any, and none of them waits for the stream (line_stream.h). Lines are never mixed, and
//          never hold a token or a body.
#pragma once

#include <cstdint>
#include <string>

#include "common/line_stream.h"

namespace sluice::proxy_app {

class AccessLog {
 public:
  AccessLog();

  void write(const std::string& json) const;  // an object; its time is put before its members
  void flush() const;                         // lines are kept back until then
  std::uint64_t lines_lost() const noexcept { return stream_.lost(); }

 private:
  app::LineStream stream_;
};

}  // namespace sluice::proxy_app
