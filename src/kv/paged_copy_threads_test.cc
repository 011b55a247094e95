// The source of the CUDA kernels, compiled for this processor and carried out thread by thread in
// turn. They share nothing between threads, so any order is one that a GPU might take. What a GPU
// alone can show is paged_copy_cuda_test.cc's.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "kv/device_planner.h"
#include "kv/test_cache.h"

#undef __global__
#undef __device__
#undef __launch_bounds__
#define __global__
#define __device__
#define __launch_bounds__(threads)

namespace {

uint3 threadIdx;
uint3 blockIdx;
dim3 gridDim;

template <class Kernel, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, Kernel kernel,
                               Arguments... arguments) {
  gridDim = config->gridDim;
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y) {
      for (threadIdx.x = 0; threadIdx.x < config->blockDim.x; ++threadIdx.x) kernel(arguments...);
    }
  }
  return cudaSuccess;
}

}  // namespace

#include "kv/paged_copy_cuda.cu"

namespace sluice::kv {
namespace {

TEST(PagedCopyThreads, TogetherGatherWhatTheProcessorGathers) {
  auto random = seeded();
  for (int round = 0; round < 100; ++round) {
    const BlockShape shape = random_shape(random);
    const TestCache cache(shape, 2, 7, random_order(random), random() % 3 * 8, random);
    const auto ids = some_blocks(7, 1 + random() % 7, random);
    const Transfer t = whole(cache, ids);
    auto expected = part_for(t), found = part_for(t);
    ASSERT_TRUE(gather(expected, t));
    const auto copy = plan_copy(found.data(), t);
    ASSERT_TRUE(copy);
    ASSERT_EQ(
        launch_paged_copy(copy->plan, copy->layers.data(), ids.data(), Direction::kGather, nullptr),
        cudaSuccess);
    EXPECT_EQ(found, expected);
  }
}

TEST(PagedCopyThreads, TogetherScatterWhatTheProcessorScatters) {
  auto random = seeded();
  for (int round = 0; round < 100; ++round) {
    const BlockShape written = random_shape(random);
    BlockShape read = written;
    read.heads = 1 + static_cast<std::uint32_t>(random() % 4);
    const TestCache to(read, 2, 9, random_order(random), random() % 3 * 8, random);
    const TestCache expected = to.copy();
    std::vector<std::uint32_t> ids;
    const Transfer t = some_heads(to, written, ids, random);
    std::vector<std::byte> part = random_part_for(t, random);
    Transfer by_hand = t;
    by_hand.layers = expected.layers();
    ASSERT_TRUE(scatter(part, by_hand));
    const auto copy = plan_copy(part.data(), t);
    ASSERT_TRUE(copy);
    ASSERT_EQ(launch_paged_copy(copy->plan, copy->layers.data(), ids.data(), Direction::kScatter,
                                nullptr),
              cudaSuccess);
    EXPECT_EQ(to.bytes(), expected.bytes());
  }
}

// 16-, 8-, 4-, 2- and 1-byte vectors each have a kernel of their own.
TEST(PagedCopyThreads, EveryWidthOfVectorCopiesPiecesOfEveryLength) {
  auto random = seeded();
  for (const std::uint64_t width : {16, 8, 4, 2, 1}) {
    for (const std::uint64_t vectors : {1, 3, 31, 33, 127, 129, 701}) {
      const BlockShape shape{
          .planes = 1, .heads = 1, .block_tokens = 1, .entry_bytes = width * vectors};
      const TestCache cache(shape, 1, 3, Order::kBlockHeadToken, width, random);
      const std::vector<std::uint32_t> ids{2, 0};
      const Transfer t = whole(cache, ids);
      auto expected = part_for(t), found = part_for(t);
      ASSERT_TRUE(gather(expected, t));
      const auto copy = plan_copy(found.data(), t);
      ASSERT_TRUE(copy);
      EXPECT_EQ(copy->plan.vector_bytes, width);
      ASSERT_EQ(launch_paged_copy(copy->plan, copy->layers.data(), ids.data(), Direction::kGather,
                                  nullptr),
                cudaSuccess);
      EXPECT_EQ(found, expected) << vectors << " vectors of " << width;
    }
  }
}

}  // namespace
}  // namespace sluice::kv
