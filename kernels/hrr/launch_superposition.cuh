// Which kernels and blocks a superposition takes; `launch_kernel` as in launch_transform.cuh.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/hrr/superposition.cuh"

namespace torch_hrr::kernels {

// workspace holds superposition_workspace_elements(...) of T. Grids of at most max_blocks give the same bits.
template <typename T, int kElements, typename LaunchKernel>
void launch_superposition_runs(Storage storage, const SuperpositionParams& params, T* workspace,
                               const LaunchKernel& launch_kernel, int64_t max_blocks) {
  const SuperpositionPlan plan = superposition_plan(params.items, params.dim, storage_bytes(storage));
  const std::size_t shared_bytes = superposition_shared_bytes(plan, params.dim, sizeof(T));
  const dim3 block(kSuperposeThreads);
  const auto grid = [&](int64_t blocks) { return grid_for(blocks, 1, max_blocks); };
  if (plan.workspace) {
    const int64_t tiles = (params.dim + plan.tile() - 1) / plan.tile();
    launch_kernel("superpose", superpose_chunks_kernel<T, kElements>, grid(params.rows * plan.chunks * tiles), block,
                  shared_bytes, params, plan, storage, workspace);
  }
  launch_kernel("superpose", superpose_kernel<T, kElements>, grid(params.rows), block, shared_bytes, params, plan,
                storage, workspace);
}

template <typename LaunchKernel>
void launch_superposition(Storage storage, const SuperpositionParams& params, void* workspace,
                          const LaunchKernel& launch_kernel, int64_t max_blocks = kMaxGridX) {
  if (params.rows == 0 || params.dim == 0) {
    return;
  }
  if (storage == Storage::kDouble) {
    launch_superposition_runs<double, 2>(storage, params, static_cast<double*>(workspace), launch_kernel, max_blocks);
  } else if (storage == Storage::kFloat) {
    launch_superposition_runs<float, 4>(storage, params, static_cast<float*>(workspace), launch_kernel, max_blocks);
  } else {
    launch_superposition_runs<float, 8>(storage, params, static_cast<float*>(workspace), launch_kernel, max_blocks);
  }
}

}  // namespace torch_hrr::kernels
