// Decay, diffusion and noise of a field [batch, depth, height, width, channels]: parameters and the formula of one
// element.
//
// One step is f2 = keep (f + rate (S f - f)) with keep = 1 - decay, or with the Laplacian of seven points in place of
// S f - f, then f2 + noise * N(0, 1), rounded to storage. All devices add neighbours in the same order: those of one
// axis first, so that a mirrored field gives the mirrored result, then width, height and depth. A constant field is
// kept exactly by the Laplacian and the binomial mean. Nothing is contracted.
#pragma once

#include <cstdint>

#include "kernels/lanes.h"
#include "kernels/macros.h"
#include "kernels/storage.h"

namespace torch_hrr::kernels {

// What lies outside the field: its nearest element, zeros, or its other end.
enum class Boundary : int32_t { kReplicate, kZeros, kCircular };
enum class Stencil : int32_t { kLaplace, kBox, kBinomial };

struct EvolveParams {
  const void* field = nullptr;  // contiguous, as out; they do not overlap
  void* out = nullptr;
  int64_t batch = 0;
  int64_t depth = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  double keep = 1;
  double rate = 0;
  Boundary boundary = Boundary::kReplicate;
  Stencil stencil = Stencil::kLaplace;
  // Element i of [batch, channels, depth, height, width] gets normal number i of the Philox sequence that starts at
  // block `first` of stream 0, as kernels/math.h numbers those of float; in float64 too, so that a field's noise does
  // not depend on its dtype.
  double noise = 0;
  uint64_t seed = 0;
  uint64_t first = 0;

  KERNEL_HOST_DEVICE int64_t lines() const {
    return batch * depth * height;
  }
  KERNEL_HOST_DEVICE int64_t volume() const {
    return depth * height * width;
  }
  KERNEL_HOST_DEVICE int64_t elements() const {
    return batch * volume() * channels;
  }
  // Philox blocks of a step's noise.
  KERNEL_HOST_DEVICE int64_t noise_blocks() const {
    return (elements() + 3) / 4;
  }
};

// Numbers of a step on a GPU, for which the host would have to wait. Each takes the place of the parameters' own where
// it is not null; the key is (seed, offset), and the offset is added to `first`.
struct EvolveNumbers {
  const void* decay = nullptr;
  const void* diffusion = nullptr;
  Storage decay_storage = Storage::kFloat;
  Storage diffusion_storage = Storage::kFloat;
  const uint64_t* key = nullptr;
};

KERNEL_ISA_BEGIN

// The neighbour of index i within n, or -1 for a zero.
KERNEL_HOST_DEVICE int64_t neighbour(int64_t i, int64_t n, Boundary boundary) {
  if (i >= 0 && i < n) {
    return i;
  }
  if (boundary == Boundary::kZeros) {
    return -1;
  }
  const bool below = i < 0;
  return (boundary == Boundary::kCircular) == below ? n - 1 : 0;
}

// keep (center + rate (sum of six neighbours - 6 center)); sums of two neighbours by axis.
template <typename L>
KERNEL_HOST_DEVICE L laplace_step(L center, L width_sum, L height_sum, L depth_sum, number_t<L> keep,
                                  number_t<L> rate) {
  const L difference = ((width_sum + height_sum) + depth_sum) - lanes_of<L>(6) * center;
  return lanes_of<L>(keep) * (center + lanes_of<L>(rate) * difference);
}

// Weights 1, 1, 1 or 1, 2, 1.
template <bool kBinomial, typename L>
KERNEL_HOST_DEVICE L axis_sum(L before, L center, L after) {
  return (before + after) + (kBinomial ? center + center : center);
}

// keep (center + rate (mean - center)) for a sum of weights 27 or 64.
template <bool kBinomial, typename L>
KERNEL_HOST_DEVICE L mean_step(L center, L sum, number_t<L> keep, number_t<L> rate) {
  using T = number_t<L>;
  const L mean = sum * lanes_of<L>(kBinomial ? T(1) / T(64) : T(1) / T(27));
  return lanes_of<L>(keep) * (center + lanes_of<L>(rate) * (mean - center));
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
