// Which block and shared memory the kernels of mixed_rows.cuh take; `launch_kernel` as in launch_transform.cuh.
#pragma once

#include "kernels/hrr/launch_product.cuh"
#include "kernels/hrr/mixed_rows.cuh"

namespace torch_hrr::kernels {

// launch_type(T{}) with the type that rows of this storage are computed in.
template <typename Launch>
void with_compute_type(Storage storage, const Launch& launch_type) {
  if (storage == Storage::kDouble) {
    launch_type(double{});
  } else {
    launch_type(float{});
  }
}

// `table` is that of params.dim and T, which fill_mixed_table filled; `buffers` are those of MixedRow.
template <typename T, typename Params, typename Kernel, typename LaunchKernel, typename... Args>
void launch_mixed(const char* name, const Params& params, const void* table, int buffers, const Kernel& kernel,
                  const LaunchKernel& launch_kernel, const Args&... args) {
  if (params.rows == 0 || params.dim == 0) {
    return;
  }
  const MixedPlan plan = mixed_plan(params.dim);
  if (plan.points == 0) {
    throw std::runtime_error(std::string(name) + ": no stages for rows of length " + std::to_string(params.dim));
  }
  launch_kernel(name, kernel, grid_for(params.rows), dim3(static_cast<unsigned>(mixed_threads<T>(plan))),
                mixed_shared_bytes<T>(plan, buffers), params, args..., static_cast<const MixedPlan*>(table));
}

template <typename LaunchKernel>
void launch_mixed_product(const char* name, Storage storage, const BindSuperposeParams& params, Product product,
                          const void* table, const LaunchKernel& launch_kernel) {
  with_compute_type(storage, [&](auto zero) {
    using T = decltype(zero);
    launch_mixed<T>(name, params, table, mixed_product_buffers(params.items), mixed_product_kernel<T>, launch_kernel,
                    product, storage);
  });
}

template <typename LaunchKernel>
void launch_mixed_backward(Storage storage, const BindBackwardParams& params, const void* table,
                           const LaunchKernel& launch_kernel) {
  if (params.grad_a == nullptr && params.grad_b == nullptr) {
    return;
  }
  with_compute_type(storage, [&](auto zero) {
    using T = decltype(zero);
    launch_mixed<T>("bind_backward", params, table, 2, mixed_backward_kernel<T>, launch_kernel, storage);
  });
}

template <typename LaunchKernel>
void launch_mixed_map(Storage storage, const SpectralMapParams& params, const void* table,
                      const LaunchKernel& launch_kernel) {
  with_compute_type(storage, [&](auto zero) {
    using T = decltype(zero);
    launch_mixed<T>("spectral_map", params, table, params.v == nullptr ? 1 : 2, mixed_map_kernel<T>, launch_kernel,
                    storage);
  });
}

template <typename LaunchKernel>
void launch_mixed_multibind(Storage storage, const MultibindParams& params, const void* table,
                            const LaunchKernel& launch_kernel) {
  with_compute_type(storage, [&](auto zero) {
    using T = decltype(zero);
    launch_mixed<T>("multibind", params, table, 2, mixed_multibind_kernel<T>, launch_kernel, storage);
  });
}

template <typename LaunchKernel>
void launch_mixed_packed(Storage storage, const PackedSpectrumParams& params, const void* table,
                         const LaunchKernel& launch_kernel) {
  with_compute_type(storage, [&](auto zero) {
    using T = decltype(zero);
    launch_mixed<T>("packed_spectrum", params, table, 1, mixed_packed_kernel<T>, launch_kernel, storage);
  });
}

template <typename LaunchKernel>
void launch_mixed_bind_spectrum(Storage storage, const SpectrumBindParams& params, const void* table,
                                const LaunchKernel& launch_kernel) {
  with_compute_type(storage, [&](auto zero) {
    using T = decltype(zero);
    launch_mixed<T>("bind_spectrum", params, table, 2, mixed_bind_spectrum_kernel<T>, launch_kernel, storage);
  });
}

}  // namespace torch_hrr::kernels
