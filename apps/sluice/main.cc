// sluice: the command line of Sluice.
#include <cstdio>

#include <signal.h>

#include "options.h"

int main(int argc, char** argv) {
  auto asked = sluice::cli::read_invocation(argc, argv);
  if (const auto* answer = std::get_if<sluice::cli::Answer>(&asked)) {
    std::fputs(answer->text.c_str(), answer->exit_code == 0 ? stdout : stderr);
    return answer->exit_code;
  }
  signal(SIGPIPE, SIG_DFL);  // `sluice ls | head` ends quietly, whatever the parent ignored
  const auto& invocation = std::get<sluice::cli::Invocation>(asked);
  const int code =
      std::visit([&](const auto& command) { return sluice::cli::run(invocation.global, command); },
                 invocation.command);
  return std::fflush(stdout) == 0 ? code : 1;
}
