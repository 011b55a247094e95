#include "kill_points.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include <unistd.h>

#include "base/kill_point.h"

namespace sluice {
namespace {

// The hook has no other place to look: it is called from code that knows nothing of tests.
std::string armed_name;
unsigned hits_left = 0;

}  // namespace

void kill_point(const char* name) noexcept {
  if (hits_left == 0 || armed_name != name || --hits_left != 0) return;
  ::kill(::getpid(), SIGKILL);
}

namespace crash {

void arm_kill_point(std::string name, unsigned hit) {
  armed_name = std::move(name);
  hits_left = hit;
}

std::vector<std::string> kill_point_names() {
  const std::regex pattern("KILL_POINT\\(\"([^\"]+)\"\\)");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SLUICE_STORE_SOURCES)) {
    if (entry.path().extension() != ".cc") continue;
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end;
         ++match) {
      names.insert((*match)[1]);
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace crash
}  // namespace sluice
