// output.h: how results are shown: for people on a terminal, plainly in a pipe, or as JSON.
//
// Invariant: colour only on a terminal and without NO_COLOR; JSON output is one value per command
//            (one per line for `top`). Results go to the standard output, errors to the standard
//            error stream.
// Threads:   one owner.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <sluice/error.h>

namespace sluice::cli {

enum class Tone { kPlain, kGood, kWarning, kBad, kFaint, kStrong };

// How to show; decided once, in options.cc.
struct Look {
  bool json = false;
  bool terminal = false;  // the standard output is one
  bool colour = false;
  int columns = 100;
};

class Output {
 public:
  explicit Output(Look look) : look_(look) {}

  bool json() const noexcept { return look_.json; }
  bool terminal() const noexcept { return look_.terminal; }
  int columns() const noexcept { return look_.columns; }

  std::string paint(std::string_view text, Tone tone) const;
  void line(std::string_view text = "") const;  // control characters are shown, not sent
  // A title and what there is to say under it: one line, or as many as a narrow terminal needs.
  void flow(std::string_view title, const std::vector<std::string>& pieces) const;
  void value(const nlohmann::ordered_json& value)
      const;  // JSON, on one line in a pipe, indented on a terminal
  void row(const nlohmann::ordered_json& value) const;  // JSON on one line
  void error(const Error& error) const;

  // Columns are as wide as their widest cell; numbers are right-aligned. On a terminal that is too
  // narrow columns are left out, those with the highest number in `dropped` first; those with 0, or
  // none, never.
  struct Table {
    std::vector<std::string> header;
    std::vector<std::vector<std::string>> rows;
    std::vector<bool> right;   // by column
    std::vector<int> dropped;  // by column; may be left empty
  };
  void table(const Table& table) const;

 private:
  Look look_;
};

// Text from elsewhere (keys, labels, log lines) with control characters replaced, so that it cannot
// drive a terminal.
std::string printable(std::string_view text);

}  // namespace sluice::cli
