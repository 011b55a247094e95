// test_arena.h: for tests: an arena in its own folder of shared memory, with a real daemon loop on
// a thread.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <sluice/client.h>

#include "store/daemon.h"

namespace sluice::store {

inline unsigned test_seed() {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  std::printf("SLUICE_TEST_SEED=%u\n", seed);
  return seed;
}

class TestArena {
 public:
  explicit TestArena(DaemonOptions options = {.arena_bytes = 16u << 20, .objects_max = 1000})
      : options_(std::move(options)) {
    static std::atomic<int> count{0};
    options_.directory =
        "/dev/shm/sluice-test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
    start();
  }
  ~TestArena() {
    stop();
    std::filesystem::remove_all(options_.directory);
  }
  TestArena(const TestArena&) = delete;
  TestArena& operator=(const TestArena&) = delete;

  void start() {
    auto daemon = Daemon::open(options_);
    if (!daemon) {
      ADD_FAILURE() << daemon.error().message;
      std::abort();
    }
    daemon_ = std::move(*daemon);
    thread_ = std::thread([this] { daemon_->run(); });
  }
  void stop() {
    if (daemon_ == nullptr) return;
    daemon_->stop();
    thread_.join();
    daemon_.reset();
  }
  Daemon& daemon() { return *daemon_; }
  DaemonOptions& options() { return options_; }
  const std::string& directory() const { return options_.directory; }

  std::unique_ptr<Client> client(ClientOptions options = {}) const {
    options.directory = options_.directory;
    auto client = Client::attach(options);
    if (!client) {
      ADD_FAILURE() << client.error().message;
      std::abort();
    }
    return std::move(*client);
  }

 private:
  DaemonOptions options_;
  std::unique_ptr<Daemon> daemon_;
  std::thread thread_;
};

inline ObjectKey key_named(std::string_view name) {
  auto key = ObjectKey::from_text(name);
  EXPECT_TRUE(key.has_value()) << (key ? "" : key.error().message);
  return *key;
}

// A tensor of bytes whose content is a function of `seed`.
inline std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> out(bytes);
  std::uint64_t x = seed * 0x9E3779B97F4A7C15ull + 1;
  for (std::size_t i = 0; i < bytes; ++i) {
    if (i % 8 == 0) x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    out[i] = static_cast<std::byte>(x >> (i % 8 * 8));
  }
  return out;
}

inline TensorInput bytes_tensor(const std::vector<std::byte>& data) {
  return {.name = "tensor",
          .spec = {.dtype = DType::kU8, .shape = {static_cast<std::int64_t>(data.size())}},
          .data = data};
}

inline Result<PutOutcome> put_bytes(Client& client, std::string_view name,
                                    const std::vector<std::byte>& data,
                                    const PutOptions& options = {}) {
  const TensorInput input = bytes_tensor(data);
  return client.put(key_named(name), std::span(&input, 1), {}, options);
}

inline bool holds(const Lease& lease, const std::vector<std::byte>& data) {
  const auto tensors = lease.tensors();
  if (!tensors || tensors->size() != 1 || tensors->front().data_bytes != data.size()) return false;
  return std::memcmp(lease.bytes().data() + tensors->front().data_offset, data.data(),
                     data.size()) == 0;
}

}  // namespace sluice::store
