#include "common/log.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/logger.h>
#include <unistd.h>

#include "common/json_view.h"

namespace sluice::app {
namespace {

constexpr const char* kTextPattern = "%Y-%m-%dT%H:%M:%S.%e%z %-7l %v";
constexpr const char* kJsonPattern =
    R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","program":"%n","pid":%P,"message":%v})";

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

// A message is one line whatever it holds: text that came from a peer cannot forge a second one.
std::string one_line(std::string_view message) {
  std::string out(message);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return out;
}

}  // namespace

Result<store::LogLevel> parse_log_level(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, store::LogLevel>, 4> kLevels = {
      {{"debug", store::LogLevel::kDebug},
       {"info", store::LogLevel::kInfo},
       {"warning", store::LogLevel::kWarning},
       {"error", store::LogLevel::kError}}};
  for (const auto& [name, level] : kLevels) {
    if (name == text) return level;
  }
  return fail(Code::kInvalidArgument,
              fmt::format("'{}' is not a log level: debug, info, warning or error", text));
}

Log::Log(const std::string& program, store::LogLevel level, bool as_json)
    : as_json_(as_json),
      stream_(STDERR_FILENO, program, as_json ? kJsonPattern : kTextPattern, [this](auto count) {
        return shown(fmt::format("{} lines of this log are lost: it was not read in time", count));
      }) {
  stream_.logger().set_level(level_of(level));
  stream_.logger().flush_on(spdlog::level::debug);
}

void Log::operator()(store::LogLevel level, std::string_view message) const {
  stream_.logger().log(level_of(level), shown(message));
}

std::string Log::shown(std::string_view message) const {
  return as_json_ ? app::dump(nlohmann::ordered_json(message)) : one_line(message);
}

}  // namespace sluice::app
