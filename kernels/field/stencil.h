// What steps and gradients share: the sizes of a field, what lies beyond its border, and sums along an axis.
#pragma once

#include <cstdint>

#include "kernels/macros.h"

namespace torch_hrr::kernels {

// Of a contiguous field [batch, depth, height, width, channels].
struct FieldShape {
  int64_t batch = 0;
  int64_t depth = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;

  KERNEL_HOST_DEVICE int64_t lines() const {
    return batch * depth * height;
  }
  KERNEL_HOST_DEVICE int64_t volume() const {
    return depth * height * width;
  }
  KERNEL_HOST_DEVICE int64_t elements() const {
    return batch * volume() * channels;
  }
};

// What lies outside the field: its nearest element, zeros, or its other end.
enum class Boundary : int32_t { kReplicate, kZeros, kCircular };

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

// Weights 1, 1, 1 or 1, 2, 1.
template <bool kBinomial, typename L>
KERNEL_HOST_DEVICE L axis_sum(L before, L center, L after) {
  return (before + after) + (kBinomial ? center + center : center);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
