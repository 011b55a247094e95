// get: what a get of a present, verified object costs, and how readers add up.
//
//   fill     puts objects 0 .. --objects
//   latency  --count gets with release of one object, each timed
//   scaling  --count rounds: one reader process, then the other, then both; gets a second
#include <array>

#include "pair.h"
#include "rig.h"

namespace sluice::bench {
namespace {

constexpr std::uint64_t kRoundNs = 100 * kNsPerMs;

void fill(const Options& o) {
  const auto client = attach(o);
  RotatingBuffers buffers(3, o.bytes);
  for (std::uint64_t i = 0; i < o.objects; ++i) put(*client, i, buffers.next());
}

void measure_latency(const Options& o) {
  const auto client = attach(o);
  const ObjectKey key = key_of(0);
  must(client->get(key), "get").release();
  Series series("get_ns", "ns");
  for (std::uint64_t i = 0; i < o.count; ++i) {
    const Instant start = now();
    auto lease = client->get(key);
    if (!lease) die(lease.error().message);
    lease->release();
    series.add_ns(start, now());
  }
  series.print();
}

struct Round {
  std::atomic<std::uint64_t> number{0};  // raised by the parent: go
  std::atomic<std::uint64_t> start_ns{0}, end_ns{0};
  std::atomic<std::uint32_t> readers{0};             // bit 0: the first, bit 1: the second
  std::array<std::atomic<std::uint64_t>, 2> done{};  // the round that this reader has finished
  std::array<std::atomic<std::uint64_t>, 2> gets{}, took_ns{};
};

void reader(const Options& o, Round& round, std::size_t me) {
  const auto client = attach(o);
  std::vector<ObjectKey> keys;
  for (std::uint64_t i = 0; i < o.objects; ++i) keys.push_back(key_of(i));
  for (const ObjectKey& key : keys) must(client->get(key), "get").release();
  round.done[me] = 1;
  for (std::uint64_t number = 2;; ++number) {
    while (round.number.load() < number) ::sched_yield();
    if ((round.readers >> me & 1) == 0) {
      round.done[me] = number;
      continue;
    }
    if (round.start_ns == 0) return;
    while (now() < round.start_ns) {
    }
    const Instant start = now();
    std::uint64_t gets = 0;
    while (now() < round.end_ns) {
      for (int i = 0; i < 64; ++i, ++gets) {
        auto lease = client->get(keys[gets % keys.size()]);
        if (!lease) die(lease.error().message);
      }
    }
    round.took_ns[me] = now() - start;
    round.gets[me] = gets;
    round.done[me] = number;
  }
}

void measure_scaling(const Options& o) {
  Shared<Round> round;
  Child first([&] { reader(o, *round, 0); });
  Child second([&] { reader(o, *round, 1); });
  until([&] { return round->done[0] == 1 && round->done[1] == 1; });
  std::uint64_t number = 1;
  const auto rate = [&](std::uint32_t readers) {
    round->readers = readers;
    round->start_ns = now() + 2 * kNsPerMs;
    round->end_ns = round->start_ns + kRoundNs;
    round->number = ++number;
    // Sleeps while they work: there may be two processors only.
    const timespec end = to_timespec(round->end_ns);
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr);
    until([&] { return round->done[0] == number && round->done[1] == number; });
    double sum = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      if ((readers >> i & 1) != 0) {
        sum += static_cast<double>(round->gets[i]) * 1e9 / static_cast<double>(round->took_ns[i]);
      }
    }
    return sum;
  };
  Series one("one_reader", "gets/s"), two("two_readers", "gets/s");
  for (std::uint64_t i = 0; i < o.count; ++i) {
    const double a = rate(1);
    const double both = rate(3);
    const double b = rate(2);
    one.add((a + b) / 2);
    two.add(both);
  }
  round->start_ns = 0;
  round->readers = 3;
  round->number = ++number;
  first.join(), second.join();
  one.print(), two.print();
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  return run_command(argc, argv,
                     {{"fill", fill}, {"latency", measure_latency}, {"scaling", measure_scaling}});
}
