// log.h: one line per event on the standard error stream, as text or as JSON.
//
// Threads: log() from any thread. Lines are never mixed.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <sluice/error.h>

#include "store/daemon.h"

namespace spdlog {
class logger;
}

namespace sluice::app {

Result<store::LogLevel> parse_log_level(std::string_view text);  // "debug", "info", ...

class Log {
 public:
  Log(const std::string& program, store::LogLevel level, bool as_json);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void operator()(store::LogLevel level, std::string_view message) const;
  void debug(std::string_view message) const { (*this)(store::LogLevel::kDebug, message); }
  void info(std::string_view message) const { (*this)(store::LogLevel::kInfo, message); }
  void warning(std::string_view message) const { (*this)(store::LogLevel::kWarning, message); }
  void error(std::string_view message) const { (*this)(store::LogLevel::kError, message); }

 private:
  std::unique_ptr<spdlog::logger> logger_;
  bool as_json_;
};

}  // namespace sluice::app
