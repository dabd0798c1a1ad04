// The tables of Bluestein's sum for rows of any length: computed once in double, immutable, shared by every thread.
//
// With w_n = e^{i pi n^2 / D} and nk = (n^2 + k^2 - (k-n)^2)/2, the bins of a real row and, back, its elements are
//   A_k  = conj(w_k) sum_n (a[n] conj(w_n)) w_{k-n},                           k = 0 .. D/2,
//   a[n] = Re conj(w_n) sum_k (conj(m_k A_k / D) conj(w_k)) w_{n-k},   m_k = 1 for the real bins, 2 for the others:
// circular convolutions of a length L >= D + D/2 that the native transforms have.
#pragma once

#include <cstdint>

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

// The least L for rows of D elements: a multiple of 16 with no prime factor above 5, or a power of two above 8192.
constexpr int64_t chirp_length(int64_t dim) {
  constexpr int64_t kMaxMixed = 8192;
  const int64_t least = dim + dim / 2;
  if (least > kMaxMixed) {
    int64_t length = kMaxMixed;
    while (length < least) {
      length *= 2;
    }
    return length;
  }
  int64_t best = kMaxMixed;
  for (int64_t fives = 1; 16 * fives <= kMaxMixed; fives *= 5) {
    for (int64_t threes = fives; 16 * threes <= kMaxMixed; threes *= 3) {
      int64_t length = 16 * threes;
      while (length < least) {
        length *= 2;
      }
      best = length < best ? length : best;
    }
  }
  return best;
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
