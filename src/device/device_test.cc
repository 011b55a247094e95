#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sluice/device.h>

namespace sluice {
namespace {

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> out(bytes);
  for (auto& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

// A device that Sluice has never heard of. Its memory can not be reached by a pointer: an address
// is a number inside a store of its own, which keeps every byte inverted. It implements only what a
// device has to.
class Accelerator final : public Device {
 public:
  std::string_view name() const noexcept override { return "accelerator"; }

  DeviceAddress allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::uintptr_t base = kFirst + memory_.size();
    memory_.resize(memory_.size() + bytes, std::byte{0});
    return {base};
  }

  std::size_t transfers() const { return transfers_; }
  std::size_t largest() const { return largest_; }
  std::size_t fail_after = SIZE_MAX;  // transfers that succeed before one is refused

 protected:
  Status download(std::span<std::byte> staging, DeviceAddress from, Stream) override {
    if (auto counted = count(staging.size()); !counted) return counted;
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < staging.size(); ++i)
      staging[i] = ~memory_.at(from.value - kFirst + i);
    return {};
  }

  Status upload(DeviceAddress to, std::span<const std::byte> staging, Stream) override {
    if (auto counted = count(staging.size()); !counted) return counted;
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < staging.size(); ++i)
      memory_.at(to.value - kFirst + i) = ~staging[i];
    return {};
  }

  std::size_t staging_bytes() const noexcept override { return 4096; }

 private:
  static constexpr std::uintptr_t kFirst = 0x1000;

  Status count(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (transfers_ >= fail_after)
      return fail(Code::kIo, "the accelerator is on fire", Drop::kTransfer);
    ++transfers_;
    largest_ = std::max(largest_, bytes);
    return {};
  }

  std::mutex mutex_;  // a test device: correctness first
  std::vector<std::byte> memory_;
  std::size_t transfers_ = 0;
  std::size_t largest_ = 0;
};

TEST(HostDevice, BothDirectionsMoveEveryByte) {
  const auto device = make_host_device();
  const auto from = pattern(1'000'003, 1);
  std::vector<std::byte> tensor(from.size()), back(from.size());

  auto in = device->copy_in({reinterpret_cast<std::uintptr_t>(tensor.data())}, from, {});
  ASSERT_TRUE(in);
  ASSERT_TRUE(in->wait());
  auto out = device->copy_out(back, {reinterpret_cast<std::uintptr_t>(tensor.data())}, {});
  ASSERT_TRUE(out);
  EXPECT_TRUE(out->done());
  ASSERT_TRUE(out->wait());
  EXPECT_EQ(back, from);
  EXPECT_EQ(device->name(), "host");
}

TEST(HostDevice, NullPointerIsRefusedAndNothingIsTouched) {
  const auto device = make_host_device();
  auto host = pattern(64, 2);
  const auto before = host;
  const auto out = device->copy_out(host, {}, {});
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::kInvalidArgument);
  const auto in = device->copy_in({}, host, {});
  ASSERT_FALSE(in);
  EXPECT_EQ(in.error().code, Code::kInvalidArgument);
  EXPECT_EQ(host, before);
  EXPECT_TRUE(device->copy_out({}, {}, {}));  // nothing to copy is not an error
}

TEST(ThirdDevice, BytesSurviveTheWayInAndOutThroughStaging) {
  Accelerator device;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4095}, std::size_t{4096},
                                  std::size_t{4097}, std::size_t{100'001}}) {
    const auto from = pattern(bytes, static_cast<unsigned>(bytes));
    const DeviceAddress tensor = device.allocate(bytes);
    ASSERT_TRUE(device.copy_in(tensor, from, {}));
    std::vector<std::byte> back(bytes);
    auto out = device.copy_out(back, tensor, {});
    ASSERT_TRUE(out);
    ASSERT_TRUE(out->wait());
    EXPECT_EQ(back, from) << bytes << " bytes";
  }
}

TEST(ThirdDevice, NoPieceIsLargerThanItsStagingBuffer) {
  Accelerator device;
  const auto from = pattern(3 * 4096 + 5, 3);
  ASSERT_TRUE(device.copy_in(device.allocate(from.size()), from, {}));
  EXPECT_EQ(device.transfers(), 4u);
  EXPECT_EQ(device.largest(), 4096u);
}

TEST(ThirdDevice, ItsErrorEndsTheCopyWithItsOwnWords) {
  Accelerator device;
  const auto from = pattern(5 * 4096, 4);
  const DeviceAddress tensor = device.allocate(from.size());
  device.fail_after = 2;
  const auto in = device.copy_in(tensor, from, {});
  ASSERT_FALSE(in);
  EXPECT_EQ(in.error().code, Code::kIo);
  EXPECT_EQ(in.error().drop, Drop::kTransfer);
  EXPECT_THAT(in.error().message, testing::HasSubstr("on fire"));
  EXPECT_EQ(device.transfers(), 2u);
}

TEST(ThirdDevice, RegistrationAndSynchroniseHaveWorkingDefaults) {
  Accelerator device;
  std::vector<std::byte> host(4096);
  EXPECT_TRUE(device.register_host(host));
  EXPECT_TRUE(device.register_host(host));
  EXPECT_TRUE(device.unregister_host(host));
  EXPECT_TRUE(device.synchronise({}));
}

TEST(ThirdDevice, ThreadsDoNotShareAStagingBuffer) {
  Accelerator device;
  constexpr std::size_t kBytes = 40'000;
  std::vector<DeviceAddress> tensors;
  for (unsigned i = 0; i < 4; ++i) tensors.push_back(device.allocate(kBytes));
  std::vector<std::vector<std::byte>> back(tensors.size(), std::vector<std::byte>(kBytes));
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < tensors.size(); ++i) {
      threads.emplace_back([&, i] {
        EXPECT_TRUE(device.copy_in(tensors[i], pattern(kBytes, i), {}));
        EXPECT_TRUE(device.copy_out(back[i], tensors[i], {}));
      });
    }
  }
  for (unsigned i = 0; i < tensors.size(); ++i) EXPECT_EQ(back[i], pattern(kBytes, i));
}

// A copy that a thread performs once it is allowed to: what an asynchronous device looks like from
// outside.
class SlowCopy final : public Completion::State {
 public:
  SlowCopy(std::atomic<bool>& go, std::atomic<bool>& ended)
      : ended_(ended), thread_([&go, &ended] {
          go.wait(false);
          ended.store(true);
        }) {}
  bool done() noexcept override { return ended_.load(); }
  Status wait() override {
    if (thread_.joinable()) thread_.join();
    return {};
  }

 private:
  std::atomic<bool>& ended_;
  std::thread thread_;
};

TEST(Completion, DroppedBeforeItsCopyEndedWaitsForIt) {
  std::atomic<bool> go = false, ended = false;
  {
    Completion copy(std::make_unique<SlowCopy>(go, ended));
    EXPECT_FALSE(copy.done());
    go.store(true);
    go.notify_all();
  }
  EXPECT_TRUE(ended.load());
}

TEST(Completion, ReplacedBeforeItsCopyEndedWaitsForIt) {
  std::atomic<bool> go = true, ended = false;
  Completion copy(std::make_unique<SlowCopy>(go, ended));
  copy = Completion{};
  EXPECT_TRUE(ended.load());
  EXPECT_TRUE(copy.done());
  EXPECT_TRUE(copy.wait());
}

}  // namespace
}  // namespace sluice
