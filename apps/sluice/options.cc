#include "options.h"

#include <cstdlib>
#include <deque>
#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <sluice/version.h>

#include "common/daemon_settings.h"
#include "common/exit_code.h"
#include "common/nearest.h"
#include "common/quantity.h"
#include "common/token.h"
#include "fetch.h"

namespace sluice::cli {
namespace {

constexpr const char* kAbout =
    "sluice: operates the shared-memory arena that sluiced owns, and the engines around it.\n"
    "Exit codes: 0 done, 1 failed, 2 wrong command line, 75 busy, 78 bad configuration.";

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::vector<std::string> whole_environment() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) out.emplace_back(*entry);
  return out;
}

// Settings that every command shares: flags, environment, defaults.
const std::vector<app::Setting>& own_table() {
  static const std::vector<app::Setting> kTable = {
      {"arena", "NAME", "default", "Arena to use, by its name."},
      {"directory", "PATH", "", "Folder of the arena; wins over its name."},
      {"timeout", "DURATION", "5s", "How long a request may take."},
  };
  return kTable;
}

// Settings of `top` alone.
const std::vector<app::Setting>& top_table() {
  static const std::vector<app::Setting> kTable = {
      {"proxy", "ADDRESS", "", "Proxy to watch, such as http://127.0.0.1:8080."},
      {"token-file", "PATH", "",
       "File (mode 0600) with the bearer token of that proxy. The variable SLUICE_TOKEN may hold "
       "the token instead."},
  };
  return kTable;
}

// CLI11 fills these; kept in one place because it stores references.
struct Raw {
  app::SettingFlags own, of_top;
  bool json = false, version = false, no_color = false;
  LsCommand ls;
  StatCommand stat;
  PutCommand put;
  GetCommand get;
  RmCommand rm;
  TopCommand top;
  DoctorCommand doctor;
  UpCommand up;
  CompletionCommand completion;
  std::string soft_pin, interval = "1s", time_per_case = "400ms", ready_timeout, stop_timeout,
                        config_file;
  std::vector<std::string> sizes;
  bool no_checksums = false, no_measure = false, once = false;
};

// Durations and sizes arrive as text; a wrong one is a usage error that names its flag.
template <class T>
Status take_duration(const std::string& text, const char* flag, T& to) {
  if (text.empty()) return {};
  const auto duration = app::parse_duration(text);
  if (!duration)
    return fail(Code::kInvalidArgument, fmt::format("{}: {}", flag, duration.error().message));
  to = std::chrono::ceil<std::chrono::milliseconds>(*duration);
  return {};
}

void add_data_commands(CLI::App& program, Raw& raw) {
  auto* ls = program.add_subcommand("ls", "List what the arena holds.");
  ls->add_option("prefix", raw.ls.prefix, "Only keys, or plain names, that start with this.");
  ls->add_option("--limit", raw.ls.limit, "At most so many; 0: all.");
  ls->add_flag("-l,--long", raw.ls.long_form, "Sizes, ages and states in a pipe too.");
  auto* stat = program.add_subcommand("stat", "Show one object, verified, or the arena's numbers.");
  stat->add_option("key", raw.stat.key, "A key or a plain name; none: the arena.");
  auto* put = program.add_subcommand("put", "Put the tensors of a .npy or .safetensors file.");
  put->add_option("key", raw.put.key, "A key or a plain name.")->required();
  put->add_option("file", raw.put.file, "The file; - reads the standard input.")->required();
  put->add_option("--tensor", raw.put.tensor, "Only this tensor of the file.");
  put->add_option("--soft-pin", raw.soft_pin,
                  "Keep for this long, unless nothing else is left to evict.");
  put->add_flag("--pin", raw.put.hard_pin, "Keep until removed.");
  put->add_flag("--no-checksums", raw.no_checksums, "Store without checksums.");
  auto* get = program.add_subcommand("get", "Write an object, verified, to a file.");
  get->add_option("key", raw.get.key, "A key or a plain name.")->required();
  get->add_option("file", raw.get.file, "The file; - writes to the standard output.")->required();
  get->add_option("--tensor", raw.get.tensor, "Only this tensor of the object.");
  get->add_option("--format", raw.get.format,
                  "npy, safetensors or raw; without it the file's name decides.")
      ->check(CLI::IsMember({"npy", "safetensors", "raw"}));
  auto* rm = program.add_subcommand("rm", "Remove an object, or all that start with a prefix.");
  auto* rm_key = rm->add_option("key", raw.rm.key, "A key or a plain name.");
  auto* rm_prefix = rm->add_option("--prefix", raw.rm.prefix,
                                   "Remove every key, or plain name, that starts with this.");
  rm_key->excludes(rm_prefix);
  rm->require_option(1);
}

void add_other_commands(CLI::App& program, Raw& raw) {
  auto* top = program.add_subcommand(
      "top", "Watch the arena and the serving path around it; one snapshot when piped.");
  top->add_option("file", raw.top.file, "Topology file of `sluice up`: its arena, proxy, engines.");
  raw.of_top.add(*top, top_table(), "");
  top->add_flag("--once", raw.once, "One view, as with --count 1.");
  top->add_option("--interval", raw.interval, "Time between two views.");
  top->add_option("--count", raw.top.count, "Leave after so many views.");
  auto* bench = program.add_subcommand("bench", "Measure the running arena against a plain copy.");
  bench->add_option("--size", raw.sizes, "Object sizes, for instance 4K 1M 16M.");
  bench->add_option("--time", raw.time_per_case, "Time for one figure.");
  auto* doctor = program.add_subcommand(
      "doctor", "Check machine, configuration and arena; say how to repair what is wrong.");
  doctor->add_option("file", raw.doctor.file, "Topology file of `sluice up` to check.");
  doctor->add_option("--python", raw.doctor.python,
                     "Python of the engines when no file names one.");
  doctor->add_flag("--no-measure", raw.no_measure, "Do not measure speed.");
  auto* up =
      program.add_subcommand("up", "Start sluiced and engines, watch them, stop them together.");
  up->add_option("file", raw.up.file, "Topology file (docs/operating/topology.md).");
  up->add_option("--model", raw.up.model,
                 "Without a file: this model, one encoder and one prefill+decode engine.");
  up->add_option("--port", raw.up.port,
                 "Without a file: port of the encoder; the other engine gets the next one.");
  up->add_option("--size", raw.up.size, "Without a file: size of the arena.");
  up->add_option("--python", raw.up.python, "Without a file: Python of the engines.");
  up->add_option("--engine-arg", raw.up.engine_args,
                 "Without a file: one more argument for both engines, as "
                 "--engine-arg=--dtype=bfloat16; repeatable.")
      ->expected(1)
      ->take_all();
  up->add_option("--log-dir", raw.up.log_directory, "Folder of the log files.");
  up->add_option("--ready-timeout", raw.ready_timeout, "How long each stage may take to come up.");
  up->add_option("--stop-timeout", raw.stop_timeout, "How long each process may take to stop.");
  up->add_option("--ready-file", raw.up.ready_file,
                 "Written when everything is ready, removed at the end.");
  up->add_flag("--logs", raw.up.logs, "Show the engines' logs here too, each line with its name.");
  up->add_flag("--dry-run", raw.up.dry_run, "Show the commands that would be started, and leave.");
  auto* config =
      program.add_subcommand("config", "Show effective settings and where each came from.");
  config->add_option("--config", raw.config_file, "Configuration file of sluiced to read as well.");
  auto* completion = program.add_subcommand("completion", "Print a completion script.");
  completion->add_option("shell", raw.completion.shell, "bash, zsh or fish.")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

CommandShape shape_of(const CLI::App& command) {
  CommandShape shape{.name = command.get_name(), .help = command.get_description(), .flags = {}};
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames())
      shape.flags.emplace_back("--" + name, option->get_description());
  }
  return shape;
}

Look read_look(const Raw& raw) {
  Look look{
      .json = raw.json, .terminal = ::isatty(STDOUT_FILENO) == 1, .colour = false, .columns = 100};
  const auto no_color = environment("NO_COLOR");
  look.colour = look.terminal && (!no_color || no_color->empty()) &&
                environment("TERM").value_or("") != "dumb";
  winsize size{};
  if (look.terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    look.columns = size.ws_col;
  return look;
}

Result<Global> read_global(const std::vector<app::Effective>& effective, const Raw& raw) {
  Global global;
  global.look = read_look(raw);
  for (const app::Effective& entry : effective) {
    if (entry.name == "arena") global.arena = entry.value;
    if (entry.name == "directory") global.directory = entry.value;
    if (entry.name == "timeout") {
      if (const auto taken = take_duration(entry.value, entry.where.c_str(), global.timeout);
          !taken)
        return std::unexpected(taken.error());
    }
  }
  return global;
}

std::vector<app::Effective> effective(std::span<const app::Setting> table, app::Layer flags) {
  return app::merge(table, {.file = {},
                            .file_path = "",
                            .environment = app::layer_from_environment(environment, table),
                            .flags = std::move(flags)});
}

Result<ConfigCommand> read_config(const std::vector<app::Effective>& own, const Raw& raw) {
  ConfigCommand command{.own = own, .daemon = {}};
  for (app::Effective& entry : effective(top_table(), {})) command.own.push_back(std::move(entry));
  app::Layer flags;
  for (const app::Effective& entry : own) {  // what was said here holds for the daemon too
    if (entry.source == app::Source::kFlag && entry.name != "timeout")
      flags[entry.name] = entry.value;
  }
  const auto layers = app::read_layers(
      app::daemon_settings_table(),
      raw.config_file.empty() ? environment("SLUICE_CONFIG").value_or("") : raw.config_file,
      std::move(flags), environment);
  if (!layers) return std::unexpected(layers.error());
  command.daemon = app::merge(app::daemon_settings_table(), *layers);
  return command;
}

// A file or an address that is wrong is a bad configuration: it may stand in the environment.
Result<TopCommand> read_top(Raw& raw) {
  std::string token_file;
  for (const app::Effective& entry : effective(top_table(), raw.of_top.given())) {
    if (entry.name == "proxy") raw.top.proxy = entry.value;
    if (entry.name == "token-file") token_file = entry.value;
  }
  if (raw.once) raw.top.count = 1;
  if (!raw.top.proxy.empty()) {
    if (const auto fine = check_address(raw.top.proxy); !fine)
      return fail(Code::kInvalidArgument, fmt::format("--proxy: {}", fine.error().message));
  }
  auto token = app::read_token(token_file, "SLUICE_TOKEN", environment);
  if (!token) return std::unexpected(token.error());
  raw.top.token = std::move(*token);
  return raw.top;
}

Status finish(Raw& raw) {
  raw.put.checksums = !raw.no_checksums;
  raw.doctor.measure = !raw.no_measure;
  for (const Status& status :
       {take_duration(raw.soft_pin, "--soft-pin", raw.put.soft_pin),
        take_duration(raw.interval, "--interval", raw.top.interval),
        take_duration(raw.ready_timeout, "--ready-timeout", raw.up.ready_timeout),
        take_duration(raw.stop_timeout, "--stop-timeout", raw.up.stop_timeout)}) {
    if (!status) return status;
  }
  if (raw.top.interval.count() <= 0)
    return fail(Code::kInvalidArgument, "--interval must be above 0");
  if (raw.once && raw.top.count > 1)
    return fail(Code::kInvalidArgument, "--once and --count exclude each other");
  if (raw.put.soft_pin && raw.put.hard_pin)
    return fail(Code::kInvalidArgument, "--pin and --soft-pin exclude each other");
  return {};
}

Result<BenchCommand> read_bench(const Raw& raw) {
  BenchCommand command;
  if (const auto taken = take_duration(raw.time_per_case, "--time", command.time_per_case); !taken)
    return std::unexpected(taken.error());
  for (const std::string& text : raw.sizes) {
    const auto bytes = app::parse_size(text);
    if (!bytes)
      return fail(Code::kInvalidArgument, fmt::format("--size: {}", bytes.error().message));
    if (*bytes == 0) return fail(Code::kInvalidArgument, "--size: an object has at least one byte");
    command.sizes.push_back(*bytes);
  }
  return command;
}

std::string self_path() {
  std::string path(4096, '\0');
  const ssize_t n = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return path;
}

Answer usage(std::string_view why, std::string_view command = "") {
  return {app::kExitUsage, fmt::format("sluice: {}\nTry sluice {}{}--help.\n", why, command,
                                       command.empty() ? "" : " ")};
}

std::string unknown_command(int argc, char** argv, const CLI::App& program) {
  std::vector<std::string> known;
  for (const CLI::App* command : program.get_subcommands({})) known.push_back(command->get_name());
  const auto takes_a_value = [](std::string_view word) {
    return std::ranges::any_of(
        own_table(), [&](const app::Setting& setting) { return word == "--" + setting.name; });
  };
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with('-') || takes_a_value(argv[i - 1])) continue;
    if (std::ranges::find(known, word) != known.end()) return "";
    return fmt::format("unknown command '{}'{}", word, app::did_you_mean(word, known));
  }
  return "";
}

std::variant<Invocation, Answer> choose(const CLI::App& program, Raw& raw) {
  if (const auto finished = finish(raw); !finished) return usage(finished.error().message);
  const auto own = effective(own_table(), raw.own.given());
  auto global = read_global(own, raw);
  if (!global) return usage(global.error().message);
  const std::string name = program.get_subcommands().front()->get_name();
  Invocation out{.global = std::move(*global), .command = {}};
  if (name == "ls") out.command = raw.ls;
  if (name == "stat") out.command = raw.stat;
  if (name == "put") out.command = raw.put;
  if (name == "get") out.command = raw.get;
  if (name == "rm") out.command = raw.rm;
  if (name == "top") {
    auto top = read_top(raw);
    if (!top) return Answer{app::kExitBadConfig, fmt::format("sluice: {}\n", top.error().message)};
    out.command = std::move(*top);
  }
  if (name == "doctor") {
    raw.doctor.environment = whole_environment();
    out.command = raw.doctor;
  }
  if (name == "up") {
    raw.up.self_path = self_path();
    raw.up.search_path = environment("PATH").value_or("");
    raw.up.environment = whole_environment();
    if (raw.up.file.empty() == raw.up.model.empty())
      return usage("name a topology file, or a model with --model", "up");
    out.command = raw.up;
  }
  if (name == "bench") {
    auto bench = read_bench(raw);
    if (!bench) return usage(bench.error().message, "bench");
    out.command = std::move(*bench);
  }
  if (name == "config") {
    auto config = read_config(own, raw);
    if (!config)
      return Answer{app::kExitBadConfig, fmt::format("sluice: {}\n", config.error().message)};
    out.command = std::move(*config);
  }
  if (name == "completion") {
    raw.completion.commands.push_back(shape_of(program));
    for (const CLI::App* command : program.get_subcommands({}))
      raw.completion.commands.push_back(shape_of(*command));
    out.command = raw.completion;
  }
  return out;
}

}  // namespace

std::variant<Invocation, Answer> read_invocation(int argc, char** argv) {
  Raw raw;
  CLI::App program(kAbout, "sluice");
  program.set_help_flag("-h,--help", "Show this text.");
  program.add_flag("--version", raw.version, "Show the version.");
  program.add_flag("--json", raw.json, "Answer with JSON.");
  raw.own.add(program, own_table(), "");
  program.fallthrough();  // before the commands are made: they inherit it
  add_data_commands(program, raw);
  add_other_commands(program, raw);
  program.require_subcommand(0, 1);
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = program.get_subcommands();
    return Answer{app::kExitOk, chosen.empty() ? program.help() : chosen.front()->help()};
  } catch (const CLI::ParseError& error) {  // CLI11's edge
    const std::string unknown = unknown_command(argc, argv, program);
    const auto chosen = program.get_subcommands();
    return usage(unknown.empty() ? error.what() : unknown,
                 chosen.empty() ? "" : chosen.front()->get_name());
  }
  if (raw.version) return Answer{app::kExitOk, fmt::format("sluice {}\n", kVersion)};
  if (program.get_subcommands().empty()) return Answer{app::kExitUsage, program.help()};
  return choose(program, raw);
}

}  // namespace sluice::cli
