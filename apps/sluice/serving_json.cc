#include <nlohmann/json.hpp>

#include "serving_show.h"

namespace sluice::cli {
namespace {

using json = nlohmann::ordered_json;

json or_null(const std::optional<double>& value) {
  return value ? json(*value) : json(nullptr);
}

json or_null(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

json to_json(const Spread& spread) {
  return {{"p50", or_null(spread.p50)}, {"p99", or_null(spread.p99)}};
}

json to_json(const Counter& counter) {
  return {{"total", counter.total}, {"per_s", or_null(counter.per_s)}};
}

json to_json(const Causes& causes) {
  json out = json::object();
  for (const auto& [cause, count] : causes) out[cause] = count;
  return out;
}

void add_load(const ServerView& server, json& to) {
  to["running"] = server.running;
  to["waiting"] = server.waiting;
  to["requests"] = to_json(server.served);
  to["queue_s"] = to_json(server.queue);
  to["service_s"] = to_json(server.service);
  to["first_token_s"] = to_json(server.first_token);
  to["between_tokens_s"] = to_json(server.between_tokens);
  to["errors"] = server.errors;
}

json to_json(const ServerView& engine) {
  json out = {{"name", or_null(engine.name)},
              {"address", engine.address},
              {"healthy", engine.healthy ? json(*engine.healthy) : json(nullptr)},
              {"answered", engine.answered},
              {"trouble", or_null(engine.trouble)}};
  add_load(engine, out);
  out["preemptions"] = engine.preemptions;
  return out;
}

json to_json(const StageView& view) {
  json out = {{"role", view.stage.role},
              {"instances", view.stage.instances},
              {"healthy", view.stage.usable}};
  add_load(view.stage, out);
  out["retries"] = view.stage.retries;
  out["engines"] = json::array();
  for (const ServerView& engine : view.engines) out["engines"].push_back(to_json(engine));
  return out;
}

json to_json(const EndpointView& endpoint) {
  if (endpoint.address.empty()) return nullptr;
  return {{"address", endpoint.address},
          {"trouble", or_null(endpoint.trouble)},
          {"listing_trouble", or_null(endpoint.listing_trouble)},
          {"ready", endpoint.ready},
          {"draining", endpoint.draining},
          {"connections", endpoint.connections},
          {"requests", to_json(endpoint.requests)},
          {"events", to_json(endpoint.events)},
          {"answered_2xx", endpoint.answered_2xx},
          {"answered_4xx", endpoint.answered_4xx},
          {"answered_5xx", endpoint.answered_5xx},
          {"clients_gone", endpoint.clients_gone},
          {"streams_broken", endpoint.streams_broken},
          {"request_s", to_json(endpoint.request)},
          {"first_token_s", to_json(endpoint.first_token)},
          {"between_tokens_s", to_json(endpoint.between_tokens)},
          {"refusals", to_json(endpoint.refusals)}};
}

json to_json(const FeaturesView& features) {
  return {{"items", to_json(features.items)},
          {"encodes", to_json(features.encodes)},
          {"encodes_skipped", features.skipped},
          {"encodes_coalesced", features.coalesced},
          {"hits", to_json(features.hits)},
          {"misses", features.misses},
          {"local_encodes", features.local_encodes},
          {"corrupt", features.corrupt},
          {"read_bytes", to_json(features.read_bytes)},
          {"written_bytes", to_json(features.written_bytes)},
          {"fallbacks", to_json(features.fallbacks)}};
}

json to_json(const HandoffsView& handoffs) {
  return {{"open", handoffs.open ? json(*handoffs.open) : json(nullptr)},
          {"parts", handoffs.parts},
          {"parts_bytes", handoffs.parts_bytes},
          {"committed", to_json(handoffs.committed)},
          {"uncommitted", handoffs.uncommitted},
          {"sent_bytes", to_json(handoffs.sent_bytes)},
          {"received_bytes", to_json(handoffs.received_bytes)},
          {"send_failures", handoffs.send_failures},
          {"receive_failures", handoffs.receive_failures},
          {"fallbacks", to_json(handoffs.fallbacks)}};
}

}  // namespace

json to_json(const ServingView& view) {
  json stages = json::array();
  for (const StageView& stage : view.stages) stages.push_back(to_json(stage));
  return {{"seconds", or_null(view.seconds)},
          {"endpoint", to_json(view.endpoint)},
          {"stages", std::move(stages)},
          {"features", to_json(view.features)},
          {"handoffs", to_json(view.handoffs)}};
}

}  // namespace sluice::cli
