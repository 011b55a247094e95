// device_copy.h: gather and scatter where the cache lies in an NVIDIA GPU's memory; compiled only
// where CUDA is.
//
// The same transfers as in paged_copy.h, whose CPU code is the reference. Bases of the layers are
// addresses of the GPU; the part is any memory that the GPU reaches: its own, or registered host
// memory such as the arena's. A copy is enqueued on the caller's stream and has no other effect on
// the stream's order; which block goes where is sent ahead of it on the same stream.
//
// Invariant: a table that a launch reads is not written before that launch has run.
// Threads:   one owner.
// Failure:   kInvalidArgument before anything is enqueued, as on the CPU; kUnsupported without such
//            a GPU; kIo with the runtime's error.
// Limits:    kTables copies in flight; one more waits for the first of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include <sluice/device.h>

#include "kv/paged_copy.h"

namespace sluice::kv {

class DeviceCopy {
 public:
  // `ordinal` is the GPU's number as this process sees it.
  static Result<std::unique_ptr<DeviceCopy>> make(int ordinal);
  ~DeviceCopy();  // waits for what is enqueued
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  Status gather(DeviceAddress part, std::uint64_t part_bytes, const Transfer& transfer,
                Stream stream);
  Status scatter(DeviceAddress part, std::uint64_t part_bytes, const Transfer& transfer,
                 Stream stream);

 private:
  static constexpr std::size_t kTables = 4;
  struct Table;  // of layers and block ids: one copy here, one on the GPU

  explicit DeviceCopy(int ordinal) noexcept;
  Status enqueue(DeviceAddress part, const Transfer& transfer, bool gather, Stream stream);

  const int ordinal_;
  std::array<std::unique_ptr<Table>, kTables> tables_;
  std::size_t turn_ = 0;
};

}  // namespace sluice::kv
