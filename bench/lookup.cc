// lookup: what asking for 64 keys costs in an index of any size, and what the index itself takes.
//
//   fill      puts objects 0 .. --objects, each the smallest there is
//   measure   --count batches of 64 present keys, each key asked for once in a random order over the whole index; the keys
//             of a batch are made just before, as by a caller that has parsed a request
//   overhead  bytes of index and records, and of the whole control segment
#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <random>
#include <thread>

#include "rig.h"

namespace sluice::bench {
namespace {

constexpr std::size_t kBatch = 64;
constexpr std::uint64_t kThreads = 8;  // so that the daemon finds several requests at a time

void fill(const Options& o) {
  const auto client = attach(o);
  const std::array<std::byte, 64> data{};
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = t; i < o.objects; i += kThreads) put(*client, i, data);
    });
  }
}

void measure(const Options& o) {
  const auto client = attach(o, {.populate_bytes_max = 0});
  std::vector<std::uint32_t> order(o.objects);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(o.seed));
  Series series("lookup_ns_per_key", "ns");
  std::vector<ObjectKey> keys;
  std::array<Presence, kBatch> found{};
  for (std::uint64_t i = 0, at = 0; i < o.count; ++i) {
    keys.clear();
    for (std::size_t k = 0; k < kBatch; ++k) keys.push_back(key_of(order[at++ % order.size()]));
    const Instant start = now();
    client->lookup(keys, found);
    const Instant end = now();
    if (!std::ranges::all_of(found, [](Presence p) { return p == Presence::kPresent; }))
      die("an object is missing");
    series.add(static_cast<double>(end - start) / kBatch);
  }
  series.print();
}

void measure_overhead(const Options& o) {
  const auto client = attach(o);
  const ArenaStats stats = client->stats();
  if (stats.objects != o.objects) die("the arena does not hold what it should");
  Series index("index_bytes", "B"), records("record_bytes", "B"),
      control("control_segment_bytes", "B");
  index.add(static_cast<double>(stats.index_bytes));
  records.add(static_cast<double>(stats.record_bytes));
  control.add(static_cast<double>(std::filesystem::file_size(o.directory + "/control")));
  index.print(), records.print(), control.print();
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  return run_command(argc, argv,
                     {{"fill", fill}, {"measure", measure}, {"overhead", measure_overhead}});
}
