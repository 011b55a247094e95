// attached: --objects processes that attach and do nothing until the standard input ends.
#include <memory>
#include <vector>

#include "pair.h"
#include "rig.h"

namespace sluice::bench {
namespace {

struct Count {
  std::atomic<std::uint64_t> attached{0};
};

void hold(const Options& o) {
  Shared<Count> count;
  std::vector<std::unique_ptr<Child>> children;
  for (std::uint64_t i = 0; i < o.objects; ++i) {
    children.push_back(std::make_unique<Child>([&] {
      const auto client = attach(o);
      ++count->attached;
      for (;;) ::pause();
    }));
  }
  until([&] { return count->attached == o.objects; });
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  return run_command(argc, argv, {{"hold", hold}});
}
