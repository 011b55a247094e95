// json_view.h: what the arena holds, as JSON. One shape for `sluice --json` and for the daemon's
// HTTP interface.
//
// Pure. Field names are those of include/sluice/client.h, with units in the name.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include <sluice/client.h>

namespace sluice::app {

nlohmann::ordered_json to_json(const ArenaStats& stats);
nlohmann::ordered_json to_json(const ClientInfo& client);
nlohmann::ordered_json to_json(const ObjectInfo& object);  // created_ns etc.: CLOCK_MONOTONIC
nlohmann::ordered_json to_json(const TensorView& tensor);
nlohmann::ordered_json to_json(const Attributes& attributes);
nlohmann::ordered_json to_json(const Error& error);  // {"error": code, "message": ...}

// One line of text; bytes that are not UTF-8 are replaced, never thrown about.
std::string dump(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace sluice::app
