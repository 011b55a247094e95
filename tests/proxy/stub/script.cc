#include "script.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace sluice::stub {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<std::string_view, Script::Do>, 10> kDoings{{
    {"answer", Script::Do::kAnswer},
    {"stall", Script::Do::kStall},
    {"close", Script::Do::kClose},
    {"half", Script::Do::kHalf},
    {"reset", Script::Do::kReset},
    {"status", Script::Do::kStatus},
    {"garbage", Script::Do::kGarbage},
    {"no_done", Script::Do::kNoDone},
    {"error_event", Script::Do::kErrorEvent},
    {"raw", Script::Do::kRaw},
}};

constexpr std::array<std::pair<std::string_view, std::uint64_t Script::*>, 8> kNumbers{{
    {"events", &Script::events},
    {"interval_ms", &Script::interval_ms},
    {"delay_ms", &Script::delay_ms},
    {"linger_ms", &Script::linger_ms},
    {"code", &Script::code},
    {"event_bytes", &Script::event_bytes},
    {"split", &Script::split},
    {"times", &Script::times},
}};

constexpr std::array<std::pair<std::string_view, std::string Script::*>, 5> kTexts{{
    {"path", &Script::path},
    {"state", &Script::state},
    {"reason", &Script::reason},
    {"body", &Script::body},
    {"headers", &Script::headers},
}};

template <class Table>
auto* find(const Table& table, std::string_view name) {
  const auto found = std::ranges::find(table, name, [](const auto& entry) { return entry.first; });
  return found == table.end() ? nullptr : &*found;
}

Status set_field(Script& script, const std::string& name, const Json& value) {
  const auto wrong = [&] {
    return fail(Code::kInvalidArgument, fmt::format("script: {}: {}", name, value.dump()));
  };
  if (const auto* number = find(kNumbers, name)) {
    if (!value.is_number_unsigned()) return wrong();
    script.*(number->second) = value.get<std::uint64_t>();
  } else if (const auto* text = find(kTexts, name)) {
    if (!value.is_string()) return wrong();
    script.*(text->second) = value.get<std::string>();
  } else if (name == "do") {
    const auto* doing = value.is_string() ? find(kDoings, value.get<std::string>()) : nullptr;
    if (doing == nullptr) return wrong();
    script.what = doing->second;
  } else if (name == "after_events") {
    if (!value.is_number_unsigned()) return wrong();
    script.after_events = value.get<std::uint64_t>();
  } else if (name == "chunks") {
    if (!value.is_array()) return wrong();
    for (const Json& chunk : value) {
      if (!chunk.is_string()) return wrong();
      script.chunks.push_back(chunk.get<std::string>());
    }
  } else {
    return wrong();
  }
  return {};
}

Result<Script> script_of(const Json& json) {
  if (!json.is_object()) return fail(Code::kInvalidArgument, "script: not an object");
  Script script;
  for (const auto& [name, value] : json.items()) {
    if (auto done = set_field(script, name, value); !done) return std::unexpected(done.error());
  }
  return script;
}

}  // namespace

Result<Script> script_from_json(std::string_view text) {
  return script_of(Json::parse(text, nullptr, false));
}

Status Playbook::update(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return fail(Code::kInvalidArgument, "not a JSON object");
  Playbook changed = json.value("clear", false) ? Playbook{} : *this;
  for (const auto& [name, value] : json.items()) {
    if (name == "health" && value.is_number_unsigned()) {
      changed.health_ = value.get<std::uint64_t>();
    } else if (name == "default") {
      auto script = script_of(value);
      if (!script) return std::unexpected(script.error());
      changed.default_ = std::move(*script);
    } else if (name == "next" && value.is_array()) {
      for (const Json& entry : value) {
        auto script = script_of(entry);
        if (!script) return std::unexpected(script.error());
        changed.next_.push_back(std::move(*script));
      }
    } else if (name != "clear") {
      return fail(Code::kInvalidArgument, fmt::format("unknown or wrong: {}", name));
    }
  }
  *this = std::move(changed);
  return {};
}

Script Playbook::take(std::string_view path) {
  const auto fits = [&](const Script& script) {
    return script.path.empty() || script.path == path;
  };
  const auto found = std::ranges::find_if(next_, fits);
  if (found == next_.end()) return default_;
  if (found->times > 1) {
    --found->times;
    return *found;
  }
  Script script = std::move(*found);
  next_.erase(found);
  return script;
}

}  // namespace sluice::stub
