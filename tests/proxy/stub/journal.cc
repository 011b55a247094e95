#include "journal.h"

#include <utility>

#include <nlohmann/json.hpp>

namespace sluice::stub {
namespace {

using Json = nlohmann::ordered_json;

Json parsed(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json::parse(text, nullptr, false);
}

Json json_of(const Entry& entry) {
  Json parts = Json::array();
  for (const Part& part : entry.ask.parts) {
    parts.push_back({{"type", part.type},
                     {"uuid", part.uuid},
                     {"remote", part.remote},
                     {"has_media", part.has_media}});
  }
  Json headers = Json::array();
  for (const auto& [name, value] : entry.request.headers) headers.push_back({name, value});
  return {{"method", entry.request.method},
          {"path", entry.request.target},
          {"headers", std::move(headers)},
          {"body_bytes", entry.body_bytes},
          {"body", entry.body},
          {"stream", entry.ask.stream},
          {"max_tokens", entry.ask.max_tokens},
          {"parts", std::move(parts)},
          {"kv_transfer_params", parsed(entry.ask.kv_params)},
          {"ec_transfer_params", parsed(entry.ask.ec_params)},
          {"connection", entry.connection},
          {"nth_on_connection", entry.nth_on_connection},
          {"events", entry.events},
          {"outcome", entry.outcome},
          {"began_ns", entry.began},
          {"ended_ns", entry.ended}};
}

}  // namespace

Entry* Journal::add(Entry entry) {
  if (entries_.size() >= kEntriesMax) return nullptr;
  return &entries_.emplace_back(std::move(entry));
}

bool Journal::clear() {
  if (counts.in_flight != 0) return false;
  entries_.clear();
  counts = {.connections_open = counts.connections_open};
  return true;
}

std::string Journal::text(std::string_view role, bool with_requests) const {
  Json out = {{"role", role},
              {"count", counts.requests},
              {"in_flight", counts.in_flight},
              {"in_flight_max", counts.in_flight_max},
              {"cancelled", counts.cancelled},
              {"malformed", counts.malformed},
              {"probes", counts.probes},
              {"connections", counts.connections},
              {"connections_open", counts.connections_open},
              {"closed_idle", counts.closed_idle},
              {"reused", counts.reused}};
  if (with_requests) {
    Json list = Json::array();
    for (const Entry& entry : entries_) list.push_back(json_of(entry));
    out["requests"] = std::move(list);
  }
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sluice::stub
