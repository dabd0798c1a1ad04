// Which block and shared memory kernels of rows in shared memory take; `launch_kernel` as in launch_transform.cuh.
#pragma once

#include "kernels/hrr/launch_product.cuh"
#include "kernels/hrr/packed_spectrum.cuh"
#include "kernels/hrr/spectral_map.cuh"

namespace torch_hrr::kernels {

// The plan's table is that of params.dim and T, which fill_mixed_table filled; `buffers` are those of MixedRow.
template <typename T, typename Params, typename Kernel, typename LaunchKernel, typename... Args>
void launch_mixed_rows(const char* name, const Params& params, int buffers, const Kernel& kernel,
                       const LaunchKernel& launch_kernel, const Args&... args) {
  if (params.rows == 0) {
    return;
  }
  const MixedPlan plan = mixed_plan(params.dim);
  if (plan.points == 0) {
    throw std::runtime_error(std::string(name) + ": no stages for rows of length " + std::to_string(params.dim));
  }
  launch_kernel(name, kernel, grid_for(params.rows), dim3(static_cast<unsigned>(mixed_threads<T>(plan))),
                mixed_shared_bytes<T>(plan, buffers), params, args...,
                static_cast<const MixedPlan*>(params.plan.table));
}

template <typename T, bool kManyItems, typename LaunchKernel>
void launch_mixed_product(const char* name, Storage storage, const BindSuperposeParams& params, Product product,
                          const LaunchKernel& launch_kernel) {
  launch_mixed_rows<T>(name, params, kProductBuffers<kManyItems>, mixed_product_kernel<T, kManyItems>, launch_kernel,
                       product, storage);
}
template <typename T, typename LaunchKernel>
void launch_mixed(Storage storage, const BindParams& params, const LaunchKernel& launch_kernel) {
  launch_mixed_product<T, false>("bind", storage, sum_of_one(params), params.product, launch_kernel);
}
template <typename T, typename LaunchKernel>
void launch_mixed(Storage storage, const BindSuperposeParams& params, const LaunchKernel& launch_kernel) {
  launch_mixed_product<T, true>("bind_superpose", storage, params, Product::kConvolution, launch_kernel);
}
template <typename T, typename LaunchKernel>
void launch_mixed(Storage storage, const BindBackwardParams& params, const LaunchKernel& launch_kernel) {
  if (params.grad_a != nullptr || params.grad_b != nullptr) {
    launch_mixed_rows<T>("bind_backward", params, 2, mixed_backward_kernel<T>, launch_kernel, storage);
  }
}
template <typename T, typename LaunchKernel>
void launch_mixed(Storage storage, const SpectralMapParams& params, const LaunchKernel& launch_kernel) {
  launch_mixed_rows<T>("spectral_map", params, params.v == nullptr ? 1 : 2, mixed_map_kernel<T>, launch_kernel,
                       storage);
}
template <typename T, typename LaunchKernel>
void launch_mixed(Storage storage, const MultibindParams& params, const LaunchKernel& launch_kernel) {
  launch_mixed_rows<T>("multibind", params, 2, mixed_multibind_kernel<T>, launch_kernel, storage);
}
template <typename T, typename LaunchKernel>
void launch_mixed(Storage storage, const PackedSpectrumParams& params, const LaunchKernel& launch_kernel) {
  launch_mixed_rows<T>("packed_spectrum", params, 1, mixed_packed_kernel<T>, launch_kernel, storage);
}
template <typename T, typename LaunchKernel>
void launch_mixed(Storage storage, const SpectrumBindParams& params, const LaunchKernel& launch_kernel) {
  launch_mixed_rows<T>("bind_spectrum", params, 2, mixed_bind_spectrum_kernel<T>, launch_kernel, storage);
}

}  // namespace torch_hrr::kernels
