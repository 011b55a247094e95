#include "kv/device_copy.h"

#include <bit>
#include <cstring>
#include <utility>

#include "device/cuda_call.h"
#include "kv/device_planner.h"
#include "kv/paged_copy_cuda.h"

namespace sluice::kv {

// Owned by a DeviceCopy, whose GPU is current in every call.
struct DeviceCopy::Table {
  std::byte* pinned = nullptr;
  std::byte* on_device = nullptr;
  std::size_t capacity = 0;
  cudaEvent_t launched = nullptr;  // after the last launch that read it

  Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() {
    if (launched != nullptr) {
      static_cast<void>(cudaEventSynchronize(launched));
      static_cast<void>(cudaEventDestroy(launched));
    }
    release();
  }

  // Waits until nothing reads it, then makes room.
  Status prepare(std::size_t bytes) {
    if (launched == nullptr) {
      if (auto made = cuda_status(cudaEventCreateWithFlags(&launched, cudaEventDisableTiming),
                                  "creating a CUDA event");
          !made)
        return made;
    }
    if (auto idle = cuda_status(cudaEventSynchronize(launched), "waiting for a paged copy"); !idle)
      return idle;
    if (bytes <= capacity) return {};
    release();
    const std::size_t room = std::bit_ceil(bytes);
    void* at = nullptr;
    if (auto here = cuda_status(cudaMallocHost(&at, room), "allocating pinned memory"); !here)
      return here;
    pinned = static_cast<std::byte*>(at);
    if (auto there = cuda_status(cudaMalloc(&at, room), "allocating GPU memory"); !there)
      return there;
    on_device = static_cast<std::byte*>(at);
    capacity = room;
    return {};
  }

  void release() noexcept {
    static_cast<void>(cudaFreeHost(std::exchange(pinned, nullptr)));
    static_cast<void>(cudaFree(std::exchange(on_device, nullptr)));
    capacity = 0;
  }
};

DeviceCopy::DeviceCopy(int ordinal) noexcept : ordinal_(ordinal) {}

DeviceCopy::~DeviceCopy() {
  const CurrentDevice current(ordinal_);
  for (auto& table : tables_) table.reset();
}

Result<std::unique_ptr<DeviceCopy>> DeviceCopy::make(int ordinal) {
  if (auto there = require_cuda_device(ordinal); !there) return std::unexpected(there.error());
  std::unique_ptr<DeviceCopy> copy(new DeviceCopy(ordinal));
  for (auto& table : copy->tables_) table = std::make_unique<Table>();
  return copy;
}

Status DeviceCopy::gather(DeviceAddress part, std::uint64_t part_bytes, const Transfer& transfer,
                          Stream stream) {
  if (auto fits = check_gather(part_bytes, transfer); !fits) return fits;
  return enqueue(part, transfer, true, stream);
}

Status DeviceCopy::scatter(DeviceAddress part, std::uint64_t part_bytes, const Transfer& transfer,
                           Stream stream) {
  if (auto fits = check_scatter(part_bytes, transfer); !fits) return fits;
  return enqueue(part, transfer, false, stream);
}

Status DeviceCopy::enqueue(DeviceAddress part, const Transfer& transfer, bool gather,
                           Stream stream) {
  if (transfer.block_ids.empty()) return {};
  if (part.value == 0) return fail(Code::kInvalidArgument, "the part has no address");
  const auto planned = plan_copy(reinterpret_cast<std::byte*>(part.value), transfer);
  if (!planned) return std::unexpected(planned.error());

  const CurrentDevice current(ordinal_);
  if (auto selected = current.status(); !selected) return selected;
  const std::size_t layer_bytes = planned->layers.size() * sizeof(DeviceLayer);
  Table& table = *tables_[turn_++ % kTables];
  if (auto ready = table.prepare(layer_bytes + transfer.block_ids.size_bytes()); !ready)
    return ready;
  std::memcpy(table.pinned, planned->layers.data(), layer_bytes);
  std::memcpy(table.pinned + layer_bytes, transfer.block_ids.data(),
              transfer.block_ids.size_bytes());

  const auto cuda_stream = static_cast<cudaStream_t>(stream.handle);
  Status enqueued = cuda_status(
      cudaMemcpyAsync(table.on_device, table.pinned, layer_bytes + transfer.block_ids.size_bytes(),
                      cudaMemcpyHostToDevice, cuda_stream),
      "sending the table of a paged copy");
  if (!enqueued) return enqueued;
  enqueued = cuda_status(
      launch_paged_copy(planned->plan, reinterpret_cast<const DeviceLayer*>(table.on_device),
                        reinterpret_cast<const std::uint32_t*>(table.on_device + layer_bytes),
                        gather ? Direction::kGather : Direction::kScatter, cuda_stream),
      "launching a paged copy");
  const Status recorded =
      cuda_status(cudaEventRecord(table.launched, cuda_stream), "recording a CUDA event");
  if (!recorded) static_cast<void>(cudaStreamSynchronize(cuda_stream));  // the table is in use
  return enqueued ? recorded : enqueued;
}

}  // namespace sluice::kv
