#include "topology.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "common/daemon_settings.h"
#include "common/nearest.h"
#include "common/quantity.h"
#include "common/toml.h"
#include "store/daemon.h"

namespace sluice::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kEnginesMax = 64;
constexpr std::size_t kNameBytesMax = 64;

// Reads one table strictly: every key is asked for once, whatever is left over is unknown.
class Section {
 public:
  Section(const toml::table& table, std::string_view path, std::string title)
      : table_(table), path_(path), title_(std::move(title)) {}

  const toml::node* find(const std::string& key) {
    known_.push_back(key);
    return table_.get(key);
  }

  std::unexpected<Error> refuse(const toml::node& node, std::string_view why) const {
    return fail(Code::kInvalidArgument,
                fmt::format("{}:{}: {}", path_, node.source().begin.line, why));
  }

  Status text(const std::string& key, std::string& to) {
    const toml::node* node = find(key);
    if (node == nullptr) return {};
    const auto* value = node->as_string();
    if (value == nullptr || value->get().empty())
      return refuse(*node, fmt::format("{}{} must be a text", title_, key));
    to = value->get();
    return {};
  }

  Status texts(const std::string& key, std::vector<std::string>& to) {
    const toml::node* node = find(key);
    if (node == nullptr) return {};
    const auto* list = node->as_array();
    if (list == nullptr)
      return refuse(*node, fmt::format("{}{} must be a list of texts", title_, key));
    for (const toml::node& entry : *list) {
      const auto* value = entry.as_string();
      if (value == nullptr)
        return refuse(entry, fmt::format("{}{} must be a list of texts", title_, key));
      to.push_back(value->get());
    }
    return {};
  }

  Status texts_by_name(const std::string& key, std::map<std::string, std::string>& to) {
    const toml::node* node = find(key);
    if (node == nullptr) return {};
    const auto* values = node->as_table();
    if (values == nullptr)
      return refuse(*node, fmt::format("{}{} must be a table of texts", title_, key));
    for (const auto& [name, entry] : *values) {
      const auto* value = entry.as_string();
      if (value == nullptr)
        return refuse(entry,
                      fmt::format("{}{}.{} must be a text", title_, key, std::string(name.str())));
      to[std::string(name.str())] = value->get();
    }
    return {};
  }

  Status number(const std::string& key, std::uint64_t min, std::uint64_t max, std::uint64_t& to) {
    const toml::node* node = find(key);
    if (node == nullptr) return {};
    const auto* value = node->as_integer();
    if (value == nullptr || value->get() < 0 || static_cast<std::uint64_t>(value->get()) < min ||
        static_cast<std::uint64_t>(value->get()) > max) {
      return refuse(
          *node, fmt::format("{}{} must be a whole number from {} to {}", title_, key, min, max));
    }
    to = static_cast<std::uint64_t>(value->get());
    return {};
  }

  Status duration(const std::string& key, std::chrono::milliseconds& to) {
    const toml::node* node = find(key);
    if (node == nullptr) return {};
    const auto* value = node->as_string();
    const auto parsed = value != nullptr
                            ? app::parse_duration(value->get())
                            : fail(Code::kInvalidArgument, "a duration is a text such as \"30s\"");
    if (!parsed) return refuse(*node, fmt::format("{}{}: {}", title_, key, parsed.error().message));
    to = std::chrono::ceil<std::chrono::milliseconds>(*parsed);
    return {};
  }

  // After everything that is known was asked for.
  Status finish() const {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (std::ranges::find(known_, name) != known_.end()) continue;
      return refuse(
          node, fmt::format("unknown key '{}{}'{}", title_, name, app::did_you_mean(name, known_)));
    }
    return {};
  }

  int line() const { return static_cast<int>(table_.source().begin.line); }

 private:
  const toml::table& table_;
  std::string_view path_;
  std::string title_;
  std::vector<std::string> known_;
};

std::optional<json> to_json(const toml::node& node) {
  if (const auto* text = node.as_string()) return json(text->get());
  if (const auto* number = node.as_integer()) return json(number->get());
  if (const auto* number = node.as_floating_point()) return json(number->get());
  if (const auto* flag = node.as_boolean()) return json(flag->get());
  if (const auto* list = node.as_array()) {
    json out = json::array();
    for (const toml::node& entry : *list) {
      auto value = to_json(entry);
      if (!value) return std::nullopt;
      out.push_back(std::move(*value));
    }
    return out;
  }
  return std::nullopt;
}

Status read_connector(Section& section, const std::string& key, json& to) {
  const toml::node* node = section.find(key);
  if (node == nullptr) return {};
  const auto* values = node->as_table();
  if (values == nullptr) return section.refuse(*node, fmt::format("{} must be a table", key));
  for (const auto& [name, entry] : *values) {
    auto value = to_json(entry);
    if (!value)
      return section.refuse(entry, fmt::format("{}.{} must be a plain value or a list", key,
                                               std::string(name.str())));
    to[std::string(name.str())] = std::move(*value);
  }
  return {};
}

constexpr std::string_view kRoleList =
    "encoder, prefill, decode, prefill_decode, ec_both or colocated";

Status read_role(Section& section, EngineSpec& engine) {
  const toml::node* node = section.find("role");
  if (node == nullptr) return {};
  const auto* value = node->as_string();
  const std::string text = value != nullptr ? value->get() : "";
  if (const auto role = role_of(text)) {
    engine.role = *role;
    return {};
  }
  return section.refuse(*node, fmt::format("role '{}' is unknown{}: {}", text,
                                           app::did_you_mean(text, role_names()), kRoleList));
}

// What [[engine]] and [engine-defaults] have in common.
Status read_shared(Section& section, EngineSpec& engine) {
  std::uint64_t tensor_parallel = engine.tensor_parallel;
  std::vector<std::string> args, command;
  std::map<std::string, std::string> environment;
  for (const Status& status :
       {section.text("model", engine.model), section.text("python", engine.python),
        section.texts("command", command), section.texts("args", args),
        section.texts_by_name("env", environment), section.number("tp", 1, 64, tensor_parallel),
        section.text("connector-module", engine.connector_module),
        section.text("connector-class", engine.connector_class),
        read_connector(section, "connector", engine.connector),
        section.text("kv-connector-class", engine.kv_connector_class),
        read_connector(section, "kv-connector", engine.kv_connector)}) {
    if (!status) return status;
  }
  engine.tensor_parallel = static_cast<std::uint32_t>(tensor_parallel);
  if (!command.empty()) engine.command = std::move(command);
  engine.args.insert(engine.args.end(), args.begin(), args.end());
  for (auto& [name, value] : environment) engine.environment[name] = std::move(value);
  return {};
}

bool good_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && name != "sluiced" && name != "proxy" &&
         name != "." && name != ".." && std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

Result<EngineSpec> read_engine(const toml::table& table, std::string_view path,
                               const EngineSpec& defaults) {
  EngineSpec engine = defaults;
  Section section(table, path, "engine.");
  std::uint64_t port = 0;
  for (const Status& status :
       {section.text("name", engine.name), read_role(section, engine),
        section.number("port", 1, 65535, port), read_shared(section, engine), section.finish()}) {
    if (!status) return std::unexpected(status.error());
  }
  engine.port = static_cast<std::uint16_t>(port);
  if (!good_name(engine.name))
    return section.refuse(table,
                          "an engine needs a name of letters, digits, '-', '_' and '.', other than "
                          "sluiced and proxy");
  if (engine.port == 0)
    return section.refuse(table, fmt::format("engine '{}' needs a port", engine.name));
  if (engine.model.empty())
    return section.refuse(table, fmt::format("engine '{}' needs a model", engine.name));
  if (!table.contains("role"))
    return section.refuse(table,
                          fmt::format("engine '{}' needs a role: {}", engine.name, kRoleList));
  return engine;
}

// The settings of sluiced, with the arena's name called `name` here.
Status read_arena(const toml::table& values, std::string_view path, Topology& topology) {
  const auto rows = app::daemon_settings_table();
  std::vector<app::Setting> table(rows.begin(), rows.end());
  for (app::Setting& setting : table) {
    if (setting.name == "arena") setting.name = "name";
  }
  auto layer = app::layer_from_table(values, path, "arena.", table);
  if (!layer) return std::unexpected(layer.error());
  topology.arena = std::move(*layer);
  if (const auto name = topology.arena.find("name"); name != topology.arena.end()) {
    topology.arena_name = name->second;
    topology.arena.erase(name);
  }
  return {};
}

Result<app::DaemonSettings> daemon_settings(const Topology& topology) {
  app::Layers layers{
      .file = topology.arena, .file_path = "[arena]", .environment = {}, .flags = {}};
  layers.file["arena"] = topology.arena_name;
  return app::resolve_daemon_settings(app::merge(app::daemon_settings_table(), layers));
}

Status check_unique(const Topology& topology, std::string_view path) {
  std::set<std::string> names;
  std::set<std::uint16_t> ports;
  for (const EngineSpec& engine : topology.engines) {
    if (!names.insert(engine.name).second)
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: two engines are called '{}'", path, engine.name));
    if (!ports.insert(engine.port).second)
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: two engines use port {}", path, engine.port));
  }
  if (topology.proxy && !ports.insert(topology.proxy->port).second)
    return fail(Code::kInvalidArgument,
                fmt::format("{}: the proxy and an engine use port {}", path, topology.proxy->port));
  if (topology.engines.size() > kEnginesMax)
    return fail(Code::kLimit, fmt::format("{}: more than {} engines", path, kEnginesMax));
  return {};
}

Status read_engines(const toml::table& root, Section& top, std::string_view path,
                    Topology& topology) {
  EngineSpec defaults;
  if (const toml::node* node = top.find("engine-defaults")) {
    if (!node->is_table()) return top.refuse(*node, "engine-defaults must be a table");
    Section section(*node->as_table(), path, "engine-defaults.");
    if (auto read = read_shared(section, defaults); !read) return read;
    if (auto finished = section.finish(); !finished) return finished;
  }
  const toml::node* node = top.find("engine");
  if (node == nullptr) return {};
  if (!node->is_array_of_tables()) return top.refuse(*node, "engines are written as [[engine]]");
  for (const toml::node& entry : *root.get("engine")->as_array()) {
    auto engine = read_engine(*entry.as_table(), path, defaults);
    if (!engine) return std::unexpected(engine.error());
    topology.engines.push_back(std::move(*engine));
  }
  return {};
}

// Every key but host and port is a setting of sluice-proxy, which knows what they may be.
Status read_proxy(Section& top, std::string_view path, Topology& topology) {
  const toml::node* node = top.find("proxy");
  if (node == nullptr) return {};
  if (!node->is_table()) return top.refuse(*node, "the proxy is written as [proxy]");
  ProxySpec proxy;
  std::uint64_t port = proxy.port;
  Section section(*node->as_table(), path, "proxy.");
  for (const Status& status :
       {section.text("host", proxy.host), section.number("port", 1, 65535, port)}) {
    if (!status) return status;
  }
  proxy.port = static_cast<std::uint16_t>(port);
  for (const auto& [key, value] : *node->as_table()) {
    const std::string setting(key.str());
    if (setting == "host" || setting == "port") continue;
    if (setting == "arena" || setting == "arena-directory" || setting == "instance")
      return section.refuse(value, fmt::format("proxy.{} follows from this file", setting));
    const auto plain = to_json(value);
    if (!plain || plain->is_array())
      return section.refuse(value, fmt::format("proxy.{} must be a plain value", setting));
    proxy.settings[setting] = plain->is_string() ? plain->get<std::string>() : plain->dump();
  }
  topology.proxy = std::move(proxy);
  return {};
}

// A connector's settings with the arena filled in, unless they name one themselves.
json at_arena(json extra, const Topology& topology) {
  if (extra.contains("directory")) return extra;
  const auto directory = topology.arena.find("directory");
  if (directory != topology.arena.end() && !directory->second.empty()) {
    extra["directory"] = directory->second;
  } else if (!extra.contains("arena")) {
    extra["arena"] = topology.arena_name;
  }
  return extra;
}

bool has_argument(const std::vector<std::string>& args, std::string_view flag) {
  return std::ranges::any_of(args, [&](const std::string& arg) {
    return arg == flag ||
           (arg.starts_with(flag) && arg.size() > flag.size() && arg[flag.size()] == '=');
  });
}

}  // namespace

Result<Topology> parse_topology(std::string_view text, std::string_view path) {
  const auto parsed = app::parse_toml(text, path);
  if (!parsed) return std::unexpected(parsed.error());
  Topology topology;
  Section top(*parsed, path, "");
  for (const Status& status : {top.text("log-dir", topology.log_directory),
                               top.duration("ready-timeout", topology.ready_timeout),
                               top.duration("stop-timeout", topology.stop_timeout)}) {
    if (!status) return std::unexpected(status.error());
  }
  if (const toml::node* arena = top.find("arena")) {
    if (!arena->is_table()) return top.refuse(*arena, "the arena is written as [arena]");
    if (const auto read = read_arena(*arena->as_table(), path, topology); !read)
      return std::unexpected(read.error());
  }
  if (const auto read = read_engines(*parsed, top, path, topology); !read)
    return std::unexpected(read.error());
  if (const auto read = read_proxy(top, path, topology); !read)
    return std::unexpected(read.error());
  for (const Status& status : {top.finish(), check_unique(topology, path)}) {
    if (!status) return std::unexpected(status.error());
  }
  if (const auto settings = daemon_settings(topology); !settings) {
    return fail(Code::kInvalidArgument, fmt::format("{}: {}", path, settings.error().message));
  }
  return topology;
}

Result<Topology> pair_topology(const PairOptions& options) {
  if (options.port == 0 || options.port == 65535)
    return fail(Code::kInvalidArgument, "--port must leave room for a second port after it");
  Topology topology;
  topology.arena_name = options.arena;
  if (!options.size.empty()) topology.arena["size"] = options.size;
  if (!options.directory.empty()) topology.arena["directory"] = options.directory;
  EngineSpec engine;
  engine.model = options.model;
  engine.python = options.python;
  engine.args = options.args;
  engine.name = "encoder";
  engine.role = Role::kEncoder;
  engine.port = options.port;
  topology.engines.push_back(engine);
  engine.name = "prefill-decode";
  engine.role = Role::kPrefillDecode;
  engine.port = static_cast<std::uint16_t>(options.port + 1);
  topology.engines.push_back(engine);
  if (const auto settings = daemon_settings(topology); !settings)
    return std::unexpected(settings.error());
  return topology;
}

Result<std::string> arena_directory(const Topology& topology) {
  const auto settings = daemon_settings(topology);
  if (!settings) return std::unexpected(settings.error());
  return settings->store.directory;
}

std::string proxy_address(const ProxySpec& proxy) {
  const bool anywhere = proxy.host == "0.0.0.0" || proxy.host == "::";
  const std::string host = anywhere ? "127.0.0.1" : proxy.host;
  return host.contains(':') ? fmt::format("http://[{}]:{}", host, proxy.port)
                            : fmt::format("http://{}:{}", host, proxy.port);
}

std::string log_directory(const Topology& topology) {
  return topology.log_directory.empty() ? fmt::format("sluice-logs/{}", topology.arena_name)
                                        : topology.log_directory;
}

std::string engine_token_path(const Topology& topology) {
  return topology.proxy ? log_directory(topology) + "/engine.token" : "";
}

std::vector<std::string> daemon_arguments(const Topology& topology) {
  std::vector<std::string> out = {"--arena", topology.arena_name};
  // Said in full, so that a variable of the shell cannot move the arena away from where the engines
  // look for it.
  if (const auto directory = arena_directory(topology);
      directory && !topology.arena.contains("directory")) {
    out.insert(out.end(), {"--directory", *directory});
  }
  for (const auto& [name, value] : topology.arena) {
    out.push_back("--" + name);
    out.push_back(value);
  }
  return out;
}

std::vector<std::string> engine_command(const EngineSpec& engine, const Topology& topology) {
  std::vector<std::string> out = engine.command;
  if (out.empty()) out = {engine.python, "-m", "vllm.entrypoints.openai.api_server"};
  const auto add = [&](std::string flag, std::string value) {
    if (has_argument(engine.args, flag)) return;  // the file's own word wins
    out.push_back(std::move(flag));
    out.push_back(std::move(value));
  };
  add("--model", engine.model);
  add("--host", "127.0.0.1");
  add("--port", fmt::format("{}", engine.port));
  if (engine.tensor_parallel > 1)
    add("--tensor-parallel-size", fmt::format("{}", engine.tensor_parallel));
  const std::string_view ec = ec_role(engine.role), kv = kv_role(engine.role);
  if (!ec.empty()) {
    const json transfer = {{"ec_connector", engine.connector_class},
                           {"ec_connector_module_path", engine.connector_module},
                           {"ec_role", ec},
                           {"engine_id", engine.name},
                           {"ec_connector_extra_config", at_arena(engine.connector, topology)}};
    add("--ec-transfer-config", transfer.dump());
  }
  if (!kv.empty()) {
    // A hand-off that does not come is computed again instead of failing its request.
    const json transfer = {{"kv_connector", engine.kv_connector_class},
                           {"kv_connector_module_path", engine.connector_module},
                           {"kv_role", kv},
                           {"engine_id", engine.name},
                           {"kv_load_failure_policy", "recompute"},
                           {"kv_connector_extra_config", at_arena(engine.kv_connector, topology)}};
    add("--kv-transfer-config", transfer.dump());
  }
  out.insert(out.end(), engine.args.begin(), engine.args.end());
  return out;
}

std::vector<std::string> proxy_arguments(const Topology& topology, const std::string& token_file) {
  if (!topology.proxy) return {};
  const ProxySpec& proxy = *topology.proxy;
  std::vector<std::string> out = {"--host", proxy.host, "--port", fmt::format("{}", proxy.port)};
  if (const auto directory = arena_directory(topology); directory)
    out.insert(out.end(), {"--arena-directory", *directory});
  for (const EngineSpec& engine : topology.engines) {
    if (engine.role == Role::kEncodeAll) continue;  // no stage of the proxy's
    out.push_back("--instance");
    out.push_back(fmt::format("{}=http://127.0.0.1:{}", name(engine.role), engine.port));
  }
  if (!token_file.empty()) {
    out.insert(out.end(), {"--engine-token-file", token_file});
    // Who may see and change the instances, unless the file names a token for clients.
    if (!proxy.settings.contains("token-file")) out.insert(out.end(), {"--token-file", token_file});
  }
  for (const auto& [name, value] : proxy.settings) {
    out.push_back("--" + name);
    out.push_back(value);
  }
  return out;
}

std::vector<std::string> changed_environment(const std::vector<std::string>& environment,
                                             const std::map<std::string, std::string>& changes) {
  std::vector<std::string> out;
  for (const std::string& entry : environment) {
    if (!changes.contains(entry.substr(0, entry.find('=')))) out.push_back(entry);
  }
  for (const auto& [name, value] : changes) out.push_back(fmt::format("{}={}", name, value));
  return out;
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += ' ';
    const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("-_./=:,@%+").contains(c);
    });
    if (plain) {
      out += word;
      continue;
    }
    out += '\'';
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += '\'';
  }
  return out;
}

}  // namespace sluice::cli
