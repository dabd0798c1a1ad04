// Queues rows by the kernels that their plan names. Each kind of kernel is compiled in a file of its own.
#pragma once

#include "kernels/cuda/stored.cuh"
#include "kernels/hrr/circular_convolution.h"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/spectral_map.h"

namespace torch_hrr::kernels {

// mixed_rows.cu
template <typename Params>
void queue_mixed(const CudaCall& call, const Params& params);

// chirp.cu
void queue_chirp(const CudaCall& call, const SpectralMapParams& params);
void queue_chirp(const CudaCall& call, const MultibindParams& params);
void queue_chirp(const CudaCall& call, const PackedSpectrumParams& params);

// launch(T{}) starts the kernel for powers of two of compute type T.
template <typename Params, typename Launch>
void queue_planned(const CudaCall& call, const Params& params, const Launch& launch) {
  if (params.plan.path == RowPath::kMixed) {
    return queue_mixed(call, params);
  }
  if constexpr (requires { queue_chirp(call, params); }) {
    if (params.plan.path == RowPath::kDoubleChirp) {
      return queue_chirp(call, params);
    }
  }
  with_compute_type(call.storage, launch);
}

}  // namespace torch_hrr::kernels
