#include "serving_sample.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "fetch.h"

namespace sluice::cli {
namespace {

constexpr std::size_t kInstancesBytesMax = 4u << 20;
constexpr std::size_t kWordBytesMax = 1024;

std::string word(const nlohmann::json& entry, const char* name) {
  const auto found = entry.find(name);
  if (found == entry.end() || !found->is_string()) return "";
  return found->get<std::string>().substr(0, kWordBytesMax);
}

double number(const nlohmann::json& entry, const char* name) {
  const auto found = entry.find(name);
  return found != entry.end() && found->is_number() ? found->get<double>() : 0;
}

Result<metrics::Reading> read(const Result<std::string>& text) {
  if (!text) return std::unexpected(text.error());
  return metrics::Reading::parse(*text);
}

}  // namespace

Result<std::vector<ListedInstance>> read_instances(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto list = json.is_object() ? json.find("instances") : json.end();
  if (!json.is_object() || list == json.end() || !list->is_array())
    return fail(Code::kInvalidArgument, "the list of instances is no JSON that a proxy writes");
  std::vector<ListedInstance> out;
  for (const auto& entry : *list) {
    if (!entry.is_object()) continue;
    ListedInstance one{.role = word(entry, "role"),
                       .address = word(entry, "url"),
                       .arena = word(entry, "arena"),
                       .service_ms = number(entry, "service_ms")};
    const auto id = entry.find("id"), running = entry.find("running"),
               healthy = entry.find("healthy"), answered = entry.find("answered");
    if (id != entry.end() && id->is_number_unsigned()) one.id = id->get<std::uint64_t>();
    if (running != entry.end() && running->is_number_unsigned())
      one.running = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(running->get<std::uint64_t>(), UINT32_MAX));
    if (healthy != entry.end() && healthy->is_boolean()) one.healthy = healthy->get<bool>();
    if (answered != entry.end() && answered->is_boolean()) one.answered = answered->get<bool>();
    if (!one.role.empty() && !one.address.empty()) out.push_back(std::move(one));
  }
  return out;
}

ServingSample look(const ServingPlace& place, std::chrono::milliseconds timeout) {
  ServingSample sample;
  sample.time = now();
  if (!place.proxy.empty()) {
    const FetchTarget targets[] = {{place.proxy, "/metrics", place.token},
                                   {place.proxy, "/v1/instances", place.token}};
    auto answers = fetch_all(targets, {.timeout = timeout, .bytes_max = kInstancesBytesMax});
    sample.proxy = read(answers[0]);
    sample.listed =
        answers[1]
            ? read_instances(*answers[1])
            : Result<std::vector<ListedInstance>>(std::unexpected(std::move(answers[1].error())));
  }
  std::vector<FetchTarget> targets;
  const auto add = [&](const std::string& address) {
    const auto same = [&](const FetchTarget& known) { return known.address == address; };
    if (targets.size() < kEnginesShownMax && std::ranges::none_of(targets, same))
      targets.push_back({address, "/metrics", ""});  // open: an engine's token guards its /v1 only
  };
  for (const EnginePlace& engine : place.engines) add(engine.address);
  if (sample.listed) {
    for (const ListedInstance& engine : *sample.listed) add(engine.address);
  }
  const auto answers = fetch_all(targets, {.timeout = timeout});
  for (std::size_t i = 0; i < targets.size(); ++i)
    sample.engines.emplace(targets[i].address, read(answers[i]));
  return sample;
}

}  // namespace sluice::cli
