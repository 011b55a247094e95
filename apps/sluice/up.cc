// up.cc: `sluice up`: one command for sluiced, the engines and the proxy of a machine.
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/client.h>

#include "base/unique_fd.h"
#include "commands.h"
#include "common/exit_code.h"
#include "common/json_view.h"
#include "http/probe.h"
#include "interrupt.h"
#include "progress.h"
#include "run_folder.h"
#include "supervisor.h"
#include "tensor_file.h"
#include "topology.h"

namespace sluice::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kProbeTimeout{500};

Result<Topology> read_topology(const Global& global, const UpCommand& command) {
  if (command.file.empty()) {
    return pair_topology({.arena = global.arena,
                          .directory = global.directory,
                          .size = command.size,
                          .model = command.model,
                          .python = command.python,
                          .port = command.port,
                          .args = command.engine_args});
  }
  const auto text = app::read_config_file(command.file);
  if (!text) return std::unexpected(text.error());
  return parse_topology(*text, command.file);
}

bool runnable(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0;
}

// Beside this program, in the build tree's neighbouring folder, then along PATH.
Result<std::string> find_program(const UpCommand& command, const std::string& program) {
  const std::filesystem::path here = std::filesystem::path(command.self_path).parent_path();
  for (const auto& candidate : {here / program, here.parent_path() / program / program}) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(candidate, ignored) && runnable(candidate))
      return candidate.string();
  }
  std::string_view rest = command.search_path;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
    std::string candidate = fmt::format("{}/{}", folder, program);
    if (!folder.empty() && runnable(candidate)) return candidate;
  }
  return fail(Code::kNotFound,
              fmt::format("{} is neither beside {} nor in PATH: install it, or build the target {}",
                          program, command.self_path, program));
}

// Ready: our own sluiced serves the arena. One that was there before would have another process
//        number.
std::function<bool(const Child&)> daemon_ready(std::string directory) {
  return [directory = std::move(directory)](const Child& child) {
    ClientOptions options;
    options.directory = directory;
    options.label = "sluice up";
    options.attach_timeout = kProbeTimeout;
    options.grant_ahead_bytes = 0;
    options.populate_bytes_max = 0;
    const auto client = Client::attach(options);
    return client.has_value() && (*client)->stats().daemon_pid == child.pid();
  };
}

std::function<bool(const Child&)> answers(std::uint16_t port, std::string target) {
  return [port, target = std::move(target)](const Child&) {
    const auto answer = http::probe({.port = port, .target = target, .timeout = kProbeTimeout});
    return answer.has_value() && answer->status == 200;
  };
}

Status make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    return fail(Code::kIo,
                fmt::format("cannot make the folder {} for logs: {}", path, error.message()));
  return {};
}

Status check_port(std::uint16_t port, const std::string& owner) {
  const auto answer = http::probe({.port = port, .target = "/health", .timeout = kProbeTimeout});
  if (!answer && answer.error().code == Code::kUnavailable) return {};
  return fail(Code::kUnavailable,
              fmt::format("port {} of {} is taken by another process", port, owner));
}

// Somebody else's server on an engine's port would answer /health in its place.
Status check_ports(const Topology& topology) {
  for (const EngineSpec& engine : topology.engines) {
    if (auto free = check_port(engine.port, fmt::format("engine '{}'", engine.name)); !free)
      return free;
  }
  return topology.proxy ? check_port(topology.proxy->port, "the proxy") : Status{};
}

struct Programs {
  std::string daemon;
  std::string proxy;  // empty: no proxy is wanted
};

Result<Programs> find_programs(const Topology& topology, const UpCommand& command) {
  Programs found;
  auto daemon = find_program(command, "sluiced");
  if (!daemon) return std::unexpected(daemon.error());
  found.daemon = std::move(*daemon);
  if (!topology.proxy) return found;
  auto proxy = find_program(command, "sluice-proxy");
  if (!proxy) return std::unexpected(proxy.error());
  found.proxy = std::move(*proxy);
  return found;
}

std::string log_path(const Topology& topology, std::string_view program) {
  return fmt::format("{}/{}.log", topology.log_directory, program);
}

Stage daemon_stage(const Topology& topology, const UpCommand& command, const std::string& program,
                   const std::string& directory) {
  std::vector<std::string> words = {program};
  for (std::string& word : daemon_arguments(topology)) words.push_back(std::move(word));
  return {.spec = {.name = "sluiced",
                   .command = std::move(words),
                   .environment = command.environment,
                   .log_path = log_path(topology, "sluiced")},
          .first = true,
          .awaited = fmt::format("on the socket in {}", directory),
          .ready = daemon_ready(directory)};
}

Stage engine_stage(const Topology& topology, const UpCommand& command, const EngineSpec& engine,
                   const std::string& token, const std::string& sockets) {
  std::map<std::string, std::string> changes = engine.environment;
  changes.try_emplace("VLLM_RPC_BASE_PATH", sockets);  // it leaves one there at each start
  if (!token.empty()) changes["VLLM_API_KEY"] = token;
  return {.spec = {.name = engine.name,
                   .command = engine_command(engine, topology),
                   .environment = changed_environment(command.environment, changes),
                   .log_path = log_path(topology, engine.name)},
          .first = false,
          .awaited = fmt::format("GET http://127.0.0.1:{}/health", engine.port),
          .ready = answers(engine.port, "/health")};
}

// Ready when it has found every engine healthy.
Stage proxy_stage(const Topology& topology, const ProxySpec& proxy, const UpCommand& command,
                  const std::string& program) {
  std::vector<std::string> words = {program};
  for (std::string& word : proxy_arguments(topology, engine_token_path(topology)))
    words.push_back(std::move(word));
  return {.spec = {.name = "proxy",
                   .command = std::move(words),
                   .environment = command.environment,
                   .log_path = log_path(topology, "proxy")},
          .first = false,
          .awaited = fmt::format("GET http://127.0.0.1:{}/readyz?all", proxy.port),
          .ready = answers(proxy.port, "/readyz?all")};
}

std::vector<Stage> stages_of(const Topology& topology, const UpCommand& command,
                             const Programs& programs, const std::string& directory,
                             const std::string& token, const std::string& run_folder) {
  std::vector<Stage> stages;
  stages.push_back(daemon_stage(topology, command, programs.daemon, directory));
  for (const EngineSpec& engine : topology.engines)
    stages.push_back(engine_stage(topology, command, engine, token, run_folder));
  if (topology.proxy)
    stages.push_back(proxy_stage(topology, *topology.proxy, command, programs.proxy));
  return stages;
}

json describe(const Topology& topology, const std::string& directory) {
  json engines = json::array();
  for (const EngineSpec& engine : topology.engines) {
    engines.push_back({{"name", engine.name},
                       {"role", name(engine.role)},
                       {"model", engine.model},
                       {"port", engine.port},
                       {"address", fmt::format("http://127.0.0.1:{}", engine.port)}});
  }
  json out = {{"pid", ::getpid()},
              {"arena", topology.arena_name},
              {"directory", directory},
              {"log_directory", topology.log_directory},
              {"engines", std::move(engines)}};
  if (topology.proxy) {
    out["proxy"] = {{"port", topology.proxy->port}, {"address", proxy_address(*topology.proxy)}};
    out["engine_token_file"] = engine_token_path(topology);
  }
  return out;
}

int show_plan(const Output& out, const std::vector<Stage>& stages) {
  json list = json::array();
  for (const Stage& stage : stages) {
    if (out.json()) {
      list.push_back({{"name", stage.spec.name}, {"command", stage.spec.command}});
    } else {
      out.line(fmt::format("{} {}", out.paint(fmt::format("{}:", stage.spec.name), Tone::kStrong),
                           shell_line(stage.spec.command)));
    }
  }
  if (out.json()) out.value({{"stages", std::move(list)}});
  return app::kExitOk;
}

// Random, as long as a SHA-256; only this user may read the file, which goes when `up` leaves.
class EngineToken {
 public:
  explicit EngineToken(std::string path) : path_(std::move(path)) {}
  ~EngineToken() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  EngineToken(const EngineToken&) = delete;
  EngineToken& operator=(const EngineToken&) = delete;

  Result<std::string> make() {
    if (path_.empty()) return "";
    std::array<unsigned char, 32> random{};
    if (::getentropy(random.data(), random.size()) != 0)
      return fail(Code::kIo, fmt::format("no random bytes: {}", std::strerror(errno)));
    std::string token = fmt::format("{:02x}", fmt::join(random, ""));
    ::unlink(path_.c_str());
    const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file ||
        ::write(file.get(), token.data(), token.size()) != static_cast<ssize_t>(token.size())) {
      return fail(Code::kIo, fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
    }
    return token;
  }

 private:
  std::string path_;
};

// Removed when `up` leaves.
class ReadyFile {
 public:
  explicit ReadyFile(std::string path) : path_(std::move(path)) { remove(); }
  ~ReadyFile() { remove(); }
  ReadyFile(const ReadyFile&) = delete;
  ReadyFile& operator=(const ReadyFile&) = delete;

  Status write(const json& content) {
    if (path_.empty()) return {};
    const std::string text = app::dump(content, 2) + "\n";
    const std::span<const std::byte> piece = std::as_bytes(std::span(text));
    return write_file(path_, std::span(&piece, 1));
  }

 private:
  void remove() const {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  std::string path_;
};

int supervise(const Global& global, const UpCommand& command, const Topology& topology,
              const std::string& directory, std::vector<Stage> stages) {
  const Output out(global.look);
  Progress progress(out);
  const Interrupt interrupt({SIGHUP});
  ReadyFile ready_file(command.ready_file);
  const auto on_ready = [&]() -> Status {
    const json content = describe(topology, directory);
    if (auto written = ready_file.write(content); !written) return written;
    progress.event("sluice", "all_ready",
                   fmt::format("everything is up: arena '{}', {} engines; ctrl-c stops all of it",
                               topology.arena_name, topology.engines.size()),
                   Tone::kGood);
    for (const EngineSpec& engine : topology.engines) {
      progress.note(fmt::format("  {:<20} {:<12} http://127.0.0.1:{}", engine.name,
                                name(engine.role), engine.port));
    }
    if (topology.proxy)
      progress.note(fmt::format("  {:<20} {:<12} {}/v1", "proxy", "clients here",
                                proxy_address(*topology.proxy)));
    return {};
  };
  return Supervisor(std::move(stages),
                    {.ready_timeout = topology.ready_timeout,
                     .stop_timeout = topology.stop_timeout,
                     .show_logs = command.logs,
                     .on_ready = on_ready},
                    progress, interrupt)
      .run();
}

int refuse(const Output& out, const Error& error) {
  out.error(error);
  if (error.code == Code::kUnavailable) return app::kExitBusy;
  return error.code == Code::kInvalidArgument || error.code == Code::kLimit ? app::kExitBadConfig
                                                                            : app::kExitError;
}

}  // namespace

int run(const Global& global, const UpCommand& command) {
  const Output out(global.look);
  auto topology = read_topology(global, command);
  if (!topology) return refuse(out, topology.error());
  if (!command.log_directory.empty()) topology->log_directory = command.log_directory;
  topology->log_directory = log_directory(*topology);
  if (command.ready_timeout) topology->ready_timeout = *command.ready_timeout;
  if (command.stop_timeout) topology->stop_timeout = *command.stop_timeout;
  const auto directory = arena_directory(*topology);
  if (!directory) return refuse(out, directory.error());
  const auto programs = find_programs(*topology, command);
  if (!programs) return refuse(out, programs.error());
  if (command.dry_run)
    return show_plan(out, stages_of(*topology, command, *programs, *directory, "", ""));
  if (const auto made = make_folder(topology->log_directory); !made)
    return refuse(out, made.error());
  if (const auto free = check_ports(*topology); !free) return refuse(out, free.error());
  const auto run_folder = RunFolder::make(topology->log_directory);
  if (!run_folder) return refuse(out, run_folder.error());
  EngineToken token_file(engine_token_path(*topology));
  const auto token = token_file.make();
  if (!token) return refuse(out, token.error());
  return supervise(
      global, command, *topology, *directory,
      stages_of(*topology, command, *programs, *directory, *token, run_folder->path()));
}

}  // namespace sluice::cli
