// Which kernels and blocks a superposition takes; `launch_kernel` as in launch_product.cuh.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/hrr/superposition.cuh"

namespace torch_hrr::kernels {

// workspace holds superposition_workspace_elements(...) of the compute type. Grids of at most max_blocks give the same
// bits.
template <typename S, typename LaunchKernel>
void launch_superposition_rows(const SuperpositionParams& params, compute_t<S>* workspace,
                               const LaunchKernel& launch_kernel, int64_t max_blocks = kMaxGridX) {
  if (params.rows == 0 || params.dim == 0) {
    return;
  }
  const SuperpositionPlan plan = superposition_plan(params.items, params.dim, static_cast<int>(sizeof(S)));
  const std::size_t shared_bytes = superposition_shared_bytes(plan, params.dim, sizeof(compute_t<S>));
  const dim3 block(kSuperposeThreads);
  const auto grid = [&](int64_t blocks) { return grid_for(blocks, 1, max_blocks); };
  if (plan.workspace) {
    const int64_t tiles = (params.dim + plan.tile() - 1) / plan.tile();
    launch_kernel("superpose", superpose_chunks_kernel<S>, grid(params.rows * plan.chunks * tiles), block, shared_bytes,
                  params, plan, workspace);
  }
  launch_kernel("superpose", superpose_kernel<S>, grid(params.rows), block, shared_bytes, params, plan, workspace);
}

}  // namespace torch_hrr::kernels
