// Packed spectra of rows of 128, 256 and 512 floats within the registers of AVX-512, and rows of packed spectra: the
// formulas stand in in_register_plan.h.
#pragma once

#include "kernels/fft/fft.h"
#include "kernels/fft/in_register_plan.h"
#include "kernels/hrr/bin_pairs.h"
#include "kernels/hrr/interleave.h"
#include "kernels/hrr/pair_stage.h"
#include "kernels/hrr/prefetch.h"
#include "kernels/hrr/safe_range.h"
#include "kernels/masked_lanes.h"

#if defined(__AVX512F__)
namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

KERNEL_HOST_DEVICE Simd<float, 16> load_halves(const float* low, const float* high) {
  return joined(Simd<float, 8>::load(low), Simd<float, 8>::load(high));
}
// x <- the transpose of 16 rows in memory: shuffles have one port there, loads two.
KERNEL_HOST_DEVICE void load_transposed(const float* rows, Simd<float, 16> (&x)[16]) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    x[i] = load_halves(rows + i * 16, rows + (i + 8) * 16);
    x[i + 8] = load_halves(rows + i * 16 + 8, rows + (i + 8) * 16 + 8);
  }
  transpose_from<4>(x);
}

// Where the mirror image of bin k = p + R q lies: M - k has R - p and 15 - q, in the first vector, but where p = 0 it
// has 0 and 16 - q, in the second.
template <int R>
struct MirrorLanes {
  static constexpr int of(int j, int w) {
    return j % R == 0 ? w + j : j / R * R + R - j % R;
  }
};

// Numbers of every row, 2 R each, one row after the other.
template <int R>
struct RowParts {
  static constexpr int W = InRegisterPlan::kLanes;
  Simd<float, W> low;
  Simd<float, W> high;

  // From the rows' number `first` on; 0 for those that are not between kBegin and kEnd.
  template <int kBegin = 0, int kEnd = 2 * R>
  static KERNEL_HOST_DEVICE RowParts load(const float* const* rows, int64_t first) {
    if constexpr (R == W) {
      return {load_part<kBegin, kEnd, W>(rows[0] + first), load_part<kBegin - W, kEnd - W, W>(rows[0] + first + W)};
    } else if constexpr (2 * R == W) {
      return {load_part<kBegin, kEnd, W>(rows[0] + first), load_part<kBegin, kEnd, W>(rows[1] + first)};
    } else {
      static_assert(4 * R == W);
      return {joined(load_part<kBegin, kEnd, W / 2>(rows[0] + first), load_part<kBegin, kEnd, W / 2>(rows[1] + first)),
              joined(load_part<kBegin, kEnd, W / 2>(rows[2] + first), load_part<kBegin, kEnd, W / 2>(rows[3] + first))};
    }
  }

  // To the rows from number `first` on, all or those from kBegin to kEnd alone.
  template <int kBegin = 0, int kEnd = 2 * R>
  KERNEL_HOST_DEVICE void store(float* const* rows, int64_t first) const {
    if constexpr (R == W) {
      store_part<kBegin, kEnd>(low, rows[0] + first);
      store_part<kBegin - W, kEnd - W>(high, rows[0] + first + W);
    } else if constexpr (2 * R == W) {
      store_part<kBegin, kEnd>(low, rows[0] + first);
      store_part<kBegin, kEnd>(high, rows[1] + first);
    } else {
      static_assert(4 * R == W);
      store_half<kBegin, kEnd, 0>(low, rows[0] + first);
      store_half<kBegin, kEnd, 1>(low, rows[1] + first);
      store_half<kBegin, kEnd, 0>(high, rows[2] + first);
      store_half<kBegin, kEnd, 1>(high, rows[3] + first);
    }
  }

 private:
  template <int kBegin, int kEnd, int kLength>
  static constexpr bool kWhole = kBegin <= 0 && kEnd >= kLength;
  template <int kBegin, int kEnd, int kLength>
  static constexpr uint32_t kMask = ((1u << (kEnd < kLength ? kEnd : kLength)) - 1) &
                                    ~((1u << (kBegin > 0 ? kBegin : 0)) - 1);

  template <int kBegin, int kEnd, int kLength>
  static KERNEL_HOST_DEVICE Simd<float, kLength> load_part(const float* source) {
    if constexpr (kWhole<kBegin, kEnd, kLength>) {
      return Simd<float, kLength>::load(source);
    } else {
      return load_lanes<kLength>(kMask<kBegin, kEnd, kLength>, source);
    }
  }
  template <int kBegin, int kEnd, int kLength>
  static KERNEL_HOST_DEVICE void store_part(Simd<float, kLength> part, float* target) {
    if constexpr (kWhole<kBegin, kEnd, kLength>) {
      part.store(target);
    } else {
      store_lanes(part, kMask<kBegin, kEnd, kLength>, target);
    }
  }
  template <int kBegin, int kEnd, int kHalf>
  static KERNEL_HOST_DEVICE void store_half(Simd<float, W> part, float* target) {
    if constexpr (kWhole<kBegin, kEnd, W / 2>) {
      half_of<kHalf>(part).store(target);
    } else {
      store_lanes_of_half<kHalf>(part, kMask<kBegin, kEnd, W / 2>, target);
    }
  }
};

// Asks for one of 8 parts of the group of rows behind this one, which mostly comes next, and of its results: stores
// would wait for their lines one by one.
template <bool kPrefetch>
KERNEL_HOST_DEVICE void prefetch_group(const float* rows, const float* out, int part) {
  constexpr int64_t kNumbers = 2 * InRegisterPlan::kLanes * InRegisterPlan::kLanes;
  constexpr int64_t kShare = kNumbers / 8;
  for (int64_t i = kNumbers + kShare * part; kPrefetch && i < kNumbers + kShare * (part + 1);
       i += kLineNumbers<float>) {
    __builtin_prefetch(rows + i, 0, 3);
    prefetch_target(out + i);
  }
}

// A mask of the rows whose squared norm, the sum of their lanes, leaves the safe range.
template <int R>
uint32_t unsafe_rows(Simd<float, InRegisterPlan::kLanes> squared) {
  constexpr int W = InRegisterPlan::kLanes;
  float sums[W];
  squared.store(sums);
  uint32_t unsafe = 0;
#pragma GCC unroll 4
  for (int g = 0; g < W / R; ++g) {
    float of_row[R];
    __builtin_memcpy(of_row, sums + R * g, sizeof(of_row));
    unsafe |= static_cast<uint32_t>(!safe_squared_norm(sum_by_halves(of_row))) << g;
  }
  return unsafe;
}

// The inner sums of 16/R rows, times w_M^{lp}: vector p of row g at R g + p.
struct RowVectors {
  alignas(64) float re[InRegisterPlan::kLanes * InRegisterPlan::kLanes];
  alignas(64) float im[InRegisterPlan::kLanes * InRegisterPlan::kLanes];
};

// A function of its own: the numbers of the outer sum take all registers.
template <int R>
__attribute__((noinline)) void inner_sums(const InRegisterPlan& plan, const float* const* rows, RowVectors& vectors) {
  constexpr int W = InRegisterPlan::kLanes;
  using V = Simd<float, W>;
  using C = ComplexLanes<float, W>;
#pragma GCC unroll 4
  for (int g = 0; g < W / R; ++g) {
    C x[R];
#pragma GCC unroll 16
    for (int v = 0; v < R; ++v) {
      const V low = V::load(rows[g] + 2 * W * v);
      const V high = V::load(rows[g] + 2 * W * v + W);
      x[v] = {shuffle<EvenLanes>(low, high), shuffle<OddLanes>(low, high)};
    }
    butterfly<R, float, W>(x);
#pragma GCC unroll 16
    for (int p = 0; p < R; ++p) {
      if (p > 0) {
        x[p] = multiply(x[p], C{V::load(plan.turns[p][0]), V::load(plan.turns[p][1])});
      }
      x[p].re.store(vectors.re + W * (R * g + p));
      x[p].im.store(vectors.im + W * (R * g + p));
    }
  }
}

// out <- the packed spectra of 16/R rows, which are read before anything is written. Returns a mask of those whose
// squared norm leaves the safe range. Asks for the rows behind them, and their results, if there are more at the same
// distance.
template <int R, bool kPrefetch>
uint32_t in_register_spectra(const InRegisterPlan& plan, const float* const* rows, float* const* out) {
  constexpr int W = InRegisterPlan::kLanes;
  constexpr int64_t kPoints = W * R;
  using V = Simd<float, W>;
  using C = ComplexLanes<float, W>;
  RowVectors vectors;
  inner_sums<R>(plan, rows, vectors);
  V re[W];
  V im[W];
  load_transposed(vectors.re, re);
  load_transposed(vectors.im, im);
  C z[W];
#pragma GCC unroll 16
  for (int l = 0; l < W; ++l) {
    z[l] = {re[l], im[l]};
  }
  butterfly<W, float, W>(z);

  const V half = V::broadcast(0.5f);
  V squared[2] = {V::broadcast(0), V::broadcast(0)};
  float first_bins[W];
#pragma GCC unroll 8
  for (int q = 0; 2 * q < W; ++q) {
    const C& mirrors = z[W - 1 - q];
    const C& first_mirrors = z[(W - q) % W];
    const Pair<V> pair{
        z[q],
        {shuffle<MirrorLanes<R>>(mirrors.re, first_mirrors.re), shuffle<MirrorLanes<R>>(mirrors.im, first_mirrors.im)}};
    squared[0] = inner_of_half(pair.k, pair.k, squared[0]);
    squared[1] = inner_of_half(mirrors, mirrors, squared[1]);
    const C half_roots{V::load(plan.half_roots[q][0]), V::load(plan.half_roots[q][1])};
    prefetch_group<kPrefetch>(rows[0], out[0], q);
    const Pair<V> bins = bins_of_pair(pair, half_roots, half);
    const RowParts<R> parts{shuffle<InterleaveLow>(bins.k.re, bins.k.im),
                            shuffle<InterleaveHigh>(bins.k.re, bins.k.im)};
    const RowParts<R> mirror_parts{shuffle<InterleaveReversedLow<R>>(bins.mirror.re, bins.mirror.im),
                                   shuffle<InterleaveReversedHigh<R>>(bins.mirror.re, bins.mirror.im)};
    // A_k stands at 2k - 1; A_0 has no number before the row, and A_M none behind it.
    const int64_t first = 2 * R * q - 1;
    const int64_t first_mirror = 2 * (kPoints - R * (q + 1)) + 1;
    if (q == 0) {
      bins.k.re.store(first_bins);
      parts.template store<1>(out, first);
      mirror_parts.template store<0, 2 * R - 1>(out, first_mirror);
    } else {
      parts.store(out, first);
      mirror_parts.store(out, first_mirror);
    }
  }
  float middle_re[W];
  float middle_im[W];
  z[W / 2].re.store(middle_re);
  z[W / 2].im.store(middle_im);
#pragma GCC unroll 4
  for (int g = 0; g < W / R; ++g) {
    // A_0 is real, and A_{M/2} its own mirror.
    out[g][0] = first_bins[R * g];
    out[g][kPoints - 1] = middle_re[R * g];
    out[g][kPoints] = -middle_im[R * g];
  }
  return unsafe_rows<R>(squared[0] + squared[1]);
}

// The inverse runs the same steps backwards. It swaps real and imaginary parts before and after a forward transform.

// The outer sums of packed bins over M: vector l holds sum l, whose lane R g + p belongs to bin p of row g. Returns a
// mask of the rows whose squared norm leaves the safe range.
template <int R, bool kPrefetch>
__attribute__((noinline)) uint32_t outer_sums(const InRegisterPlan& plan, const float* const* rows,
                                              const float* const* out, RowVectors& vectors) {
  constexpr int W = InRegisterPlan::kLanes;
  constexpr int64_t kPoints = W * R;
  using V = Simd<float, W>;
  using C = ComplexLanes<float, W>;
  using Parts = RowParts<R>;
  constexpr float kScale = 1.0f / kPoints;
  const V half = V::broadcast(0.5f * kScale);
  // A_{M/2} is its own mirror, and Z_{M/2} its conjugate.
  float middle_re[W] = {};
  float middle_im[W] = {};
#pragma GCC unroll 4
  for (int g = 0; g < W / R; ++g) {
    middle_re[R * g] = rows[g][kPoints - 1] * kScale;
    middle_im[R * g] = -rows[g][kPoints] * kScale;
  }
  C next{V::load(middle_re), V::load(middle_im)};
  V squared[2] = {V::broadcast(0), V::broadcast(0)};
  C z[W];
#pragma GCC unroll 8
  for (int q = W / 2 - 1; q >= 0; --q) {
    prefetch_group<kPrefetch>(rows[0], out[0], W / 2 - 1 - q);
    const int64_t first = 2 * R * q - 1;
    const int64_t first_mirror = 2 * (kPoints - R * (q + 1)) + 1;
    const Parts parts = q == 0 ? Parts::template load<1>(rows, first) : Parts::load(rows, first);
    const Parts mirrors =
        q == 0 ? Parts::template load<0, 2 * R - 1>(rows, first_mirror) : Parts::load(rows, first_mirror);
    Pair<V> bins{{shuffle<EvenLanes>(parts.low, parts.high), shuffle<OddLanes>(parts.low, parts.high)},
                 {shuffle<ReversedEvenLanes<R>>(mirrors.low, mirrors.high),
                  shuffle<ReversedOddLanes<R>>(mirrors.low, mirrors.high)}};
    if (q == 0) {
      // A_0 stands where its imaginary part would.
      bins.k.re = shuffle<FirstLanesFromSecond<R>>(bins.k.re, bins.k.im);
      bins.k.im = shuffle<FirstLanesFromSecond<R>>(bins.k.im, V::broadcast(0));
    }
    const C half_roots{V::load(plan.half_roots[q][0]), V::load(plan.half_roots[q][1])};
    const Pair<V> pair = pair_of_bins(bins, half_roots, half);
    const C mirror{shuffle<MirrorLanes<R>>(pair.mirror.re, next.re), shuffle<MirrorLanes<R>>(pair.mirror.im, next.im)};
    squared[0] = inner_of_half(pair.k, pair.k, squared[0]);
    squared[1] = inner_of_half(mirror, mirror, squared[1]);
    z[q] = {pair.k.im, pair.k.re};
    z[W - 1 - q] = {mirror.im, mirror.re};
    next = pair.mirror;
  }
  butterfly<W, float, W>(z);
#pragma GCC unroll 16
  for (int l = 0; l < W; ++l) {
    z[l].re.store(vectors.re + W * l);
    z[l].im.store(vectors.im + W * l);
  }
  constexpr float kPointsSquared = static_cast<float>(kPoints) * static_cast<float>(kPoints);
  return unsafe_rows<R>((squared[0] + squared[1]) * V::broadcast(kPointsSquared));
}

// out <- the inner sums of the outer sums times w_M^{lp}.
template <int R>
void rows_of_sums(const InRegisterPlan& plan, const RowVectors& vectors, float* const* out) {
  constexpr int W = InRegisterPlan::kLanes;
  using V = Simd<float, W>;
  using C = ComplexLanes<float, W>;
  V re[W];
  V im[W];
  load_transposed(vectors.re, re);
  load_transposed(vectors.im, im);
#pragma GCC unroll 4
  for (int g = 0; g < W / R; ++g) {
    C x[R];
#pragma GCC unroll 16
    for (int p = 0; p < R; ++p) {
      x[p] = {re[R * g + p], im[R * g + p]};
      if (p > 0) {
        x[p] = multiply(x[p], C{V::load(plan.turns[p][0]), V::load(plan.turns[p][1])});
      }
    }
    butterfly<R, float, W>(x);
#pragma GCC unroll 16
    for (int v = 0; v < R; ++v) {
      shuffle<InterleaveLow>(x[v].im, x[v].re).store(out[g] + 2 * W * v);
      shuffle<InterleaveHigh>(x[v].im, x[v].re).store(out[g] + 2 * W * v + W);
    }
  }
}

// out <- the rows of 16/R packed spectra, which are read before anything is written. Returns a mask of the rows whose
// squared norm leaves the safe range.
template <int R, bool kPrefetch>
uint32_t in_register_rows(const InRegisterPlan& plan, const float* const* rows, float* const* out) {
  RowVectors vectors;
  const uint32_t unsafe = outer_sums<R, kPrefetch>(plan, rows, out, vectors);
  rows_of_sums<R>(plan, vectors, out);
  return unsafe;
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
#endif
