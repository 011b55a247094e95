// cuda_device.h: NVIDIA GPUs behind the device interface; compiled only with SLUICE_WITH_CUDA.
//
// Copies are enqueued on the caller's stream and followed by an event, which is what the completion
// waits for. They are truly asynchronous when the host range was registered; the driver stages an
// unregistered one, and stays correct.
//
// Threads: any. The calling thread's current CUDA device is the same after every call as before it.
// Failure: kUnsupported when the machine has no such GPU, otherwise kIo with the runtime's error
//          name.
// Source:  the CUDA runtime API (cudaMemcpyAsync, cudaHostRegister, events),
//          docs.nvidia.com/cuda/cuda-runtime-api.
#pragma once

#include <memory>

#include <sluice/device.h>

namespace sluice {

// `ordinal` is the GPU's number as this process sees it.
Result<std::unique_ptr<Device>> make_cuda_device(int ordinal);

}  // namespace sluice
