// rig.h: what every benchmark program needs: its arguments, an attached client, keys, buffers, and a place for samples.
//
// A program is a client of a daemon that somebody else started: it attaches, measures, prints one JSON object a line and
// leaves. Nothing here is used by the product.
//
// Output:  {"series": NAME, "unit": UNIT, "samples": [...]}, one line a series. Series of equal length that belong
//          together are pairs: sample i of one was taken beside sample i of the other.
// Failure: a program that cannot measure says why on the standard error stream and exits with 1, without a result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/client.h>

#include "base/clock.h"
#include "base/limits.h"

namespace sluice::bench {

struct Options {
  std::string command;
  std::string directory;      // the arena's folder
  std::uint64_t objects = 0;  // objects in the arena
  std::uint64_t bytes = 0;    // payload of one object
  std::uint64_t count = 0;    // samples
  std::uint64_t seed = 1;
};

// PROGRAM COMMAND --directory PATH [--objects N] [--bytes N] [--count N] [--seed N]; exits with 2 on anything else.
Options read_options(int argc, char** argv);

[[noreturn]] void die(std::string_view what);

struct Command {
  std::string_view name;
  void (*run)(const Options&);
};

// All of a program's main: reads the options and runs the command that they name; its exit code.
int run_command(int argc, char** argv, std::initializer_list<Command> commands);

template <class T>
T must(Result<T> result, std::string_view doing) {
  if (!result) die(std::string(doing) + ": " + result.error().message);
  if constexpr (!std::is_void_v<T>) {
    return std::move(*result);
  }
}

std::unique_ptr<Client> attach(const Options& options, ClientOptions client = {});

// A key as an engine would make it: the same configuration, another item.
ObjectKey key_of(std::uint64_t number);

// One tensor over `data`.
TensorInput tensor_over(std::span<const std::byte> data);
void put(Client& client, std::uint64_t number, std::span<const std::byte> data,
         const PutOptions& options = {});

// Private memory of this process, filled with random bytes, handed out in turn: more of it than caches hold, so that
// neither side of a pair finds its source in a cache because the other one has just read it.
class RotatingBuffers {
 public:
  RotatingBuffers(std::size_t count, std::size_t bytes);
  ~RotatingBuffers();
  RotatingBuffers(const RotatingBuffers&) = delete;
  RotatingBuffers& operator=(const RotatingBuffers&) = delete;
  std::span<std::byte> next() noexcept;

 private:
  std::size_t count_, bytes_, turn_ = 0;
  std::byte* memory_ = nullptr;
};

// Waits until this process has mapped `bytes` of shared memory in; a client's helper thread does that after attach.
void wait_until_mapped(std::uint64_t bytes);

class Series {
 public:
  Series(std::string name, std::string unit) : name_(std::move(name)), unit_(std::move(unit)) {}
  void add(double sample) { samples_.push_back(sample); }
  void add_ns(Instant start, Instant end) { add(static_cast<double>(end - start)); }
  void print() const;

 private:
  std::string name_, unit_;
  std::vector<double> samples_;
};

// Keeps the compiler from dropping a value that only exists to be computed.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

}  // namespace sluice::bench
