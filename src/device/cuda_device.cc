#include "device/cuda_device.h"

#include <utility>

#include <cuda_runtime_api.h>

#include "device/cuda_call.h"

namespace sluice {
namespace {

// An event recorded after the copy on the same stream.
class EventState final : public Completion::State {
 public:
  explicit EventState(cudaEvent_t event) noexcept : event_(event) {}
  ~EventState() override { static_cast<void>(cudaEventDestroy(event_)); }
  bool done() noexcept override { return cudaEventQuery(event_) != cudaErrorNotReady; }
  Status wait() override {
    return cuda_status(cudaEventSynchronize(event_), "an asynchronous CUDA copy");
  }
  cudaEvent_t event() const noexcept { return event_; }

 private:
  cudaEvent_t event_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int ordinal) noexcept : ordinal_(ordinal) {}

  std::string_view name() const noexcept override { return "cuda"; }

  Result<Completion> copy_out(std::span<std::byte> to, DeviceAddress from, Stream stream) override {
    if (to.empty()) return Completion{};
    return enqueue(to.data(), reinterpret_cast<const void*>(from.value), to.size(),
                   cudaMemcpyDeviceToHost, stream);
  }

  Result<Completion> copy_in(DeviceAddress to, std::span<const std::byte> from,
                             Stream stream) override {
    if (from.empty()) return Completion{};
    return enqueue(reinterpret_cast<void*>(to.value), from.data(), from.size(),
                   cudaMemcpyHostToDevice, stream);
  }

  Status register_host(std::span<std::byte> range) override {
    const CurrentDevice current(ordinal_);
    if (auto selected = current.status(); !selected) return selected;
    // Portable: pinned for every GPU of this process, so several devices may register the same
    //           arena.
    const cudaError_t result =
        cudaHostRegister(range.data(), range.size(), cudaHostRegisterPortable);
    if (result == cudaErrorHostMemoryAlreadyRegistered) {
      static_cast<void>(cudaGetLastError());  // it is what the caller wants; leave no error behind
      return {};
    }
    return cuda_status(result,
                       "pinning host memory (raise `ulimit -l` if memory may not be locked)");
  }

  Status unregister_host(std::span<std::byte> range) override {
    const cudaError_t result = cudaHostUnregister(range.data());
    if (result == cudaErrorHostMemoryNotRegistered) {
      static_cast<void>(cudaGetLastError());
      return {};
    }
    return cuda_status(result, "unpinning host memory");
  }

  Status synchronise(Stream stream) override {
    const CurrentDevice current(ordinal_);
    if (auto selected = current.status(); !selected) return selected;
    return cuda_status(cudaStreamSynchronize(static_cast<cudaStream_t>(stream.handle)),
                       "waiting for a CUDA stream");
  }

 protected:
  Status download(std::span<std::byte> staging, DeviceAddress from, Stream stream) override {
    auto copy = copy_out(staging, from, stream);
    return copy ? copy->wait() : std::unexpected(copy.error());
  }

  Status upload(DeviceAddress to, std::span<const std::byte> staging, Stream stream) override {
    auto copy = copy_in(to, staging, stream);
    return copy ? copy->wait() : std::unexpected(copy.error());
  }

 private:
  Result<Completion> enqueue(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                             Stream stream) {
    if (to == nullptr || from == nullptr) {
      return fail(Code::kInvalidArgument,
                  "the device address of a copy is zero; pass the tensor's data pointer");
    }
    const CurrentDevice current(ordinal_);
    if (auto selected = current.status(); !selected) return std::unexpected(selected.error());
    const auto cuda_stream = static_cast<cudaStream_t>(stream.handle);

    // The event exists before the copy starts, so that a running copy always has something to wait
    // for.
    cudaEvent_t event = nullptr;
    auto created = cuda_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                               "creating a CUDA event");
    if (!created) return std::unexpected(created.error());
    auto state = std::make_unique<EventState>(event);

    auto started =
        cuda_status(cudaMemcpyAsync(to, from, bytes, kind, cuda_stream), "starting a CUDA copy");
    if (!started) return std::unexpected(started.error());
    auto recorded =
        cuda_status(cudaEventRecord(state->event(), cuda_stream), "recording a CUDA event");
    if (!recorded) {
      static_cast<void>(cudaStreamSynchronize(
          cuda_stream));  // the copy runs; its memory may not be given up before
      return std::unexpected(recorded.error());
    }
    return Completion(std::move(state));
  }

  const int ordinal_;
};

}  // namespace

Result<std::unique_ptr<Device>> make_cuda_device(int ordinal) {
  if (auto there = require_cuda_device(ordinal); !there) return std::unexpected(there.error());
  return std::make_unique<CudaDevice>(ordinal);
}

}  // namespace sluice
