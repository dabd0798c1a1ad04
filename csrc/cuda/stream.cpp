// The stream that work is queued on, and copies to a device.
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAStream.h>

#include "csrc/execute.h"

namespace torch_hrr::cuda {

kernels::CudaStream current_stream(c10::Device device) {
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

at::Tensor on_device(std::span<const std::byte> bytes, c10::Device device) {
  void* const first = const_cast<std::byte*>(bytes.data());
  return at::from_blob(first, {static_cast<int64_t>(bytes.size())}, at::kByte).to(device);
}

}  // namespace torch_hrr::cuda
