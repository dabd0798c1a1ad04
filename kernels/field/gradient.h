// Gradients of a field [batch, depth, height, width, channels] by Sobel's operator: parameters and the formula of one
// element.
//
// The derivative along an axis is the difference of the element after and the one before, smoothed with [1, 2, 1] along
// the two other axes; beyond the border lies the nearest element. All devices sum depth first, then height, then width,
// so that all have the same bits. Division by 32, which makes it exact for linear and quadratic fields, is exact too.
#pragma once

#include <cstdint>

#include "kernels/cuda/call.h"
#include "kernels/field/stencil.h"
#include "kernels/lanes.h"

namespace torch_hrr::kernels {

// What to compute of a field: [batch, 3, depth, height, width, channels] derivatives by depth, height and width; their
// norm; or, of a field with the three in it, the sum of the transposed operators.
enum class GradientKind : int32_t { kDerivatives, kMagnitude, kTransposed };

struct GradientParams : FieldShape {
  const void* in = nullptr;  // contiguous, as out; they do not overlap
  void* out = nullptr;
  GradientKind kind = GradientKind::kDerivatives;
  bool normalize = true;

  KERNEL_HOST_DEVICE double scale() const {
    return normalize ? 1.0 / 32 : 1.0;
  }
};

void queue(const CudaCall& call, const GradientParams& params);

KERNEL_ISA_BEGIN

// The two sums that the element along one axis takes part in.
template <typename L>
KERNEL_HOST_DEVICE L smoothed(L before, L center, L after) {
  return axis_sum<true>(before, center, after);
}
template <typename L>
KERNEL_HOST_DEVICE L difference(L before, L after) {
  return after - before;
}

template <typename L>
KERNEL_HOST_DEVICE L gradient_norm(L by_depth, L by_height, L by_width) {
  return square_root((by_depth * by_depth + by_height * by_height) + by_width * by_width);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
