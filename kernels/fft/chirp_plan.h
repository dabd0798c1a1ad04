// The tables of Bluestein's sum for rows of any length: computed once in double, immutable, shared by every thread.
//
// With w_n = e^{i pi n^2 / D} and nk = (n^2 + k^2 - (k-n)^2)/2, the bins of a real row and, back, its elements are
//   A_k  = conj(w_k) sum_n (a[n] conj(w_n)) w_{k-n},                           k = 0 .. D/2,
//   a[n] = Re conj(w_n) sum_k (conj(m_k A_k / D) conj(w_k)) w_{n-k},   m_k = 1 for the real bins, 2 for the others:
// circular convolutions of a length L >= D + D/2 that the native transforms have.
#pragma once

#include <cstdint>

#include "kernels/fft/row_shape.h"
#include "kernels/macros.h"

namespace torch_hrr::kernels {

// The arrays lie one after the other, in this order.
struct ChirpPlan {
  int64_t dim = 0;
  int64_t length = 0;     // L
  const double* wave_re;  // w_n, n < D
  const double* wave_im;
  const double* to_bins_re;  // the transforms, over L, of w wrapped for the lags k - n and n - k
  const double* to_bins_im;
  const double* to_row_re;
  const double* to_row_im;
};

// The transform of L complex numbers in place: of an instruction set, which its plans belong to.
using ChirpTransform = void (*)(int64_t length, double* re, double* im, double* work);
struct ChirpKernels {
  ChirpTransform transform;
};

KERNEL_ISA_BEGIN

constexpr int64_t chirp_numbers(int64_t dim, int64_t length) {
  return 2 * dim + 4 * length;
}

// Numbers of work that a ChirpTransform takes: two arrays of complex numbers, each array on its own cache lines.
constexpr int64_t chirp_work(int64_t length) {
  return 4 * (length + 32);
}

KERNEL_ISA_END

// Keeps the plan for rows of `dim` elements and L = length alive while it is used. The plans used last stay, up to a
// bound on their memory.
class ChirpLease {
 public:
  ChirpLease(int64_t dim, int64_t length, ChirpTransform transform);
  ~ChirpLease();
  ChirpLease(const ChirpLease&) = delete;
  ChirpLease& operator=(const ChirpLease&) = delete;
  KERNEL_HOST_DEVICE const ChirpPlan& plan() const {
    return *plan_;
  }

 private:
  const ChirpPlan* plan_;
  void* owner_;
};

}  // namespace torch_hrr::kernels
