// cuda_call.h: what every call of the CUDA runtime needs; included only where CUDA is compiled.
//
// Threads: any. A CurrentDevice belongs to the thread that made it.
// Failure: kIo with the runtime's name and words for the error.
#pragma once

#include <string>
#include <string_view>

#include <cuda_runtime_api.h>

#include <sluice/error.h>

namespace sluice {

inline Status cuda_status(cudaError_t result, std::string_view what) {
  if (result == cudaSuccess) return {};
  return fail(Code::kIo,
              std::string(what) + " failed: " + cudaGetErrorName(result) + ", " +
                  cudaGetErrorString(result),
              Drop::kTransfer);
}

// Makes one GPU current for a scope and puts the caller's choice back afterwards.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal) noexcept {
    result_ = cudaGetDevice(&before_);
    if (result_ != cudaSuccess || before_ == ordinal) return;
    result_ = cudaSetDevice(ordinal);
    changed_ = result_ == cudaSuccess;
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (changed_) static_cast<void>(cudaSetDevice(before_));
  }
  Status status() const { return cuda_status(result_, "selecting the CUDA device"); }

 private:
  cudaError_t result_ = cudaSuccess;
  int before_ = 0;
  bool changed_ = false;
};

// kUnsupported, saying how many there are, when this process has no GPU with that number.
inline Status require_cuda_device(int ordinal) {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaSuccess && ordinal >= 0 && ordinal < count) return {};
  static_cast<void>(cudaGetLastError());
  return fail(Code::kUnsupported,
              "this process sees " + std::to_string(result == cudaSuccess ? count : 0) +
                  " CUDA devices; number " + std::to_string(ordinal) + " is not one of them");
}

}  // namespace sluice
