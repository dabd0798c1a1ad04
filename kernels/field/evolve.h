// Decay, diffusion and noise of a field [batch, depth, height, width, channels]: parameters and the formula of one
// element.
//
// One step is f2 = keep (f + rate (S f - f)) with keep = 1 - decay, or with the Laplacian of seven points in place of
// S f - f, then f2 + noise * N(0, 1), rounded to storage. All devices add neighbours in the same order: those of one
// axis first, so that a mirrored field gives the mirrored result, then width, height and depth. A constant field is
// kept exactly by the Laplacian and the binomial mean. Nothing is contracted.
#pragma once

#include <cstdint>

#include "kernels/cuda/call.h"
#include "kernels/field/stencil.h"
#include "kernels/lanes.h"

namespace torch_hrr::kernels {

enum class Stencil : int32_t { kLaplace, kBox, kBinomial };

// Philox blocks of the noise of so many elements: four numbers each. Int: int64_t, or a size that is not known yet.
template <typename Int>
KERNEL_HOST_DEVICE Int noise_blocks_of(const Int& elements) {
  return (elements + 3) / 4;
}

// Where planes belong that are a part of a deeper field: so many of its planes lie before and after them.
struct FieldPart {
  // Planes at either end that are only read, as neighbours: 0 for a whole field, else 1.
  int64_t margin = 0;
  // -1 where that plane lies beyond the end of the field.
  int64_t before = 0;
  int64_t after = 0;
};

struct EvolveParams : FieldShape {
  const void* field = nullptr;  // contiguous, as out; they do not overlap
  void* out = nullptr;
  double keep = 1;
  double rate = 0;
  Boundary boundary = Boundary::kReplicate;
  Stencil stencil = Stencil::kLaplace;
  FieldPart part;
  // Element i of [batch, channels, depth, height, width] of the whole field gets normal number i of the Philox sequence
  // that starts at block `first` of stream 0, as kernels/math.h numbers those of float; in float64 too, so that a
  // field's noise does not depend on its dtype.
  double noise = 0;
  uint64_t seed = 0;
  uint64_t first = 0;

  // The planes that take the step.
  KERNEL_HOST_DEVICE FieldShape stepping() const {
    FieldShape own = *this;
    own.depth -= 2 * part.margin;
    return own;
  }
  // Places of the whole field, and those of it before plane d of these.
  KERNEL_HOST_DEVICE int64_t whole_volume() const {
    return (part.before + depth + part.after) * height * width;
  }
  KERNEL_HOST_DEVICE int64_t places_before(int64_t d) const {
    return (part.before + d) * height * width;
  }
  // Philox blocks of a step's noise.
  KERNEL_HOST_DEVICE int64_t noise_blocks() const {
    return noise_blocks_of(batch * channels * whole_volume());
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

// At least one step.
int64_t workspace_bytes(Storage storage, const EvolveParams& params, const EvolveNumbers& numbers, int64_t steps);
void queue(const CudaCall& call, const EvolveParams& params, const EvolveNumbers& numbers, int64_t steps);

KERNEL_ISA_BEGIN

// keep (center + rate (sum of six neighbours - 6 center)); sums of two neighbours by axis.
template <typename L>
KERNEL_HOST_DEVICE L laplace_step(L center, L width_sum, L height_sum, L depth_sum, number_t<L> keep,
                                  number_t<L> rate) {
  const L difference = ((width_sum + height_sum) + depth_sum) - lanes_of<L>(6) * center;
  return lanes_of<L>(keep) * (center + lanes_of<L>(rate) * difference);
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
