// sluiced: the daemon that owns the shared-memory arena of one machine.
#include <cstdio>

#include "sluiced/options.h"
#include "sluiced/service.h"

int main(int argc, char** argv) {
  auto asked = sluice::daemon::read_invocation(argc, argv);
  if (const auto* answer = std::get_if<sluice::app::Answer>(&asked)) {
    std::fputs(answer->text.c_str(), answer->exit_code == 0 ? stdout : stderr);
    return answer->exit_code;
  }
  return sluice::daemon::run_service(std::move(std::get<sluice::daemon::Invocation>(asked)));
}
