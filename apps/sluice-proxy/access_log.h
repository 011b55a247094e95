// access_log.h: one JSON object for each request, on the standard output stream.
//
// Threads: any. Lines are never mixed, and never hold a token or a body.
#pragma once

#include <memory>
#include <string>

namespace spdlog {
class logger;
}

namespace sluice::proxy_app {

class AccessLog {
 public:
  AccessLog();
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  void write(const std::string& json) const;  // an object; its time is put before its members
  void flush() const;                         // lines are kept back until then

 private:
  std::unique_ptr<spdlog::logger> logger_;
};

}  // namespace sluice::proxy_app
