// Circular convolution and correlation of real rows: parameters and the per-element formulas of every device.
//
// A real row x of length D = 2M is read as M complex numbers z[n] = x[2n] + i x[2n+1]; Z is their M-point DFT
// (e^{-2 pi i nk/M}). The even and odd halves of x have spectra E = (Z_k + conj Z_{M-k})/2 and
// O = (Z_k - conj Z_{M-k})/2i, and a product of two rows is a pointwise map of (Z_k, Z_{M-k}) pairs. Rows are never
// mixed, so |a|/|b| may be anything.
#pragma once

#include <cstdint>

#include "kernels/cuda/call.h"
#include "kernels/hrr/row_plan.h"
#include "kernels/hrr/safe_range.h"
#include "kernels/macros.h"
#include "kernels/numeric.h"
#include "kernels/rows.h"

namespace torch_hrr::kernels {

enum class Product : int32_t {
  kConvolution = 0,  // c[n] = sum_m a[m] b[(n-m) mod D]
  kCorrelation = 1,  // c[n] = sum_m a[(n+m) mod D] b[m]
};

// out[r] = a[r] (*) b[r], divided by max(norm2, eps) where normalize is set. a and b are rows of unit stride placed by
// map operands 0 and 1; out is contiguous [rows, dim].
struct BindParams {
  static constexpr RowFamily kFamily = RowFamily::kProduct;

  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  int64_t rows = 0;
  int64_t dim = 0;
  RowPlan plan;
  RowMap map;
  Product product = Product::kConvolution;
  bool normalize = false;
  double eps = 0;
};

// Gradients of y = a (*) b (normalised if normalize is set) with respect to a and b for an upstream gradient g. Rows of
// g, a and b are placed by map operands 0, 1 and 2; grad_a and grad_b are contiguous [rows, dim], either may be null.
struct BindBackwardParams {
  static constexpr RowFamily kFamily = RowFamily::kGradient;

  const void* grad = nullptr;
  const void* a = nullptr;
  const void* b = nullptr;
  void* grad_a = nullptr;
  void* grad_b = nullptr;
  int64_t rows = 0;
  int64_t dim = 0;
  RowPlan plan;
  RowMap map;
  Product product = Product::kConvolution;
  bool normalize = false;
  double eps = 0;
};

// out[r] = sum_k w[r,k] (a[r,k] conv b[r,k]), normalised as above. Row maps place the first pair of a record; item
// strides step through K. Operand 2 places the weights; weights == nullptr means all ones.
struct BindSuperposeParams {
  static constexpr RowFamily kFamily = RowFamily::kProductSum;

  const void* a = nullptr;
  const void* b = nullptr;
  const void* weights = nullptr;
  void* out = nullptr;
  int64_t rows = 0;
  int64_t items = 0;
  int64_t dim = 0;
  RowPlan plan;
  RowMap map;
  int64_t item_stride_a = 0;
  int64_t item_stride_b = 0;
  int64_t item_stride_weights = 0;
  bool normalize = false;
  double eps = 0;
};

void queue(const CudaCall& call, const BindParams& params);
void queue(const CudaCall& call, const BindBackwardParams& params);
void queue(const CudaCall& call, const BindSuperposeParams& params);

KERNEL_ISA_BEGIN

// The pointwise formulas, on one pair (k, M-k); T is a scalar or a vector of lanes.
//
// Convolution: with d = Z_k - conj Z_{M-k} and u_k = (1 + e^{-2 pi i k/M})/4,
//   C_k = A_k B_k - u_k d_a d_b,      C_{M-k} = A_{M-k} B_{M-k} - conj(u_k d_a d_b).
// Correlation: with s = Z_k + conj Z_{M-k} and v = conj(u_k) s_a conj(d_b),
//   C_k = A_k conj(B_k) - v,          C_{M-k} = A_{M-k} conj(B_{M-k}) + conj(v).
template <typename T>
struct Pair {
  Complex<T> k, mirror;  // Z_k and Z_{M-k}
};

template <typename T>
KERNEL_HOST_DEVICE Pair<T> convolve_pair(Pair<T> a, Pair<T> b, Complex<T> u) {
  const Complex<T> difference_a{a.k.re - a.mirror.re, a.k.im + a.mirror.im};
  const Complex<T> difference_b{b.k.re - b.mirror.re, b.k.im + b.mirror.im};
  const Complex<T> t = multiply(multiply(difference_a, difference_b), u);
  Pair<T> c;
  c.k.re = multiply_add(a.k.re, b.k.re, -multiply_add(a.k.im, b.k.im, t.re));
  c.k.im = multiply_add(a.k.re, b.k.im, multiply_add(a.k.im, b.k.re, -t.im));
  c.mirror.re = multiply_add(a.mirror.re, b.mirror.re, -multiply_add(a.mirror.im, b.mirror.im, t.re));
  c.mirror.im = multiply_add(a.mirror.re, b.mirror.im, multiply_add(a.mirror.im, b.mirror.re, t.im));
  return c;
}

template <typename T>
KERNEL_HOST_DEVICE Pair<T> correlate_pair(Pair<T> a, Pair<T> b, Complex<T> u) {
  const Complex<T> sum_a{a.k.re + a.mirror.re, a.k.im - a.mirror.im};
  const Complex<T> difference_b{b.k.re - b.mirror.re, b.k.im + b.mirror.im};
  const Complex<T> v = multiply_conjugate(multiply_conjugate(sum_a, difference_b), u);
  Pair<T> c;
  c.k.re = multiply_add(a.k.re, b.k.re, multiply_add(a.k.im, b.k.im, -v.re));
  c.k.im = multiply_add(a.k.im, b.k.re, -multiply_add(a.k.re, b.k.im, v.im));
  c.mirror.re = multiply_add(a.mirror.re, b.mirror.re, multiply_add(a.mirror.im, b.mirror.im, v.re));
  c.mirror.im = multiply_add(a.mirror.im, b.mirror.re, -multiply_add(a.mirror.re, b.mirror.im, v.im));
  return c;
}

template <Product kProduct, typename T>
KERNEL_HOST_DEVICE Pair<T> product_pair(Pair<T> a, Pair<T> b, Complex<T> u) {
  if constexpr (kProduct == Product::kConvolution) {
    return convolve_pair(a, b, u);
  } else {
    return correlate_pair(a, b, u);
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
