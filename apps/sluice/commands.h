// commands.h: what each subcommand was asked to do, and the function that does it.
//
// Every run_...() answers an exit code of common/exit_code.h and has printed why when it is not 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/settings.h"
#include "output.h"

namespace sluice::cli {

// What all of them share.
struct Global {
  std::string arena = "default";
  std::string directory;  // of the arena; empty: by its name
  std::chrono::milliseconds timeout{5000};
  Look look;
};

struct LsCommand {
  std::string prefix;
  std::uint64_t limit = 0;  // 0: all
  bool long_form = false;
};
struct StatCommand {
  std::string key;  // empty: the arena
};
struct PutCommand {
  std::string key;
  std::string file;
  std::string tensor;  // of a file with several; empty: all of them
  std::optional<std::chrono::milliseconds> soft_pin;
  bool hard_pin = false;
  bool checksums = true;
};
struct GetCommand {
  std::string key;
  std::string file;
  std::string tensor;
  std::string format;  // npy, safetensors, raw; empty: by the file's name
};
struct RmCommand {
  std::string key;
  std::string prefix;
};
struct TopCommand {
  std::string file;   // topology; empty: the arena, and the proxy if one is named
  std::string proxy;  // its address; empty: the topology's, or none
  std::string token;  // for it; empty: the topology's, or none
  std::chrono::milliseconds interval{1000};
  std::uint64_t count = 0;  // 0: until interrupted; in a pipe one
};
struct BenchCommand {
  std::chrono::milliseconds time_per_case{400};
  std::vector<std::uint64_t> sizes;  // empty: 4 KiB, 1 MiB, 16 MiB
};
struct DoctorCommand {
  std::string file;  // topology; empty: this machine and the running arena only
  bool measure = true;
  std::string python = "python3";
  std::vector<std::string> environment;  // NAME=value, for the interpreter
};
struct UpCommand {
  std::string file;  // topology; empty: from the flags below
  std::string model;
  std::string python = "python3";
  std::uint16_t port = 8100;  // of the encoder; prefill+decode gets the next one
  std::string size;
  std::vector<std::string> engine_args;  // --engine-arg, in order
  std::string log_directory;
  std::optional<std::chrono::milliseconds> ready_timeout;
  std::optional<std::chrono::milliseconds> stop_timeout;
  std::string ready_file;
  bool logs = false;  // engines' logs on the terminal too
  bool dry_run = false;
  std::string self_path;                 // of this program: sluiced is looked for beside it
  std::string search_path;               // PATH
  std::vector<std::string> environment;  // NAME=value, for what is started
};
struct ConfigCommand {
  std::vector<app::Effective> own;     // of this program
  std::vector<app::Effective> daemon;  // of a sluiced started in this environment
};

// The shape of the command line, for completion.
struct CommandShape {
  std::string name;
  std::string help;
  std::vector<std::pair<std::string, std::string>> flags;  // --name, help
};
struct CompletionCommand {
  std::string shell;
  std::vector<CommandShape> commands;  // the first is the program itself
};

using Command =
    std::variant<LsCommand, StatCommand, PutCommand, GetCommand, RmCommand, TopCommand,
                 BenchCommand, DoctorCommand, UpCommand, ConfigCommand, CompletionCommand>;

int run(const Global& global, const LsCommand& command);
int run(const Global& global, const StatCommand& command);
int run(const Global& global, const PutCommand& command);
int run(const Global& global, const GetCommand& command);
int run(const Global& global, const RmCommand& command);
int run(const Global& global, const TopCommand& command);
int run(const Global& global, const BenchCommand& command);
int run(const Global& global, const DoctorCommand& command);
int run(const Global& global, const UpCommand& command);
int run(const Global& global, const ConfigCommand& command);
int run(const Global& global, const CompletionCommand& command);

}  // namespace sluice::cli
