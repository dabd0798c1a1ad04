// Which kernel Bluestein's sum takes; `launch_kernel` as in launch_transform.cuh.
#pragma once

#include "kernels/hrr/launch_transform.cuh"
#include "kernels/hrr/packed_spectrum.cuh"
#include "kernels/hrr/spectral_map.cuh"

namespace torch_hrr::kernels {

inline int64_t chirp_points(const RowPlan& plan) {
  return plan.path == RowPath::kDoubleChirp ? plan.length : 0;
}
inline ChirpTables chirp_tables(const RowPlan& plan, int64_t dim) {
  return ChirpTables(static_cast<const double*>(plan.table), dim, plan.length);
}

// Rows in double.
template <typename Lengths = AllLengths, typename LaunchKernel>
void launch_chirp(const SpectralMapParams& params, const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return chirp_map_kernel<decltype(log2)::value>; };
  launch_transform<double, Lengths>("chirp_map", chirp_points(params.plan), params, kernel, launch_kernel, threads,
                                    params, chirp_tables(params.plan, params.dim));
}

template <typename Lengths = AllLengths, typename LaunchKernel>
void launch_chirp(const MultibindParams& params, const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return chirp_multibind_kernel<decltype(log2)::value>; };
  launch_transform<double, Lengths>("chirp_multibind", chirp_points(params.plan), params, kernel, launch_kernel,
                                    threads, params, chirp_tables(params.plan, params.dim));
}

template <typename Lengths = AllLengths, typename LaunchKernel>
void launch_chirp(const PackedSpectrumParams& params, const LaunchKernel& launch_kernel, int threads = 0) {
  const auto kernel = [](auto log2) { return chirp_packed_kernel<decltype(log2)::value>; };
  launch_transform<double, Lengths>("chirp_packed", chirp_points(params.plan), params, kernel, launch_kernel, threads,
                                    params, chirp_tables(params.plan, params.dim));
}

}  // namespace torch_hrr::kernels
