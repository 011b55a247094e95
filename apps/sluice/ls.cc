// ls.cc: `sluice ls [PREFIX]`: what the arena holds.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attach.h"
#include "base/clock.h"
#include "commands.h"
#include "common/exit_code.h"
#include "common/json_view.h"
#include "common/quantity.h"

namespace sluice::cli {
namespace {

std::string pin_text(const ObjectInfo& object, Instant time) {
  if (object.hard_pinned) return "hard";
  return object.soft_pinned_until_ns > time ? "soft" : "-";
}

std::string age_text(const ObjectInfo& object, Instant time) {
  if (object.presence != Presence::kPresent || object.created_ns > time) return "-";
  return app::format_duration(std::chrono::nanoseconds(time - object.created_ns));
}

}  // namespace

int run(const Global& global, const LsCommand& command) {
  const Output out(global.look);
  const auto client = attach(global);
  if (!client) {
    out.error(client.error());
    return app::kExitError;
  }
  const std::size_t limit = command.limit == 0 ? SIZE_MAX : command.limit;
  const auto objects = list_matching(**client, command.prefix, limit);
  if (out.json()) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const ObjectInfo& object : objects) list.push_back(app::to_json(object));
    out.value({{"objects", std::move(list)}});
    return app::kExitOk;
  }
  if (!out.terminal() && !command.long_form) {  // for scripts: a key a line
    for (const ObjectInfo& object : objects) {
      if (object.presence == Presence::kPresent) out.line(printable(display_key(object.key)));
    }
    return app::kExitOk;
  }
  if (objects.empty()) {
    out.line(command.prefix.empty() ? "the arena is empty"
                                    : fmt::format("nothing starts with '{}'", command.prefix));
    return app::kExitOk;
  }
  const Instant time = now();
  Output::Table table{
      .header = {"SIZE", "AGE", "PIN", "STATE", "KEY"}, .rows = {}, .right = {true, true}};
  std::uint64_t total = 0;
  for (const ObjectInfo& object : objects) {
    total += object.object_bytes;
    table.rows.push_back({app::format_size(object.object_bytes), age_text(object, time),
                          pin_text(object, time), std::string(sluice::name(object.presence)),
                          printable(display_key(object.key))});
  }
  out.table(table);
  if (out.terminal()) {
    out.line(out.paint(fmt::format("{} objects, {}", objects.size(), app::format_size(total)),
                       Tone::kFaint));
  }
  return app::kExitOk;
}

}  // namespace sluice::cli
