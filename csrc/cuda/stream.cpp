// The stream that work is queued on.
#include <c10/cuda/CUDAStream.h>

#include "csrc/execute.h"

namespace torch_hrr::cuda {

kernels::CudaStream current_stream(c10::Device device) {
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

}  // namespace torch_hrr::cuda
