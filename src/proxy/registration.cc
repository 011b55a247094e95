#include "proxy/registration.h"

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace sluice::proxy {
namespace {

constexpr std::size_t kArenaBytesMax = 256;
constexpr int kDepthMax = 4;

OpenAiError wrong(std::string_view param, std::string message) {
  return {.status = 400,
          .message = std::move(message),
          .param = std::string(param),
          .code = "invalid_value"};
}

// Text that is nested deeper than any registration is not parsed at all.
bool too_deep(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kDepthMax) return true;
  }
  return false;
}

std::optional<std::uint64_t> whole_number(const nlohmann::json& value, std::uint64_t max) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<std::uint64_t>();
  if (number > max) return std::nullopt;
  return number;
}

Outcome<void> read_member(const std::string& name, const nlohmann::json& value, InstanceSpec& to) {
  if (name == "role" || name == "url") return {};
  if (name == "arena") {
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kArenaBytesMax) {
      return std::unexpected(wrong(name, "'arena' must be a short string"));
    }
    to.arena = value.get<std::string>();
    return {};
  }
  if (name == "running_max") {
    const auto count = whole_number(value, 1'000'000);
    if (!count || *count == 0) {
      return std::unexpected(wrong(name, "'running_max' must be 1 to 1000000"));
    }
    to.running_max = static_cast<std::uint32_t>(*count);
    return {};
  }
  if (name == "keep_alive_ms") {
    const auto ms = whole_number(value, 3'600'000);
    if (!ms) return std::unexpected(wrong(name, "'keep_alive_ms' must be 0 to 3600000"));
    to.keep_alive = std::chrono::milliseconds(*ms);
    return {};
  }
  return std::unexpected(wrong(
      name.substr(0, 64), fmt::format("'{}' is no member of a registration", name.substr(0, 64))));
}

}  // namespace

Outcome<InstanceSpec> parse_registration(std::string_view text, bool allow_remote) {
  if (text.size() > kRegistrationBytesMax || too_deep(text)) {
    return std::unexpected(wrong("", "a registration is a small JSON object"));
  }
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::unexpected(wrong("", "a registration is a JSON object"));
  for (const char* needed : {"role", "url"}) {
    if (!json.contains(needed) || !json[needed].is_string()) {
      return std::unexpected(wrong(needed, fmt::format("'{}' must be a string", needed)));
    }
  }
  auto spec = make_instance(json["role"].get_ref<const std::string&>(),
                            json["url"].get_ref<const std::string&>(), allow_remote);
  if (!spec) {
    const bool role = !role_index(json["role"].get_ref<const std::string&>());
    return std::unexpected(wrong(role ? "role" : "url", spec.error().message));
  }
  for (const auto& [name, value] : json.items()) {
    if (const auto read = read_member(name, value, *spec); !read) {
      return std::unexpected(read.error());
    }
  }
  return std::move(*spec);
}

std::string instance_json(const InstanceView& view) {
  const InstanceSpec& spec = view.instance->spec;
  return fmt::format(
      R"({{"id":{},"role":"{}","url":{},"arena":{},"healthy":{},"answered":{},"running":{},"service_ms":{:.3f}}})",
      view.instance->id, kRoles[spec.role].name, json_string(spec.endpoint.text()),
      spec.arena.empty() ? "null" : json_string(spec.arena), view.usable, view.confirmed,
      view.running, static_cast<double>(view.service_ns) / 1e6);
}

std::string instances_json(const std::vector<InstanceView>& views) {
  std::string out = R"({"instances":[)";
  for (const InstanceView& view : views) {
    if (&view != views.data()) out += ",";
    out += instance_json(view);
  }
  return out + "]}";
}

}  // namespace sluice::proxy
