// command_line.h: the command line of a program that serves: its settings as flags, the file they
// may stand in, and the questions that it answers instead of starting.
//
// Invariant: what is said as a flag wins over the environment, that over the file, that over the
//            defaults. Nothing unknown is ignored.
// Threads:   one owner. Reads no variable by itself: it is handed the environment.
// Failure:   a wrong command line is an Answer with exit code 2, a wrong setting one with 78; both
//            name what is wrong.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/error.h>

#include "common/settings.h"

namespace CLI {
class App;
}

namespace sluice::app {

// Nothing to run: print this and leave.
struct Answer {
  int exit_code = 0;
  std::string
      text;  // to the standard output when exit_code is 0, else to the standard error stream
};

// One flag per row of a settings table.
class SettingFlags {
 public:
  // `group`: of the help text; empty: among the program's own flags.
  void add(CLI::App& program, std::span<const Setting> table, const std::string& group);
  Layer given() const;  // those that were said; after parsing

 private:
  CLI::App* program_ = nullptr;
  std::unique_ptr<Layer> values_ = std::make_unique<Layer>();  // CLI11 keeps references
};

// What a file says, as far as it is settings.
using FileReader = std::function<Result<Layer>(std::string_view text, std::string_view path)>;

// Reads the file, if `path` is not empty, and the environment.
Result<Layers> read_layers(std::span<const Setting> table, std::string path, Layer flags,
                           const Environment& environment, const FileReader& read_file = {});

// Something that --print-config shows beside the settings.
struct ConfigNote {
  std::string name;
  std::vector<std::string> values;
  std::string where;  // empty: `values` is a list, of any length
};

class CommandLine {
 public:
  struct Shape {
    std::string name;   // of the program
    std::string about;  // first lines of --help
    std::span<const Setting> table;
    std::string config_variable;  // SLUICE_CONFIG
    std::string config_help;      // of --config
  };
  struct ListFlag {
    std::string name, form, help;  // --instance, ROLE=URL; may be given several times
  };

  CommandLine(Shape shape, Environment environment);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  void add(const ListFlag& flag, std::vector<std::string>& values);  // before parse()
  std::optional<Answer> parse(int argc, char** argv);
  Result<std::vector<Effective>> settings(const FileReader& read_file = {}) const;

  bool wants_config() const noexcept { return print_config_; }  // --print-config
  Answer config(const std::vector<Effective>& effective,
                const std::vector<ConfigNote>& notes) const;
  Answer refuse(const Error& error) const;  // exit code 78

 private:
  Shape shape_;
  Environment environment_;
  std::unique_ptr<CLI::App> program_;
  SettingFlags flags_;
  std::string config_path_;
  bool print_config_ = false, as_json_ = false, version_ = false, print_table_ = false;
};

// The effective settings, a line or a JSON member each.
std::string describe(const std::vector<Effective>& effective, const std::vector<ConfigNote>& notes,
                     bool as_json);

}  // namespace sluice::app
