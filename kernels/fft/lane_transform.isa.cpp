// The transforms of lane_transform.h; compiled once per instruction set.
#include "kernels/fft/lane_transform.h"

#include "kernels/fft/lane_squares.h"
#include "kernels/masked_lanes.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// The numbers of real rows as vectors of a spectrum's arrays.
template <int W, typename Element, typename T>
LaneVectors<Element> row_vectors(const LanePlan<T>& plan, Element* re, Element* im) {
  return plan.dim % 2 == 0 ? LaneVectors<Element>{re, im, W} : LaneVectors<Element>{re, re + W, 2 * W};
}

// Rows of fewer than N numbers: in part of a square where vectors have masks, else number by number.
template <int W, typename T>
void short_rows_to_lanes(const T* const* rows, int64_t count, const LaneVectors<T>& vectors) {
#if defined(__AVX512F__)
  if constexpr (W * sizeof(T) == 64) {
    constexpr int N = kSquare<W, T>;
    const uint32_t mask = (1u << count) - 1;
    Simd<T, W> x[N];
    load_square([&](int row) { return load_lanes<N>(mask, rows[row]); }, x);
#pragma GCC unroll 16
    for (int p = 0; p < N; ++p) {
      if (p < count) {
        x[p].store(vectors.at(p));
      }
    }
    return;
  }
#endif
  for (int64_t p = 0; p < count; ++p) {
    // Put together in a register: a vector cannot be loaded soon after stores of its parts.
    Simd<T, W> x;
#pragma GCC unroll 16
    for (int lane = 0; lane < W; ++lane) {
      x.lanes[lane] = rows[lane][p];
    }
    x.store(vectors.at(p));
  }
}
template <int W, typename T>
uint32_t lanes_to_short_rows(const LaneVectors<const T>& vectors, int64_t count, const T* scale, T* const* rows) {
  using V = Simd<T, W>;
  const V factor = V::load(scale);
  const V zero = V::broadcast(0);
  V check = zero;
#if defined(__AVX512F__)
  if constexpr (W * sizeof(T) == 64) {
    constexpr int N = kSquare<W, T>;
    V x[N];
#pragma GCC unroll 16
    for (int p = 0; p < N; ++p) {
      x[p] = zero;
      if (p < count) {
        x[p] = V::load(vectors.at(p)) * factor;
        check = multiply_add(x[p], zero, check);
      }
    }
    transpose(x);
    const uint32_t mask = (1u << count) - 1;
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) {
      store_lanes_of_half<0>(x[i], mask, rows[i]);
      store_lanes_of_half<1>(x[i], mask, rows[i + N]);
    }
    return mask_of(check != zero);
  }
#endif
  for (int64_t p = 0; p < count; ++p) {
    const V x = V::load(vectors.at(p)) * factor;
    check = multiply_add(x, zero, check);
    for (int lane = 0; lane < W; ++lane) {
      rows[lane][p] = x.lanes[lane];
    }
  }
  return mask_of(check != zero);
}

}  // namespace

template <int W, typename T>
void rows_to_lanes(const T* const* rows, int64_t count, const LaneVectors<T>& vectors) {
  constexpr int N = kSquare<W, T>;
  if (count < N) {
    return short_rows_to_lanes<W>(rows, count, vectors);
  }
  for (int64_t start = 0; start < count; start += N) {
    // The last square may repeat numbers of the one before.
    const int64_t p = start + N <= count ? start : count - N;
    Simd<T, W> x[N];
    load_square([&](int row) { return Simd<T, N>::load(rows[row] + p); }, x);
    T* const first = vectors.at(p);
    T* const second = vectors.at(p + 1);
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) {
      x[i].store((i % 2 == 0 ? first : second) + i / 2 * vectors.step);
    }
    if (start % W == 0) {
#pragma GCC unroll 16
      for (int row = 0; row < W; ++row) {
        __builtin_prefetch(rows[row] + p + W, 0, 3);
      }
    }
  }
}

template <int W, typename T>
uint32_t lanes_to_rows(const LaneVectors<const T>& vectors, int64_t count, const T* scale, T* const* rows) {
  constexpr int N = kSquare<W, T>;
  if (count < N) {
    return lanes_to_short_rows<W>(vectors, count, scale, rows);
  }
  using V = Simd<T, W>;
  const V factor = V::load(scale);
  const V zero = V::broadcast(0);
  // Several sums, so that none of them waits for its last addition.
  constexpr int kSums = 4;
  V check[kSums] = {zero, zero, zero, zero};
  for (int64_t start = 0; start < count; start += N) {
    const int64_t p = start + N <= count ? start : count - N;
    const T* const first = vectors.at(p);
    const T* const second = vectors.at(p + 1);
    V x[N];
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) {
      x[i] = V::load((i % 2 == 0 ? first : second) + i / 2 * vectors.step) * factor;
      check[i % kSums] = multiply_add(x[i], zero, check[i % kSums]);
    }
    store_square(x, rows, p);
    if (start % W == 0) {
#pragma GCC unroll 16
      for (int row = 0; row < W; ++row) {
        __builtin_prefetch(rows[row] + p + W, 1, 3);
      }
    }
  }
  return mask_of(check[0] + check[1] + (check[2] + check[3]) != zero);
}

template <int W, typename T>
void lane_forward(const LanePlan<T>& plan, const T* const* rows, Split<T> spectra, Split<T> work) {
  const Split<T> arrays[2] = {work, spectra};
  const int from = array_of_first_pass(plan);
  rows_to_lanes<W>(rows, plan.dim, row_vectors<W>(plan, arrays[from].re, arrays[from].im));
  if (plan.dim % 2 != 0) {
    __builtin_memset(arrays[from].im, 0, static_cast<size_t>(plan.size) * sizeof(T));
  }
  side_by_side_passes<T, W>(plan, W, arrays, from);
}

template <int W, typename T>
uint32_t lane_inverse(const LanePlan<T>& plan, Split<T> spectra, Split<T> work, const T* scale, T* const* rows) {
  // The inverse of a complex transform: parts exchanged on both sides.
  const Split<T> arrays[2] = {{spectra.im, spectra.re}, {work.im, work.re}};
  const Split<T> result = arrays[side_by_side_passes<T, W>(plan, W, arrays, 0)];
  return lanes_to_rows<W>(row_vectors<W, const T>(plan, result.im, result.re), plan.dim, scale, rows);
}

#define LANE_TRANSFORMS(W, T)                                                                    \
  template void rows_to_lanes<W>(const T* const*, int64_t, const LaneVectors<T>&);               \
  template uint32_t lanes_to_rows<W>(const LaneVectors<const T>&, int64_t, const T*, T* const*); \
  template void lane_forward<W>(const LanePlan<T>&, const T* const*, Split<T>, Split<T>);        \
  template uint32_t lane_inverse<W>(const LanePlan<T>&, Split<T>, Split<T>, const T*, T* const*);
LANE_TRANSFORMS(4, float)
LANE_TRANSFORMS(4, double)
#if defined(__AVX2__)
LANE_TRANSFORMS(kLanes<float>, float)
#endif
#if defined(__AVX512F__)
LANE_TRANSFORMS(kLanes<double>, double)
#endif
#undef LANE_TRANSFORMS

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
