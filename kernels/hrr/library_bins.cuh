// Maps the bins of a library's transform, a thread a bin.
#pragma once

#include "kernels/cuda/element_run.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"

#include "kernels/hrr/bin_maps.h"

namespace torch_hrr::kernels {

constexpr int kMapThreads = 256;

// Complex numbers of a library lie at multiples of their size.
using Bin = ElementRun<double, 2>;

template <SpectralMap kMap>
__global__ void __launch_bounds__(kMapThreads) map_library_bins_kernel(LibraryBinsParams params) {
  for_each_of_grid(params.rows * params.count, [&](int64_t i) {
    const int64_t row = i / params.count;
    const int64_t k = i - row * params.count;
    Complex<double> v{0, 0};
    if constexpr (takes_direction(kMap)) {
      const Bin direction = reinterpret_cast<const Bin*>(params.v)[i];
      v = {direction.elements[0], direction.elements[1]};
    }
    Bin& bin = reinterpret_cast<Bin*>(params.bins)[i];
    const Bin old = bin;
    const Complex<double> result =
        map_bin<kMap>(Complex<double>{old.elements[0], old.elements[1]}, v, scalars_of(params, row));
    const bool real = k == 0 || (params.last_is_real && k == params.count - 1);
    bin = {result.re, real ? 0 : result.im};
  });
}

template <typename LaunchKernel>
void launch_library_bins(const LibraryBinsParams& params, const LaunchKernel& launch_kernel,
                         int64_t max_blocks = kMaxGridX) {
  if (params.rows == 0 || params.count == 0) {
    return;
  }
  with_map(params.kind, [&](auto kind) {
    launch_kernel("map_library_bins", map_library_bins_kernel<decltype(kind)::value>,
                  grid_for(params.rows * params.count, kMapThreads, max_blocks), dim3(kMapThreads), std::size_t{0},
                  params);
  });
}

}  // namespace torch_hrr::kernels
