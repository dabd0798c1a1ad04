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

int storage_bytes(Storage storage) {
  switch (storage) {
    case Storage::kFloat:
      return sizeof(float);
    case Storage::kDouble:
      return sizeof(double);
    default:
      return sizeof(Half);
  }
}

}  // namespace

int64_t superposition_workspace_bytes(Storage storage, const SuperpositionParams& params) {
  const SuperpositionPlan plan = superposition_plan(params.items, params.dim, storage_bytes(storage));
  const int64_t compute_bytes = storage == Storage::kDouble ? sizeof(double) : sizeof(float);
  return superposition_workspace_elements(plan, params.rows, params.dim) * compute_bytes;
}

void launch_superposition(Storage storage, const SuperpositionParams& params, void* workspace, CudaStream stream) {
  switch (storage) {
    case Storage::kFloat:
      return launch_rows<float>(params, workspace, stream);
    case Storage::kDouble:
      return launch_rows<double>(params, workspace, stream);
    case Storage::kHalf:
      return launch_rows<Half>(params, workspace, stream);
    case Storage::kBFloat16:
      return launch_rows<BFloat16>(params, workspace, stream);
  }
  throw std::runtime_error("superpose: unknown storage type");
}

}  // namespace torch_hrr::kernels
