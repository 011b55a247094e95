// device_plan.h: one paged copy, cut into pieces that can be copied in any order and at once.
//
// A row is one block of one plane of one layer. Inside a row, a span is what is contiguous on both
// sides (an entry, a head, or several heads), and a piece is at most kPieceBytes of a span. What a
// GPU's threads copy is decided here and nowhere else, in plain arithmetic, so that it can be tested
// where there is no GPU.
//
// Invariant: the pieces of all rows are exactly the transfer's entries, each once. vector_bytes
//            divides every piece's addresses and size.
// Threads:   plain values.
// Compiled by nvcc as well: nothing here needs more than C++17.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define SLUICE_HOST_DEVICE __host__ __device__
#else
#define SLUICE_HOST_DEVICE
#endif

namespace sluice::kv {

inline constexpr std::uint32_t kPieceBytes = 2048;
inline constexpr std::uint32_t kVectorBytesMax = 16;

// One layer's cache, from the first head that moves on. Strides in bytes.
struct DeviceLayer {
  std::byte* base = nullptr;
  std::uint64_t plane_stride = 0;
  std::uint64_t block_stride = 0;
  std::uint64_t head_stride = 0;
  std::uint64_t token_stride = 0;
};

struct DevicePlan {
  std::byte* part = nullptr;  // of the first block and head that move
  std::uint64_t part_plane_bytes = 0;
  std::uint64_t part_block_bytes = 0;
  std::uint64_t part_head_bytes = 0;
  std::uint64_t part_token_bytes = 0;
  std::uint64_t span_bytes = 0;
  std::uint32_t planes = 0;
  std::uint32_t blocks = 0;
  std::uint32_t rows = 0;   // layers * planes * blocks
  std::uint32_t heads = 0;  // spans of a row: heads * tokens
  std::uint32_t tokens = 0;
  std::uint32_t span_pieces = 0;
  std::uint32_t row_pieces = 0;  // heads * tokens * span_pieces
  std::uint32_t vector_bytes = 1;
};

struct DevicePiece {
  std::byte* part = nullptr;
  std::byte* paged = nullptr;
  std::uint32_t bytes = 0;
};

// Requires row < plan.rows and piece < plan.row_pieces.
SLUICE_HOST_DEVICE inline DevicePiece piece_of(const DevicePlan& plan, const DeviceLayer* layers,
                                               const std::uint32_t* block_ids, std::uint32_t row,
                                               std::uint32_t piece) {
  const std::uint32_t block = row % plan.blocks;
  const std::uint32_t plane_of_all = row / plan.blocks;
  const DeviceLayer& layer = layers[plane_of_all / plan.planes];
  const std::uint32_t plane = plane_of_all % plan.planes;
  const std::uint32_t span = piece / plan.span_pieces;
  const std::uint64_t head = span / plan.tokens;
  const std::uint64_t token = span % plan.tokens;
  const std::uint64_t at = std::uint64_t{piece % plan.span_pieces} * kPieceBytes;
  const std::uint64_t left = plan.span_bytes - at;
  DevicePiece out;
  out.part = plan.part + plane_of_all * plan.part_plane_bytes + block * plan.part_block_bytes +
             head * plan.part_head_bytes + token * plan.part_token_bytes + at;
  out.paged = layer.base + plane * layer.plane_stride + block_ids[block] * layer.block_stride +
              head * layer.head_stride + token * layer.token_stride + at;
  out.bytes = left < kPieceBytes ? static_cast<std::uint32_t>(left) : kPieceBytes;
  return out;
}

}  // namespace sluice::kv
