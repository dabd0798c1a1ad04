// superpose of all storage types.
#include "kernels/hrr/launch_superposition.cuh"

#include <stdexcept>

#include "kernels/hrr/cuda_launch.h"
#include "kernels/hrr/launch_rows.cuh"

namespace torch_hrr::kernels {
namespace {

template <typename S>
void launch_rows(const SuperpositionParams& params, void* workspace, CudaStream stream) {
  launch_superposition_rows<S>(params, static_cast<compute_t<S>*>(workspace), DeviceLauncher{stream});
}

int storage_bytes(CudaStorage storage) {
  switch (storage) {
    case CudaStorage::kFloat:
      return sizeof(float);
    case CudaStorage::kDouble:
      return sizeof(double);
    default:
      return sizeof(Half);
  }
}

}  // namespace

int64_t superposition_workspace_bytes(CudaStorage storage, const SuperpositionParams& params) {
  const SuperpositionPlan plan = superposition_plan(params.items, params.dim, storage_bytes(storage));
  const int64_t compute_bytes = storage == CudaStorage::kDouble ? sizeof(double) : sizeof(float);
  return superposition_workspace_elements(plan, params.rows, params.dim) * compute_bytes;
}

void launch_superposition(CudaStorage storage, const SuperpositionParams& params, void* workspace, CudaStream stream) {
  switch (storage) {
    case CudaStorage::kFloat:
      return launch_rows<float>(params, workspace, stream);
    case CudaStorage::kDouble:
      return launch_rows<double>(params, workspace, stream);
    case CudaStorage::kHalf:
      return launch_rows<Half>(params, workspace, stream);
    case CudaStorage::kBFloat16:
      return launch_rows<BFloat16>(params, workspace, stream);
  }
  throw std::runtime_error("superpose: unknown storage type");
}

}  // namespace torch_hrr::kernels
