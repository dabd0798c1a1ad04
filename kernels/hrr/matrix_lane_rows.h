// Rows that are transformed as matrices, W side by side with each in a lane: what they give has the bits of
// MatrixEngine, which takes the rows that are too few to fill the lanes.
#pragma once

#include "kernels/fft/matrix_lanes.h"
#include "kernels/hrr/lane_rows.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// Their spectra, as engine.h asks for.
template <typename T>
struct MatrixLaneSpectra {
  static constexpr int W = kLanes<T>;
  using V = Simd<T, W>;
  using Operand = Split<T>;
  using Sum = V;

  const MatrixPlan<T>& plan;

  int64_t points() const {
    return plan.dim;
  }
  // Sums over all D bins in the order of MatrixEngine, which takes W numbers of a spectrum at a time.
  struct InnerSum {
    V sums[W];

    InnerSum() {
      for (V& sum : sums) {
        sum = V::broadcast(0);
      }
    }
    V total() {
      return sum_by_halves(sums);
    }
  };
  struct Point : BinProduct {
    using Number = V;
    int64_t place;
    int64_t number;  // of the row's spectrum
    T weight;

    Complex<V> in(Operand z) const {
      return load_numbers<T, W>(z, place);
    }
    void put_in(Operand z, const Complex<V>& value) const {
      store_numbers<T, W>(z, place, value);
    }
    void add_inner(InnerSum& sum, const Complex<V>& x, const Complex<V>& y) const {
      V& of_place = sum.sums[number % W];
      of_place = inner_of_bins(x, y, V::broadcast(weight), of_place);
    }
  };
  template <typename Visit>
  KERNEL_HOST_DEVICE void for_points(const Visit& visit) const {
    const int64_t columns = plan.columns;
    const int64_t bins = plan.bins;
    const int64_t lanes = plan.lanes;
    for (int64_t p = 0; p < columns; ++p) {
      for (int64_t q = 0; q < bins; ++q) {
        visit(Point{{}, (p * bins + q) * W, p * lanes + q, q == 0 ? T{1} : T{2}});
      }
    }
  }
};

template <typename S>
struct MatrixLaneRows : MatrixLaneSpectra<compute_t<S>> {
  using T = compute_t<S>;
  using Spectra = MatrixLaneSpectra<T>;
  static constexpr int W = Spectra::W;
  using V = Simd<T, W>;
  using Operand = Split<T>;
  using Spectra::plan;
  static constexpr int kRows = W;

  // Fewer are done sooner by themselves: a full group takes the time of 10 to 15 of 16 single rows.
  static constexpr int64_t kMinRows = 13 * W / 16;

  int64_t dim;
  T* stage;
  Operand work;

  const Spectra& spectra() const {
    return *this;
  }
  static int64_t part(const MatrixPlan<T>& plan) {
    return plan.columns * plan.bins * W;
  }
  static int64_t scratch_bytes(int64_t dim, int operands) {
    const int64_t numbers = W * dim + (operands + 1) * 2 * part(matrix_plan_for<S>(dim));
    return (numbers * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64 + 64 * (operands + 2);
  }

  MatrixLaneRows(int64_t the_dim, void* scratch, int64_t& used)
      : Spectra{matrix_plan_for<S>(the_dim)}, dim(the_dim), stage(aligned<T>(scratch, used, W * the_dim)) {
    work = operand(scratch, used);
  }
  Operand operand(void* scratch, int64_t& used) const {
    T* const memory = aligned<T>(scratch, used, 2 * part(plan));
    return {memory, memory + part(plan)};
  }

  RowStage<S, W> row_stage() const {
    return {dim, stage};
  }
  void load(const S* const (&rows)[W], Operand spectra) const {
    const T* sources[W];
    row_stage().widened(rows, sources);
    matrix_lanes_forward<W>(plan, sources, spectra, work);
  }
  // By itself a row is judged by 1/2 to 3 times the sum that lanes give, rounded in another order: rows near a limit
  // are left to that.
  static uint32_t unsafe(V squared) {
    return unsafe_rows(squared * V::broadcast(0.25)) | unsafe_rows(squared * V::broadcast(4));
  }
  // Spectra from packed bins; returns the lanes that must go by themselves.
  uint32_t load_packed(const S* const (&rows)[W], Operand spectra) const {
    const T* sources[W];
    row_stage().widened(rows, sources);
    return unsafe(packed_to_matrix_lanes<W>(plan, sources, spectra));
  }
  // The first `count` rows of `out` <- the packed bins of spectra; returns the lanes that must go by themselves.
  // Bringing the rows from `behind` on into the cache meanwhile would not pay.
  uint32_t store_packed(Operand spectra, const S* /*behind*/, S* out, int64_t count) const {
    T* rows[W];
    row_stage().targets(out, count, plan.dim, rows);
    const V squared = matrix_lanes_to_packed<W>(plan, spectra, rows);
    row_stage().narrowed(out, count, plan.dim);
    return unsafe(squared);
  }
  uint32_t finish(Operand spectra, const T (&scale)[W], S* out, int64_t count, int64_t step, bool /*finite*/) const {
    T* rows[W];
    row_stage().targets(out, count, step, rows);
    const uint32_t beyond = matrix_lanes_inverse<W>(plan, spectra, work, scale, rows);
    row_stage().narrowed(out, count, step);
    return beyond;
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
