// Soft winners of all storage types.
#include "kernels/assembly/soft_cap.cuh"

#include <stdexcept>

#include "kernels/assembly/soft_cap_launch.h"

namespace torch_hrr::kernels {

void launch_soft_cap(const SoftCapParams& params, CudaStream stream) {
  const auto start = [stream](const char* name, void (*kernel)(SoftCapParams), dim3 grid, dim3 block,
                              std::size_t shared_bytes, const SoftCapParams& all) {
    launch(name, kernel, grid, block, shared_bytes, stream, all);
  };
  switch (params.storage) {
    case Storage::kFloat:
      return launch_soft_cap_rows<float>(params, start);
    case Storage::kDouble:
      return launch_soft_cap_rows<double>(params, start);
    case Storage::kHalf:
      return launch_soft_cap_rows<Half>(params, start);
    case Storage::kBFloat16:
      return launch_soft_cap_rows<BFloat16>(params, start);
  }
  throw std::runtime_error("k_cap: unknown storage type");
}

}  // namespace torch_hrr::kernels
