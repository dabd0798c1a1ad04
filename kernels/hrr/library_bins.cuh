// Maps the bins of a library's transform, a thread a bin.
#pragma once

#include "kernels/cuda/device_math.cuh"
#include "kernels/cuda/launch.cuh"

#include "kernels/hrr/bin_maps.h"

namespace torch_hrr::kernels {

constexpr int kMapThreads = 256;

template <SpectralMap kMap>
__global__ void __launch_bounds__(kMapThreads) map_library_bins_kernel(LibraryBinsParams params) {
  const int64_t total = params.rows * params.count;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * block_threads();
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * block_threads() + thread_rank(); i < total; i += threads) {
    const int64_t row = i / params.count;
    const int64_t k = i - row * params.count;
    Complex<double> v{0, 0};
    if constexpr (takes_direction(kMap)) {
      v = {params.v[2 * i], params.v[2 * i + 1]};
    }
    const Complex<double> result =
        map_bin<kMap>(Complex<double>{params.bins[2 * i], params.bins[2 * i + 1]}, v, scalars_of(params, row));
    const bool real = k == 0 || (params.last_is_real && k == params.count - 1);
    params.bins[2 * i] = result.re;
    params.bins[2 * i + 1] = real ? 0 : result.im;
  }
}

template <typename LaunchKernel>
void launch_library_bins(const LibraryBinsParams& params, const LaunchKernel& launch_kernel,
                         int64_t max_blocks = kMaxGridX) {
  if (params.rows == 0 || params.count == 0) {
    return;
  }
  const int64_t blocks = (params.rows * params.count + kMapThreads - 1) / kMapThreads;
  with_map(params.kind, [&](auto kind) {
    launch_kernel("map_library_bins", map_library_bins_kernel<decltype(kind)::value>,
                  grid_for(blocks < max_blocks ? blocks : max_blocks), dim3(kMapThreads), std::size_t{0}, params);
  });
}

}  // namespace torch_hrr::kernels
