#include "kv/paged_copy_cuda.h"

namespace sluice::kv {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kInFlight = 4;     // vectors that a thread loads before it stores the first
constexpr std::uint32_t kGroupPieces = 4;  // pieces that a group copies, about
constexpr std::uint32_t kSlicesMax = 64;   // thread blocks for one row
constexpr std::uint32_t kWarp = 32;

template <class Vector>
__device__ void copy_piece(Vector* __restrict__ to, const Vector* __restrict__ from,
                           std::uint32_t count, std::uint32_t lane, std::uint32_t lanes) {
  for (std::uint32_t first = lane; first < count; first += kInFlight * lanes) {
    Vector held[kInFlight];
#pragma unroll
    for (std::uint32_t i = 0; i < kInFlight; ++i) {
      if (first + i * lanes < count) held[i] = from[first + i * lanes];
    }
#pragma unroll
    for (std::uint32_t i = 0; i < kInFlight; ++i) {
      if (first + i * lanes < count) to[first + i * lanes] = held[i];
    }
  }
}

// `lanes`: threads of a group, a power of two of at most a warp.
template <class Vector, Direction kDirection>
__global__ void __launch_bounds__(kThreads)
    paged_copy(const DevicePlan plan, const DeviceLayer* __restrict__ layers,
               const std::uint32_t* __restrict__ block_ids, std::uint32_t lanes) {
  const std::uint32_t lane = threadIdx.x & (lanes - 1);
  const std::uint32_t groups = kThreads / lanes;
  const std::uint32_t first = blockIdx.y * groups + threadIdx.x / lanes;
  for (std::uint32_t piece = first; piece < plan.row_pieces; piece += gridDim.y * groups) {
    const DevicePiece at = piece_of(plan, layers, block_ids, blockIdx.x, piece);
    auto* const part = reinterpret_cast<Vector*>(at.part);
    auto* const paged = reinterpret_cast<Vector*>(at.paged);
    const std::uint32_t count = at.bytes / sizeof(Vector);
    if constexpr (kDirection == Direction::kGather) {
      copy_piece<Vector>(part, paged, count, lane, lanes);
    } else {
      copy_piece<Vector>(paged, part, count, lane, lanes);
    }
  }
}

std::uint32_t lanes_for(std::uint64_t vectors) {
  std::uint32_t lanes = 1;
  while (lanes < kWarp && lanes < vectors) lanes *= 2;
  return lanes;
}

template <class Vector>
cudaError_t launch(const DevicePlan& plan, const DeviceLayer* layers,
                   const std::uint32_t* block_ids, Direction direction, cudaStream_t stream) {
  const std::uint64_t largest = plan.span_bytes < kPieceBytes ? plan.span_bytes : kPieceBytes;
  const std::uint32_t lanes = lanes_for(largest / sizeof(Vector));
  const std::uint32_t pieces_at_once = kThreads / lanes * kGroupPieces;
  const std::uint32_t wanted = (plan.row_pieces - 1) / pieces_at_once + 1;
  const dim3 grid(plan.rows, wanted < kSlicesMax ? wanted : kSlicesMax);
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  const auto kernel = direction == Direction::kGather ? paged_copy<Vector, Direction::kGather>
                                                      : paged_copy<Vector, Direction::kScatter>;
  return cudaLaunchKernelEx(&config, kernel, plan, layers, block_ids, lanes);
}

}  // namespace

cudaError_t launch_paged_copy(const DevicePlan& plan, const DeviceLayer* layers,
                              const std::uint32_t* block_ids, Direction direction,
                              cudaStream_t stream) {
  if (plan.rows == 0) return cudaSuccess;
  switch (plan.vector_bytes) {
    case 16:
      return launch<uint4>(plan, layers, block_ids, direction, stream);
    case 8:
      return launch<uint2>(plan, layers, block_ids, direction, stream);
    case 4:
      return launch<std::uint32_t>(plan, layers, block_ids, direction, stream);
    case 2:
      return launch<std::uint16_t>(plan, layers, block_ids, direction, stream);
    default:
      return launch<std::uint8_t>(plan, layers, block_ids, direction, stream);
  }
}

}  // namespace sluice::kv
