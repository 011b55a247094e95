// serve: one 16 MiB operation a line, so that another program can take turns between systems.
//
//   read lines of `put N`, `get N`, `touch N` and print the nanoseconds each took:
//   put    with checksums
//   get    the first get of object N: verified and copied out
//   touch  a first get without a copy, verified, then every cache line read
#include <iostream>
#include <string>

#include <fmt/format.h>

#include "rig.h"

namespace sluice::bench {
namespace {

std::uint64_t read_every_line(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + sizeof(std::uint64_t) <= bytes.size(); i += 64) {
    sum += *reinterpret_cast<const std::uint64_t*>(bytes.data() + i);
  }
  return sum;
}

void serve(const Options& o) {
  RotatingBuffers buffers(9, o.bytes + kPageBytes);
  const auto client = attach(o);
  std::string what;
  std::uint64_t number = 0;
  fmt::print("ready\n");
  std::fflush(stdout);
  while (std::cin >> what >> number) {
    const ObjectKey key = key_of(number);
    const auto buffer = buffers.next();
    const TensorInput input = tensor_over(buffer.first(o.bytes));
    const Instant start = now();
    if (what == "put") {
      const auto done = client->put(key, std::span(&input, 1));
      if (!done || *done != PutOutcome::kPublished)
        die("put: " + (done ? "duplicate" : done.error().message));
    } else if (what == "get") {
      Lease lease = must(client->acquire(key), "acquire");
      if (lease.verified()) die("the object was verified before");
      must(lease.copy_to(buffer.first(lease.bytes().size())), "copy out");
    } else if (what == "touch") {
      const Lease lease = must(client->get(key), "get");
      keep(read_every_line(lease.bytes()));
    } else {
      die("no such operation");
    }
    fmt::print("{}\n", now() - start);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  return run_command(argc, argv, {{"lines", serve}});
}
