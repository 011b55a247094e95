// log.h: one line per event on the standard error stream, as text or as JSON.
//
// Threads: any, and none of them waits for the stream (line_stream.h). Lines are never mixed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sluice/error.h>

#include "common/line_stream.h"
#include "store/daemon.h"

namespace sluice::app {

Result<store::LogLevel> parse_log_level(std::string_view text);  // "debug", "info", ...

class Log {
 public:
  Log(const std::string& program, store::LogLevel level, bool as_json);

  void operator()(store::LogLevel level, std::string_view message) const;
  void debug(std::string_view message) const { (*this)(store::LogLevel::kDebug, message); }
  void info(std::string_view message) const { (*this)(store::LogLevel::kInfo, message); }
  void warning(std::string_view message) const { (*this)(store::LogLevel::kWarning, message); }
  void error(std::string_view message) const { (*this)(store::LogLevel::kError, message); }
  std::uint64_t lines_lost() const noexcept { return stream_.lost(); }

 private:
  std::string shown(std::string_view message) const;

  bool as_json_;
  LineStream stream_;  // last: its thread asks for shown()
};

}  // namespace sluice::app
