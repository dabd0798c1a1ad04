// The kernel of moments: a thread takes a channel of a block of places, which it keeps in registers.
#pragma once

#include "kernels/cuda/block.cuh"
#include "kernels/field/moments.h"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {

constexpr int kMomentThreads = 128;

template <typename S>
__global__ void __launch_bounds__(kMomentThreads) moments_kernel(MomentsParams p) {
  using T = compute_t<S>;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kMomentThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kMomentThreads + thread_rank(); i < p.rows() * p.channels;
       i += step) {
    const int64_t row = i / p.channels;
    const int64_t channel = i - row * p.channels;
    const S* const field = static_cast<const S*>(p.field) + p.first_place(row) * p.channels + channel;
    const int places = p.places_of(row);
    S held[kMomentPlaces];
#pragma unroll
    for (int k = 0; k < kMomentPlaces; ++k) {
      held[k] = k < places ? field[k * p.channels] : S(0);
    }
    T mean = 0;
#pragma unroll
    for (int k = 0; k < kMomentPlaces; ++k) {
      // Zeros beyond the last place add nothing.
      mean = mean + static_cast<T>(held[k]);
    }
    mean = mean / static_cast<T>(places);
    Deviations<T> found{};
#pragma unroll
    for (int k = 0; k < kMomentPlaces; ++k) {
      if (k < places) {
        found.add(static_cast<T>(held[k]), mean, static_cast<T>(p.small));
      }
    }
    T* const out = static_cast<T*>(p.out) + row * kMoments * p.channels + channel;
    out[0] = mean;
    out[p.channels] = found.squares;
    out[2 * p.channels] = found.largest;
    out[3 * p.channels] = found.small;
  }
}

}  // namespace torch_hrr::kernels
