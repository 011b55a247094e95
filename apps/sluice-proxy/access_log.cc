#include "sluice-proxy/access_log.h"

#include <string_view>

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <unistd.h>

namespace sluice::proxy_app {

// A line is an object that begins with the time.
AccessLog::AccessLog()
    : stream_(STDOUT_FILENO, "access", R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z",%v)",
              [](std::uint64_t count) { return fmt::format(R"("lines_lost":{}}})", count); }) {}

void AccessLog::write(const std::string& json) const {
  stream_.logger().info(std::string_view(json).substr(1));
}

void AccessLog::flush() const {
  stream_.flush();
}

}  // namespace sluice::proxy_app
