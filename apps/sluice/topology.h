// topology.h: what `sluice up` starts: one arena, the engines around it and the proxy in front.
// Documented in docs/operating/topology.md.
//
// Pure: text in, a checked plan out; nothing is started or looked up.
// Failure: kInvalidArgument with file, line, the key and the nearest known one: exit 78.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <sluice/error.h>

#include "common/settings.h"
#include "role.h"

namespace sluice::cli {

struct EngineSpec {
  std::string name;
  Role role = Role::kColocated;
  std::string model;
  std::uint16_t port = 0;
  std::uint32_t tensor_parallel = 1;
  std::string python = "python3";
  std::vector<std::string>
      command;  // starts the engine's server; empty: python -m vllm.entrypoints.openai.api_server
  std::vector<std::string> args;  // after what is made here
  std::map<std::string, std::string> environment;
  std::string connector_module = "sluice.vllm";
  std::string connector_class = "SluiceECConnector";
  nlohmann::ordered_json connector = nlohmann::ordered_json::object();  // ec_connector_extra_config
  std::string kv_connector_class = "SluiceKVConnector";
  nlohmann::ordered_json kv_connector =
      nlohmann::ordered_json::object();  // kv_connector_extra_config
};

// sluice-proxy in front of the engines; its settings travel as text and are checked by itself.
struct ProxySpec {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;
  app::Layer settings;  // name -> text, host and port left out
};

struct Topology {
  std::string arena_name = "default";
  app::Layer arena;  // settings of sluiced
  std::vector<EngineSpec> engines;
  std::optional<ProxySpec> proxy;
  std::string log_directory;
  std::chrono::milliseconds ready_timeout{std::chrono::minutes(10)};
  std::chrono::milliseconds stop_timeout{std::chrono::seconds(30)};
};

Result<Topology> parse_topology(std::string_view text, std::string_view path);

// One encoder on `port` and one prefill+decode engine on the next port.
struct PairOptions {
  std::string arena = "default";
  std::string directory;  // of the arena; empty: by its name
  std::string size;
  std::string model;
  std::string python;
  std::uint16_t port = 8100;
  std::vector<std::string> args;
};
Result<Topology> pair_topology(const PairOptions& options);

// The arena's folder as sluiced will choose it.
Result<std::string> arena_directory(const Topology& topology);

// Where a client on this machine finds the proxy: http://127.0.0.1:8000.
std::string proxy_address(const ProxySpec& proxy);

std::string log_directory(const Topology& topology);  // the file's own, or sluice-logs/<arena>

// What the engines want to hear, where there is a proxy: written by `sluice up`, read by the proxy.
std::string engine_token_path(const Topology& topology);

std::vector<std::string> daemon_arguments(const Topology& topology);  // without the program itself
std::vector<std::string> engine_command(const EngineSpec& engine, const Topology& topology);
// `token_file`: what the engines want as a bearer token, empty if they want none.
std::vector<std::string> proxy_arguments(const Topology& topology, const std::string& token_file);

// An environment (NAME=value each) with some values in place of others.
std::vector<std::string> changed_environment(const std::vector<std::string>& environment,
                                             const std::map<std::string, std::string>& changes);

// For people: quoted as a shell would need it.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace sluice::cli
