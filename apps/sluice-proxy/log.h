// log.h: what sluice-proxy says: lines for the operator on the standard error stream, one JSON
// object per request on the standard output stream.
//
// Threads: any. Lines are never mixed. Neither ever holds a token or a body.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/daemon.h"

namespace spdlog {
class logger;
}

namespace sluice::proxy_app {

class Log {
 public:
  Log(store::LogLevel level, bool as_json);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void info(std::string_view message) const { write(store::LogLevel::kInfo, message); }
  void warning(std::string_view message) const { write(store::LogLevel::kWarning, message); }
  void error(std::string_view message) const { write(store::LogLevel::kError, message); }
  void access(const std::string& json) const;
  void flush() const;

 private:
  void write(store::LogLevel level, std::string_view message) const;

  std::unique_ptr<spdlog::logger> operator_;
  std::unique_ptr<spdlog::logger> access_;
  bool as_json_;
};

}  // namespace sluice::proxy_app
