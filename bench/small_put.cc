// small_put: from the call of a put of --bytes until another process sees the object.
//
//   poll  the other process asks for the key again and again
//   wait  the other process sleeps in wait() for the key; the put starts when the kernel says that it sleeps
#include <array>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "pair.h"
#include "rig.h"

namespace sluice::bench {
namespace {

struct Meeting {
  std::atomic<std::uint64_t> looking_for{0};  // the observer waits for this object
  std::atomic<std::uint64_t> seen{0};         // the observer has seen this object ...
  std::atomic<std::uint64_t> seen_ns{0};      // ... at this time
};

// The state of a process's main thread: 'S' sleeps, 'R' runs.
char state_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const auto end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? '?' : text[end + 2];
}

void observe(const Options& o, Meeting& meeting, bool polls) {
  const auto client = attach(o);
  for (std::uint64_t i = 1; i <= o.count; ++i) {
    const ObjectKey key = key_of(i);
    meeting.looking_for = i;
    if (polls) {
      while (client->lookup(key) != Presence::kPresent) {
      }
    } else {
      const auto found = must(client->wait(std::span(&key, 1), std::chrono::seconds(10)), "wait");
      if (found.front() != Presence::kPresent) die("the object did not come");
    }
    meeting.seen_ns = now();
    meeting.seen = i;
  }
}

void measure(const Options& o, bool polls) {
  Shared<Meeting> meeting;
  Child observer([&] { observe(o, *meeting, polls); });
  const auto client = attach(o);
  RotatingBuffers buffers(3, o.bytes);
  Series series(polls ? "small_put_ns" : "small_put_wait_ns", "ns");
  for (std::uint64_t i = 1; i <= o.count; ++i) {
    const ObjectKey key = key_of(i);
    const TensorInput input = tensor_over(buffers.next());
    until([&] { return meeting->looking_for == i; }, &observer);
    if (!polls) until([&] { return state_of(observer.pid()) == 'S'; }, &observer);
    const Instant start = now();
    const auto done = client->put(key, std::span(&input, 1));
    if (!done) die(done.error().message);
    until([&] { return meeting->seen == i; }, &observer);
    series.add_ns(start, meeting->seen_ns);
  }
  observer.join();
  series.print();
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  return run_command(argc, argv,
                     {{"poll", [](const Options& o) { measure(o, true); }},
                      {"wait", [](const Options& o) { measure(o, false); }}});
}
