// The tables of Bluestein's sum for rows of any length: computed once in double, immutable, shared by every thread.
//
// With w_n = e^{i pi n^2 / N} and nk = (n^2 + k^2 - (k-n)^2)/2, sums over N numbers are circular convolutions of a
// length L that the native transforms have:
//   sum_n z_n e^{-2 pi i nk/N} = conj(w_k) sum_n (z_n conj(w_n)) w_{k-n}.
//
// A row of D elements goes
//   whole: N = D, and only the bins k = 0 .. D/2 are wanted, L >= D + D/2. Back, the sums over those bins are the row:
//     a[n] = Re conj(w_n) sum_k (conj(m_k A_k / D) conj(w_k)) w_{n-k},   m_k = 1 for the real bins, 2 for the others;
//   or, for even D, as half as many complex numbers: N = D/2, L >= D - 1, and the bins are those of HalfRow.
#pragma once

#include <cstdint>

#include "kernels/fft/fft_plan.h"
#include "kernels/macros.h"

namespace torch_hrr::kernels {

struct ChirpShape {
  int64_t dim = 0;  // D
  bool halved = false;
  int64_t length = 0;  // L

  KERNEL_HOST_DEVICE int64_t points() const {  // N
    return halved ? dim / 2 : dim;
  }
  KERNEL_HOST_DEVICE int64_t sums() const {
    return halved ? dim / 2 : dim / 2 + 1;
  }
  bool operator==(const ChirpShape&) const = default;
};

// The arrays lie one after the other, in this order; the roots of HalfRow follow where `halved`.
template <typename T>
struct ChirpPlan : HalfRow<T> {
  ChirpShape shape;
  const T* wave_re;  // w_n, n < N
  const T* wave_im;
  const T*
      to_bins_re;  // the transforms, over L, of w / L wrapped for the lags k - n and n - k: the same where `halved`
  const T* to_bins_im;
  const T* to_row_re;
  const T* to_row_im;
};

// The transform of L complex numbers in place: of an instruction set, which its plans belong to.
using ChirpTransform = void (*)(int64_t length, double* re, double* im, double* work);
struct ChirpKernels {
  ChirpTransform transform;
};

KERNEL_ISA_BEGIN

// How the CPU takes rows of `dim` elements.
inline ChirpShape chirp_shape(int64_t dim, bool halved) {
  return {dim, halved, chirp_length(halved ? dim - 1 : dim + dim / 2)};
}

// Of the arrays for whole rows.
constexpr int64_t chirp_numbers(int64_t dim, int64_t length) {
  return 2 * dim + 4 * length;
}

// Numbers of work that a ChirpTransform takes: two arrays of complex numbers, each array on its own cache lines.
constexpr int64_t chirp_work(int64_t length) {
  return 4 * (length + 32);
}

KERNEL_ISA_END

// Keeps a plan alive while it is used. The plans used last stay, up to a bound on their memory.
template <typename T>
class ChirpLease {
 public:
  ChirpLease(ChirpShape shape, ChirpTransform transform);
  ~ChirpLease();
  ChirpLease(const ChirpLease&) = delete;
  ChirpLease& operator=(const ChirpLease&) = delete;
  KERNEL_HOST_DEVICE const ChirpPlan<T>& plan() const {
    return *plan_;
  }

 private:
  const ChirpPlan<T>* plan_;
  void* owner_;
};

}  // namespace torch_hrr::kernels
