// options.h: what `sluice` was asked to do. The only place that reads argv and the environment.
#pragma once

#include <string>
#include <variant>

#include "commands.h"

namespace sluice::cli {

struct Invocation {
  Global global;
  Command command;
};

// Nothing to run: print this and leave; to the standard output when exit_code is 0.
struct Answer {
  int exit_code = 0;
  std::string text;
};

std::variant<Invocation, Answer> read_invocation(int argc, char** argv);

}  // namespace sluice::cli
