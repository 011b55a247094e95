// device.h: moving bytes between the arena, which is host memory, and the memory a tensor lives in.
//
// One interface for every memory kind. A new device implements download() and upload(), which
// block; the rest has a default that moves the bytes piece by piece through a staging buffer in
// host memory. A device that can do better (asynchronous copies, pinned host memory) overrides it.
//
// Invariant: memory named in a copy is in use until its Completion is done. A Completion that is
//            dropped waits first, so that an extent is never given back while a device still writes
//            to it.
// Threads:   a Device may be used from any thread; a Completion has one owner.
// Owner:     a Device owns no tensor and no arena memory; addresses and spans are borrowed until
//            completion.
// Failure:   kInvalidArgument for a missing address, kIo for what the device reports, with its own
//            words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <sluice/error.h>
#include <sluice/tensor.h>

namespace sluice {

// Where a tensor's bytes begin on a device; only the device knows what the number means.
struct DeviceAddress {
  std::uintptr_t value = 0;
};

// The device's own queue, e.g. a cudaStream_t. nullptr is the device's default queue.
struct Stream {
  void* handle = nullptr;
};

// Answers when one copy has ended.
class Completion {
 public:
  // What a device with asynchronous copies implements. wait() may be called again after it
  // returned.
  class State {
   public:
    State() = default;
    virtual ~State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    virtual bool done() noexcept = 0;
    virtual Status wait() = 0;  // blocks until the copy ended, whatever its outcome
  };

  Completion() noexcept = default;  // of a copy that ended before it was returned
  explicit Completion(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
  Completion(Completion&& other) noexcept = default;
  Completion& operator=(Completion&& other) noexcept;
  ~Completion();  // waits

  bool done() const noexcept { return state_ == nullptr || state_->done(); }
  Status wait();

 private:
  std::unique_ptr<State> state_;
};

class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual std::string_view name() const noexcept = 0;

  // Device to host. `to` is written when the completion is done and not before.
  virtual Result<Completion> copy_out(std::span<std::byte> to, DeviceAddress from, Stream stream);
  // Host to device. `from` must not change before the completion is done.
  virtual Result<Completion> copy_in(DeviceAddress to, std::span<const std::byte> from,
                                     Stream stream);

  // Tells the device of host memory that it will copy from and to often, so that it can pin it.
  // Registering the same range twice is fine. The default has nothing to do.
  virtual Status register_host(std::span<std::byte> range);
  virtual Status unregister_host(std::span<std::byte> range);

  // Blocks until everything given to `stream` before has ended. The default copies are ended when
  // they return.
  virtual Status synchronise(Stream stream);

 protected:
  // Blocking copies between device memory and a staging buffer of at most staging_bytes().
  virtual Status download(std::span<std::byte> staging, DeviceAddress from, Stream stream) = 0;
  virtual Status upload(DeviceAddress to, std::span<const std::byte> staging, Stream stream) = 0;
  virtual std::size_t staging_bytes() const noexcept { return 256 * 1024; }
};

// Tensors in ordinary memory: one copy, no staging.
std::unique_ptr<Device> make_host_device();

}  // namespace sluice
