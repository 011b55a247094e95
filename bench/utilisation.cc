// utilisation: how much of an arena holds payload when the first put does not fit, after long use.
//
//   churn  objects of 0.1 to 30 MB, pinned so that eviction cannot help, come and go at random: --count rounds of filling
//          the arena until out_of_space, noting the share of payload, and removing a third of the objects
#include <random>
#include <vector>

#include "rig.h"

namespace sluice::bench {
namespace {

constexpr std::uint64_t kBytesMin = 100'000;
constexpr std::uint64_t kBytesMax = 30'000'000;
constexpr std::uint64_t kWarmRounds = 10;

struct Held {
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
};

void churn(const Options& o) {
  const auto client = attach(o, {.grant_ahead_bytes = 0});
  const auto arena_bytes = static_cast<double>(client->stats().arena_bytes);
  std::mt19937_64 random(o.seed);
  std::vector<Held> held;
  std::uint64_t payload = 0, number = 0;
  const PutOptions pinned{
      .timeout = std::chrono::milliseconds(0), .checksums = false, .hard_pin = true};
  // Reserved and published without writing: only the places matter.
  const auto put_one = [&](std::uint64_t bytes) {
    const NamedTensorSpec spec{
        .name = "tensor",
        .spec = {.dtype = DType::kU8, .shape = {static_cast<std::int64_t>(bytes)}}};
    PutOptions options = pinned;
    options.timeout = std::chrono::milliseconds(1);
    auto writer = client->reserve(key_of(number), std::span(&spec, 1), {}, options);
    // On a busy machine the daemon may not get its turn in time; only its answer counts.
    while (!writer && writer.error().code == Code::kTimedOut)
      writer = client->reserve(key_of(number), std::span(&spec, 1), {}, options);
    if (!writer) {
      if (writer.error().code == Code::kOutOfSpace) return false;
      die("reserve: " + writer.error().message);
    }
    must(writer->publish(), "publish");
    held.push_back({.number = number++, .bytes = bytes});
    payload += bytes;
    return true;
  };
  Series series("payload_share", "1");
  for (std::uint64_t round = 0; round < kWarmRounds + o.count; ++round) {
    while (put_one(kBytesMin + random() % (kBytesMax - kBytesMin + 1))) {
    }
    if (round >= kWarmRounds) series.add(static_cast<double>(payload) / arena_bytes);
    for (std::size_t i = held.size() / 3; i != 0; --i) {
      std::swap(held[random() % held.size()], held.back());
      must(client->remove(key_of(held.back().number)), "remove");
      payload -= held.back().bytes;
      held.pop_back();
    }
  }
  series.print();
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  return run_command(argc, argv, {{"churn", churn}});
}
