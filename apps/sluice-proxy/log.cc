#include "sluice-proxy/log.h"

#include <nlohmann/json.hpp>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "common/json_view.h"

namespace sluice::proxy_app {
namespace {

spdlog::level::level_enum level_of(store::LogLevel level) {
  switch (level) {
    case store::LogLevel::kDebug:
      return spdlog::level::debug;
    case store::LogLevel::kInfo:
      return spdlog::level::info;
    case store::LogLevel::kWarning:
      return spdlog::level::warn;
    case store::LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

Log::Log(store::LogLevel level, bool as_json)
    : operator_(std::make_unique<spdlog::logger>(
          "sluice-proxy", std::make_shared<spdlog::sinks::stderr_sink_mt>())),
      access_(std::make_unique<spdlog::logger>("access",
                                               std::make_shared<spdlog::sinks::stdout_sink_mt>())),
      as_json_(as_json) {
  operator_->set_level(level_of(level));
  operator_->flush_on(spdlog::level::debug);
  operator_->set_pattern(
      as_json
          ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","program":"sluice-proxy","pid":%P,"message":%v})"
          : "%Y-%m-%dT%H:%M:%S.%e%z %-7l %v");
  // A line is an object that begins with the time; flushed by the service, not for every line.
  access_->set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z",%v)");
}

Log::~Log() = default;

void Log::access(const std::string& json) const {
  access_->info(std::string_view(json).substr(1));
}

void Log::flush() const {
  access_->flush();
}

void Log::write(store::LogLevel level, std::string_view message) const {
  if (as_json_) {
    operator_->log(level_of(level), app::dump(nlohmann::ordered_json(message)));
    return;
  }
  std::string line(message);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  operator_->log(level_of(level), line);
}

}  // namespace sluice::proxy_app
