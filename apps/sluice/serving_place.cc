#include "serving_place.h"

#include <fmt/format.h>

#include "common/token.h"
#include "topology.h"

namespace sluice::cli {

ServingPlace place_of(const Topology& topology) {
  ServingPlace place;
  for (const EngineSpec& engine : topology.engines) {
    place.engines.push_back({.name = engine.name,
                             .role = std::string(name(engine.role)),
                             .address = fmt::format("http://127.0.0.1:{}", engine.port)});
  }
  if (!topology.proxy) return place;
  place.proxy = proxy_address(*topology.proxy);
  const auto named = topology.proxy->settings.find("token-file");
  const std::string path =
      named == topology.proxy->settings.end() ? engine_token_path(topology) : named->second;
  auto token = app::read_token_file(path);
  if (token) {
    place.token = std::move(*token);
  } else {
    place.token_problem = token.error().message;
  }
  return place;
}

}  // namespace sluice::cli
