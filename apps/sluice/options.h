// options.h: what `sluice` was asked to do. The only place that reads argv and the environment.
#pragma once

#include <string>
#include <variant>

#include "commands.h"
#include "common/command_line.h"

namespace sluice::cli {

struct Invocation {
  Global global;
  Command command;
};

using app::Answer;

std::variant<Invocation, Answer> read_invocation(int argc, char** argv);

}  // namespace sluice::cli
