// Which tiles gradients take; `launch_kernel` as in kernels/hrr/launch_transform.cuh.
#pragma once

#include "kernels/field/gradient.cuh"
#include "kernels/field/launch_evolve.cuh"

namespace torch_hrr::kernels {

constexpr int64_t kLeastGradientThreads = 64;

template <typename S, GradientKind kKind, typename LaunchKernel>
void launch_gradient_kind(const char* name, const GradientParams& params, const LaunchKernel& launch_kernel,
                          int64_t most_threads) {
  // Smaller tiles where more numbers are shown, so that a multiprocessor holds several.
  most_threads = std::min<int64_t>(most_threads, kMostGradientThreads<kKind>);
  EvolveTile tile = evolve_tile(params, sizeof(S), most_threads);
  const auto shared_bytes = [&] { return kGradientSums<kKind> * evolve_shared_bytes<compute_t<S>>(tile); };
  while (shared_bytes() > kDefaultSharedBytes && most_threads > kLeastGradientThreads) {
    most_threads /= 2;
    tile = evolve_tile(params, sizeof(S), most_threads);
  }
  const int64_t tiles = TileCounts(params, tile).of_item() * params.batch;
  launch_kernel(name, gradient_kernel<S, kKind>, grid_for(tiles), dim3(static_cast<unsigned>(tile.threads)),
                shared_bytes(), params, tile);
}

template <typename LaunchKernel>
void launch_gradient_with(Storage storage, const GradientParams& params, const LaunchKernel& launch_kernel,
                          int64_t most_threads = kMostEvolveThreads) {
  if (params.elements() == 0) {
    return;
  }
  with_storage(storage, [&](auto zero) {
    using S = decltype(zero);
    switch (params.kind) {
      case GradientKind::kDerivatives:
        return launch_gradient_kind<S, GradientKind::kDerivatives>("field_gradient", params, launch_kernel,
                                                                   most_threads);
      case GradientKind::kMagnitude:
        return launch_gradient_kind<S, GradientKind::kMagnitude>("gradient_magnitude", params, launch_kernel,
                                                                 most_threads);
      case GradientKind::kTransposed:
        return launch_gradient_kind<S, GradientKind::kTransposed>("_field_gradient_backward", params, launch_kernel,
                                                                  most_threads);
    }
  });
}

}  // namespace torch_hrr::kernels
