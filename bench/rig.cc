#include "rig.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

namespace sluice::bench {
namespace {

constexpr std::uint64_t kMapWaitNs = 60'000 * kNsPerMs;

[[noreturn]] void usage(std::string_view problem) {
  fmt::print(stderr,
             "{}\nusage: PROGRAM COMMAND --directory PATH [--objects N] [--bytes N] [--count N] "
             "[--seed N]\n",
             problem);
  std::exit(2);
}

std::uint64_t number_of(std::string_view text) {
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end != text.data() + text.size())
    usage(fmt::format("'{}' is not a number", text));
  return out;
}

std::uint64_t mapped_shared_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, resident = 0, shared = 0;
  file >> size >> resident >> shared;
  if (!file) die("cannot read /proc/self/statm");
  return shared * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

Options read_options(int argc, char** argv) {
  if (argc < 2) usage("no command was given");
  Options options{.command = argv[1], .directory = {}};
  for (int i = 2; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (i + 1 == argc) usage(fmt::format("{} needs a value", flag));
    if (flag == "--directory") {
      options.directory = argv[i + 1];
    } else if (flag == "--objects") {
      options.objects = number_of(argv[i + 1]);
    } else if (flag == "--bytes") {
      options.bytes = number_of(argv[i + 1]);
    } else if (flag == "--count") {
      options.count = number_of(argv[i + 1]);
    } else if (flag == "--seed") {
      options.seed = number_of(argv[i + 1]);
    } else {
      usage(fmt::format("unknown option {}", flag));
    }
  }
  if (options.directory.empty()) usage("--directory is missing");
  return options;
}

void die(std::string_view what) {
  fmt::print(stderr, "{}\n", what);
  std::exit(1);
}

int run_command(int argc, char** argv, std::initializer_list<Command> commands) {
  const Options options = read_options(argc, argv);
  for (const Command& command : commands) {
    if (command.name != options.command) continue;
    command.run(options);
    return 0;
  }
  usage(fmt::format("no such command: {}", options.command));
}

std::unique_ptr<Client> attach(const Options& options, ClientOptions client) {
  client.directory = options.directory;
  if (client.label.empty()) client.label = "bench " + options.command;
  return must(Client::attach(client), "attach");
}

ObjectKey key_of(std::uint64_t number) {
  static const ObjectKey first =
      must(ObjectKey::make({.model = "Qwen/Qwen2.5-VL-7B-Instruct",
                            .revision = "cc594898137f460bfe9f0759e9844b3ce807cfb5",
                            .encoder = "5b1f0a7c9d3e42681f7a",
                            .dtype = "bfloat16",
                            .id = "0"}),
           "key");
  // As long as a content digest.
  return must(first.with_id(fmt::format("{:016x}{:048x}", number * 0x9E3779B97F4A7C15u, number)),
              "key");
}

TensorInput tensor_over(std::span<const std::byte> data) {
  return {.name = "tensor",
          .spec = {.dtype = DType::kU8, .shape = {static_cast<std::int64_t>(data.size())}},
          .data = data};
}

void put(Client& client, std::uint64_t number, std::span<const std::byte> data,
         const PutOptions& options) {
  const TensorInput input = tensor_over(data);
  const PutOutcome outcome =
      must(client.put(key_of(number), std::span(&input, 1), {}, options), "put");
  if (outcome != PutOutcome::kPublished) die(fmt::format("object {} was there already", number));
}

RotatingBuffers::RotatingBuffers(std::size_t count, std::size_t bytes)
    : count_(count), bytes_(bytes) {
  void* const at = ::mmap(nullptr, count * bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (at == MAP_FAILED) die("no memory for buffers");
  memory_ = static_cast<std::byte*>(at);
  std::mt19937_64 random(count * bytes);
  const std::span words(static_cast<std::uint64_t*>(at), count * bytes / sizeof(std::uint64_t));
  for (auto& word : words) word = random();
}

RotatingBuffers::~RotatingBuffers() {
  ::munmap(memory_, count_ * bytes_);
}

std::span<std::byte> RotatingBuffers::next() noexcept {
  return {memory_ + turn_++ % count_ * bytes_, bytes_};
}

void wait_until_mapped(std::uint64_t bytes) {
  const Instant give_up = now() + kMapWaitNs;
  while (mapped_shared_bytes() < bytes) {
    if (now() > give_up)
      die(fmt::format("{} bytes of the arena were not mapped in in time", bytes));
    const timespec pause{.tv_sec = 0, .tv_nsec = kNsPerMs};
    ::nanosleep(&pause, nullptr);
  }
}

void Series::print() const {
  std::string out = fmt::format(R"({{"series": "{}", "unit": "{}", "samples": [)", name_, unit_);
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : ", ", samples_[i]);
  }
  out += "]}\n";
  std::fputs(out.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace sluice::bench
