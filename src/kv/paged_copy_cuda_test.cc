// The CUDA kernels beside the CPU code that is their reference. Skipped where there is no GPU, and
// nowhere else.
#include <algorithm>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "kv/device_copy.h"
#include "kv/test_cache.h"

namespace sluice::kv {
namespace {

// For calls whose failure leaves nothing to go on with.
#define CUDA_OK(call)                                             \
  do {                                                            \
    const cudaError_t result = (call);                            \
    ASSERT_EQ(result, cudaSuccess) << cudaGetErrorString(result); \
  } while (false)

// Memory of the GPU, or of this machine where the GPU reaches it.
class Memory {
 public:
  enum class Kind { kDevice, kPinned };
  Memory(std::size_t bytes, Kind kind) : kind_(kind) {
    void* at = nullptr;
    const cudaError_t made =
        kind == Kind::kDevice ? cudaMalloc(&at, bytes) : cudaMallocHost(&at, bytes);
    EXPECT_EQ(made, cudaSuccess);
    at_ = static_cast<std::byte*>(at);
  }
  ~Memory() { kind_ == Kind::kDevice ? cudaFree(at_) : cudaFreeHost(at_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* at() const { return at_; }

 private:
  Kind kind_;
  std::byte* at_ = nullptr;
};

// The layers of a cache, copied to the GPU.
class OnDevice {
 public:
  OnDevice(const TestCache& cache, std::size_t shift) {
    for (std::size_t i = 0; i < cache.layers().size(); ++i) {
      const auto& bytes = cache.bytes()[i];
      memory_.push_back(std::make_unique<Memory>(bytes.size() + shift, Memory::Kind::kDevice));
      PagedLayer layer = cache.layers()[i];
      layer.base = memory_.back()->at() + shift;
      EXPECT_EQ(cudaMemcpy(layer.base, bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                cudaSuccess);
      layers_.push_back(layer);
    }
  }
  std::span<const PagedLayer> layers() const { return layers_; }
  std::vector<std::byte> bytes(std::size_t layer) const {
    std::vector<std::byte> out(layers_[layer].bytes);
    EXPECT_EQ(cudaMemcpy(out.data(), layers_[layer].base, out.size(), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return out;
  }

 private:
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<PagedLayer> layers_;
};

class PagedCopyCuda : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t asked = cudaGetDeviceCount(&count);
    if (asked == cudaErrorNoDevice || asked == cudaErrorInsufficientDriver)
      GTEST_SKIP() << "no CUDA device here: " << cudaGetErrorString(asked);
    CUDA_OK(asked);
    ASSERT_GT(count, 0);
    auto made = DeviceCopy::make(0);
    ASSERT_TRUE(made) << made.error().message;
    copy_ = std::move(*made);
    CUDA_OK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  void TearDown() override {
    copy_.reset();
    if (stream_ == nullptr) return;
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }

  std::unique_ptr<DeviceCopy> copy_;
  cudaStream_t stream_ = nullptr;
};

Memory::Kind random_kind(std::mt19937_64& random) {
  return random() % 2 == 0 ? Memory::Kind::kDevice : Memory::Kind::kPinned;
}

TEST_F(PagedCopyCuda, GathersWhatTheProcessorGathers) {
  auto random = seeded();
  for (int round = 0; round < 200; ++round) {
    const BlockShape shape = random_shape(random);
    TestCache cache(shape, 3, 40, random_order(random), random() % 3 * 5, random);
    const OnDevice there(cache, random() % 3 == 0 ? random() % 17 : 0);
    const auto ids = some_blocks(40, 1 + random() % 40, random);
    Transfer t = whole(cache, ids);
    auto expected = part_for(t);
    ASSERT_TRUE(gather(expected, t));

    const std::size_t shift = random() % 3 == 0 ? random() % 17 : 0;
    const Memory part(expected.size() + shift, random_kind(random));
    t.layers = there.layers();
    const auto enqueued = copy_->gather({reinterpret_cast<std::uintptr_t>(part.at() + shift)},
                                        expected.size(), t, {stream_});
    ASSERT_TRUE(enqueued) << enqueued.error().message;
    CUDA_OK(cudaStreamSynchronize(stream_));
    std::vector<std::byte> found(expected.size());
    CUDA_OK(cudaMemcpy(found.data(), part.at() + shift, found.size(), cudaMemcpyDefault));
    ASSERT_EQ(found, expected) << "round " << round;
  }
}

TEST_F(PagedCopyCuda, ScattersHeadsAndBlocksAsTheProcessorDoesAndTouchesNothingElse) {
  auto random = seeded();
  for (int round = 0; round < 200; ++round) {
    const BlockShape written = random_shape(random);
    BlockShape read = written;
    read.heads = 1 + static_cast<std::uint32_t>(random() % 4);
    TestCache expected(read, 3, 40, random_order(random), random() % 3 * 5, random);
    const OnDevice there(expected, random() % 3 == 0 ? random() % 17 : 0);
    std::vector<std::uint32_t> ids;
    Transfer t = some_heads(expected, written, ids, random);
    const std::vector<std::byte> content = random_part_for(t, random);
    ASSERT_TRUE(scatter(content, t));

    const std::size_t shift = random() % 3 == 0 ? random() % 17 : 0;
    const Memory part(content.size() + shift, random_kind(random));
    CUDA_OK(cudaMemcpy(part.at() + shift, content.data(), content.size(), cudaMemcpyDefault));
    t.layers = there.layers();
    const auto enqueued = copy_->scatter({reinterpret_cast<std::uintptr_t>(part.at() + shift)},
                                         content.size(), t, {stream_});
    ASSERT_TRUE(enqueued) << enqueued.error().message;
    CUDA_OK(cudaStreamSynchronize(stream_));
    for (std::size_t layer = 0; layer < 3; ++layer)
      ASSERT_EQ(there.bytes(layer), expected.bytes()[layer]) << "round " << round;
  }
}

// More copies in flight than there are tables, of growing size.
TEST_F(PagedCopyCuda, CopiesInFlightKeepTheirTables) {
  auto random = seeded();
  const BlockShape shape{.planes = 2, .heads = 4, .block_tokens = 16, .entry_bytes = 256};
  TestCache cache(shape, 4, 64, Order::kBlockTokenHead, 0, random);
  const OnDevice there(cache, 0);
  std::vector<std::vector<std::uint32_t>> ids;
  std::vector<std::vector<std::byte>> expected;
  std::vector<std::unique_ptr<Memory>> parts;
  for (std::size_t i = 1; i <= 16; ++i) {
    ids.push_back(some_blocks(64, 4 * i, random));
    Transfer t = whole(cache, ids.back());
    expected.push_back(part_for(t));
    ASSERT_TRUE(gather(expected.back(), t));
    parts.push_back(std::make_unique<Memory>(expected.back().size(), Memory::Kind::kDevice));
    t.layers = there.layers();
    ASSERT_TRUE(copy_->gather({reinterpret_cast<std::uintptr_t>(parts.back()->at())},
                              expected.back().size(), t, {stream_}));
  }
  CUDA_OK(cudaStreamSynchronize(stream_));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<std::byte> found(expected[i].size());
    CUDA_OK(cudaMemcpy(found.data(), parts[i]->at(), found.size(), cudaMemcpyDeviceToHost));
    EXPECT_EQ(found, expected[i]) << i;
  }
}

TEST_F(PagedCopyCuda, WhatDoesNotFitIsRefusedAndNothingIsEnqueued) {
  auto random = seeded();
  const BlockShape shape{.planes = 1, .heads = 2, .block_tokens = 3, .entry_bytes = 4};
  TestCache cache(shape, 2, 4, Order::kBlockHeadToken, 0, random);
  const OnDevice there(cache, 0);
  const std::vector<std::uint32_t> ids{0, 3}, outside{0, 4};
  Transfer t = whole(cache, ids);
  t.layers = there.layers();
  const std::size_t bytes = part_for(t).size();
  const Memory part(bytes, Memory::Kind::kDevice);
  const DeviceAddress address{reinterpret_cast<std::uintptr_t>(part.at())};
  EXPECT_EQ(copy_->gather(address, bytes - 1, t, {stream_}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(copy_->gather({}, bytes, t, {stream_}).error().code, Code::kInvalidArgument);
  t.block_ids = outside;
  EXPECT_EQ(copy_->scatter(address, bytes, t, {stream_}).error().code, Code::kInvalidArgument);
  CUDA_OK(cudaStreamSynchronize(stream_));
  for (std::size_t layer = 0; layer < 2; ++layer)
    EXPECT_EQ(there.bytes(layer), cache.bytes()[layer]);
}

}  // namespace
}  // namespace sluice::kv
