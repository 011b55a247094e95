// stub_engine.cc: a scripted engine for tests and benchmarks of the proxy.
//
// Prints `ready PORT` when it listens. Ends with SIGTERM or SIGINT, and when its standard input is a
// pipe that its starter has closed.
#include <charconv>
#include <csignal>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "stub/server.h"

namespace sluice::stub {
namespace {

constexpr std::string_view kUsage =
    "stub_engine [--NAME VALUE ...]\n"
    "  --role encoder|prefill|decode|prefill_decode|colocated\n"
    "  --host ADDRESS --port N --keep-alive-ms N --model NAME\n"
    "  --derive-identifiers 1     as an engine that has processor arguments itself\n"
    "  --script JSON              what to do with every request\n"
    "  --plain 1                  for benchmarks: looks at the ends of a body only, no journal\n"
    "  --arena-directory PATH --key-prefix TEXT   encodes are put there\n";

using Words = std::map<std::string, std::string, std::less<>>;

Result<Words> words_of(int argc, char** argv) {
  Words words{{"role", "colocated"},     {"host", "127.0.0.1"}, {"port", "0"},
              {"keep-alive-ms", "5000"}, {"model", "stub"},     {"derive-identifiers", "0"},
              {"script", "{}"},          {"plain", "0"},        {"arena-directory", ""},
              {"key-prefix", ""}};
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const auto found = name.starts_with("--") ? words.find(name.substr(2)) : words.end();
    if (found == words.end() || i + 1 == argc) {
      return fail(Code::kInvalidArgument, fmt::format("{}\n{}", name, kUsage));
    }
    found->second = argv[i + 1];
  }
  return words;
}

template <class T>
Result<T> number_of(const Words& words, std::string_view name) {
  const std::string& text = words.find(name)->second;
  T value{};
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || at != text.data() + text.size()) {
    return fail(Code::kInvalidArgument, fmt::format("--{}: {}", name, text));
  }
  return value;
}

Result<ServerOptions> options_of(const Words& words) {
  ServerOptions options;
  const auto port = number_of<std::uint16_t>(words, "port");
  const auto keep_alive_ms = number_of<std::uint64_t>(words, "keep-alive-ms");
  auto script = script_from_json(words.find("script")->second);
  if (!port) return std::unexpected(port.error());
  if (!keep_alive_ms) return std::unexpected(keep_alive_ms.error());
  if (!script) return std::unexpected(script.error());
  options.host = words.find("host")->second;
  options.port = *port;
  options.keep_alive_ms = *keep_alive_ms;
  options.script = std::move(*script);
  options.plain = words.find("plain")->second == "1";
  options.engine = {.role = words.find("role")->second,
                    .model = words.find("model")->second,
                    .derives_identifiers = words.find("derive-identifiers")->second == "1"};
  if (const std::string& directory = words.find("arena-directory")->second; !directory.empty()) {
    auto arena =
        ArenaSide::attach(directory, words.find("key-prefix")->second, options.engine.role);
    if (!arena) return std::unexpected(arena.error());
    options.arena = std::move(*arena);
  }
  return options;
}

// Readable when the program is to end.
UniqueFd stop_fd() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const UniqueFd signal(::signalfd(-1, &signals, SFD_CLOEXEC));
  UniqueFd both(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{.events = EPOLLIN, .data = {}};
  ::epoll_ctl(both.get(), EPOLL_CTL_ADD, ::dup(signal.get()), &event);
  struct stat input{};
  if (::fstat(STDIN_FILENO, &input) == 0 && S_ISFIFO(input.st_mode)) {
    event.events = EPOLLRDHUP;  // and EPOLLHUP, which needs no asking
    ::epoll_ctl(both.get(), EPOLL_CTL_ADD, STDIN_FILENO, &event);
  }
  return both;
}

int run(int argc, char** argv) {
  const auto complain = [](const Error& error) {
    fmt::print(stderr, "stub_engine: {}\n", error.message);
    return 1;
  };
  const UniqueFd stop = stop_fd();
  const auto words = words_of(argc, argv);
  if (!words) return complain(words.error());
  auto options = options_of(*words);
  if (!options) return complain(options.error());
  const auto server = Server::open(std::move(*options));
  if (!server) return complain(server.error());
  fmt::print("ready {}\n", (*server)->port());
  std::fflush(stdout);
  (*server)->run(stop.get());
  return 0;
}

}  // namespace
}  // namespace sluice::stub

int main(int argc, char** argv) {
  return sluice::stub::run(argc, argv);
}
