// sluice-proxy: one OpenAI endpoint in front of engines with different roles.
#include <cstdio>

#include "sluice-proxy/options.h"
#include "sluice-proxy/service.h"

int main(int argc, char** argv) {
  auto asked = sluice::proxy_app::read_invocation(argc, argv);
  if (const auto* answer = std::get_if<sluice::app::Answer>(&asked)) {
    std::fputs(answer->text.c_str(), answer->exit_code == 0 ? stdout : stderr);
    return answer->exit_code;
  }
  return sluice::proxy_app::run_service(std::move(std::get<sluice::proxy_app::Invocation>(asked)));
}
