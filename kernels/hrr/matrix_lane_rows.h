// Rows that are transformed as matrices, W side by side with each in a lane: what they give has the bits of
// MatrixEngine, which takes the rows that are too few to fill the lanes.
#pragma once

#include "kernels/fft/matrix_lanes.h"
#include "kernels/hrr/lane_rows.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

template <typename S>
struct MatrixLaneRows {
  using T = compute_t<S>;
  static constexpr int W = kLanes<T>;
  using V = Simd<T, W>;
  using Vectors = Split<T>;

  // Fewer are done sooner by themselves: a full group takes the time of 10 to 15 of 16 single rows.
  static constexpr int64_t kMinRows = 13 * W / 16;

  const MatrixPlan<T>& plan;
  RowStage<S, W> stage;
  Vectors work;

  static int64_t part(const MatrixPlan<T>& plan) {
    return plan.columns * plan.bins * W;
  }
  static int64_t scratch_bytes(int64_t dim, int operands) {
    const int64_t numbers = W * dim + (operands + 1) * 2 * part(matrix_plan_for<S>(dim));
    return (numbers * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64 + 64 * (operands + 2);
  }

  MatrixLaneRows(int64_t dim, void* scratch, int64_t& used)
      : plan(matrix_plan_for<S>(dim)), stage{dim, aligned<T>(scratch, used, W * dim)} {
    work = vectors(scratch, used);
  }
  Vectors vectors(void* scratch, int64_t& used) const {
    T* const memory = aligned<T>(scratch, used, 2 * part(plan));
    return {memory, memory + part(plan)};
  }

  void load(const S* const (&rows)[W], Vectors spectra) const {
    const T* sources[W];
    stage.widened(rows, sources);
    matrix_lanes_forward<W>(plan, sources, spectra, work);
  }
  // By itself a row is judged by 1/2 to 3 times the sum that lanes give, rounded in another order: rows near a limit
  // are left to that.
  static uint32_t unsafe(V squared) {
    return unsafe_lanes(squared * V::broadcast(0.25)) | unsafe_lanes(squared * V::broadcast(4));
  }
  // Spectra from packed bins; returns the lanes that must go by themselves.
  uint32_t load_packed(const S* const (&rows)[W], Vectors spectra) const {
    const T* sources[W];
    stage.widened(rows, sources);
    return unsafe(packed_to_matrix_lanes<W>(plan, sources, spectra));
  }
  // The first `count` rows of `out` <- the packed bins of spectra; returns the lanes that must go by themselves.
  // Bringing the rows from `behind` on into the cache meanwhile would not pay.
  uint32_t store_packed(Vectors spectra, const S* /*behind*/, S* out, int64_t count) const {
    T* rows[W];
    stage.targets(out, count, plan.dim, rows);
    const V squared = matrix_lanes_to_packed<W>(plan, spectra, rows);
    stage.narrowed(out, count, plan.dim);
    return unsafe(squared);
  }
  // The first `count` rows that spectra stand for, times scale[lane]; the spectra are overwritten. Returns a mask of
  // the lanes with a result that is not finite.
  uint32_t finish(Vectors spectra, const T (&scale)[W], S* out, int64_t count) const {
    T* rows[W];
    stage.targets(out, count, plan.dim, rows);
    const uint32_t beyond = matrix_lanes_inverse<W>(plan, spectra, work, scale, rows);
    stage.narrowed(out, count, plan.dim);
    return beyond;
  }
  uint32_t finish(Vectors spectra, S* out, int64_t count) const {
    T scale[W];
    set_exact_scale(plan.dim, scale);
    return finish(spectra, scale, out, count);
  }

  int64_t points() const {
    return plan.dim;
  }
  // c <- a (*) b; returns sum |C|^2 over all D bins where kNorm, added up as multiply_spectra does, which takes W
  // numbers of a spectrum at a time. c may be a or b.
  template <Product kProduct, bool kNorm>
  V multiply(Vectors a, Vectors b, Vectors c) const {
    V sums[W];
    for (V& sum : sums) {
      sum = V::broadcast(0);
    }
    for (int64_t p = 0; p < plan.columns; ++p) {
      for (int64_t q = 0; q < plan.bins; ++q) {
        const int64_t place = (p * plan.bins + q) * W;
        const Complex<V> x = product_of_bins<kProduct>(load_numbers<T, W>(a, place), load_numbers<T, W>(b, place));
        store_numbers<T, W>(c, place, x);
        if constexpr (kNorm) {
          V& sum = sums[(p * plan.lanes + q) % W];
          sum = inner_of_bins(x, x, V::broadcast(q == 0 ? 1 : 2), sum);
        }
      }
    }
    return sum_by_halves(sums);
  }
};

// Bytes for `operands` spectra of rows side by side.
template <typename S>
int64_t group_bytes(RowGroup group, int64_t dim, int operands) {
  return group == RowGroup::kMatrixLanes ? MatrixLaneRows<S>::scratch_bytes(dim, operands)
                                         : lane_bytes<S>(group, dim, operands);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
