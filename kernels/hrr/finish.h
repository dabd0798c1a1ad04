// The last step of every row: normalise, undo an exact scaling, round to the storage type.
#pragma once

#include "kernels/hrr/row_scaling.h"
#include "kernels/hrr/safe_range.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// out = c 2^-exponent, divided by its max(norm2, eps) where normalize is set. c is overwritten.
template <typename S, int W>
KERNEL_HOST_DEVICE void finish_scaled_row(compute_t<S>* c, int64_t dim, int exponent, bool normalize, double eps,
                                          S* out) {
  using T = compute_t<S>;
  if (!normalize) {
    rescale_row(c, dim, -exponent);
    return narrow_row<S>(c, dim, T{1}, out);
  }
  const double largest = largest_magnitude(c, dim, 0);
  if (!is_finite(largest)) {
    return fill_nan(out, dim);
  }
  const int shift = unit_exponent(largest);
  scale_row(c, dim, shift);
  const double norm = square_root(static_cast<double>(dot<W>(c, c, dim)));
  // norm 2^-total is the true norm; comparing scaled values keeps both sides representable.
  const int total = exponent + shift;
  if (norm_divides(norm, scale_by_power(eps, total))) {
    return narrow_row<S>(c, dim, static_cast<T>(1 / norm), out);
  }
  for (int64_t i = 0; i < dim; ++i) {
    c[i] = static_cast<T>(scale_by_power(static_cast<double>(c[i]), -total) / eps);
  }
  narrow_row<S>(c, dim, T{1}, out);
}

// The same for a row that may be in range as it stands; false if it is not, with nothing written.
template <typename S, int W>
KERNEL_HOST_DEVICE bool try_finish_row(const compute_t<S>* c, int64_t dim, bool normalize, double eps, S* out) {
  using T = compute_t<S>;
  double scale = 1;
  if (normalize) {
    const T squared = dot<W>(c, c, dim);
    if (!safe_squared_norm(squared)) {
      return false;
    }
    const double norm = square_root(static_cast<double>(squared));
    scale = 1 / (norm_divides(norm, eps) ? norm : eps);
  } else if (!all_finite(c, dim)) {
    return false;
  }
  narrow_row<S>(c, dim, static_cast<T>(scale), out);
  return true;
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
