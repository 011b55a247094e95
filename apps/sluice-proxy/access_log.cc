#include "sluice-proxy/access_log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace sluice::proxy_app {

AccessLog::AccessLog()
    : logger_(std::make_unique<spdlog::logger>("access",
                                               std::make_shared<spdlog::sinks::stdout_sink_mt>())) {
  // A line is an object that begins with the time; flushed by the service, not for every line.
  logger_->set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z",%v)");
}

AccessLog::~AccessLog() = default;

void AccessLog::write(const std::string& json) const {
  logger_->info(std::string_view(json).substr(1));
}

void AccessLog::flush() const {
  logger_->flush();
}

}  // namespace sluice::proxy_app
