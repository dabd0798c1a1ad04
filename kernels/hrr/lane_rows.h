// Short rows side by side, each in a lane: loads, products, packed spectra and stores of W rows at a time.
//
// Rows that leave the range of the compute type are found by masks of lanes; the caller computes them again one by one,
// scaled where that is needed.
#pragma once

#include "kernels/hrr/engine_dispatch.h"
#include "kernels/hrr/lane_spectra.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// Pointers to N rows and to N results in the compute type. Rows of another type are copied to a stage, and so are
// results that have no place of that type; all rows must be read before results are written.
template <typename S, int N>
struct RowStage {
  using T = compute_t<S>;

  int64_t dim;
  T* numbers;  // N rows

  void widened(const S* const (&rows)[N], const T* (&result)[N]) const {
    for (int g = 0; g < N; ++g) {
      if constexpr (sizeof(S) == sizeof(T)) {
        result[g] = reinterpret_cast<const T*>(rows[g]);
      } else {
        widen_row<S>(rows[g], dim, numbers + g * dim);
        result[g] = numbers + g * dim;
      }
    }
  }
  // The first `count` are rows of `out`, `step` elements apart; the others are in the stage.
  void targets(S* out, int64_t count, int64_t step, T* (&result)[N]) const {
    const bool all_direct = sizeof(S) == sizeof(T) && count == N;
    T* const first = all_direct ? reinterpret_cast<T*>(out) : numbers;
    const int64_t distance = all_direct ? step : dim;
    for (int g = 0; g < N; ++g) {
      result[g] = first + g * distance;
    }
    if constexpr (sizeof(S) == sizeof(T)) {
      for (int64_t g = 0; !all_direct && g < count; ++g) {
        result[g] = reinterpret_cast<T*>(out + g * step);
      }
    }
  }
  // Results that targets() placed in the stage, to their rows.
  void narrowed(S* out, int64_t count, int64_t step) const {
    if constexpr (sizeof(S) != sizeof(T)) {
      for (int64_t g = 0; g < count; ++g) {
        narrow_row<S>(numbers + g * dim, dim, T{1}, out + g * step);
      }
    }
  }
};

// An engine (engine.h) for rows in lanes.
template <typename S, int W = kLanes<compute_t<S>>>
struct LaneRows : LaneSpectra<compute_t<S>, W> {
  using T = compute_t<S>;
  using V = Simd<T, W>;
  using Spectra = LaneSpectra<T, W>;
  using Operand = typename Spectra::Operand;
  using Spectra::plan;
  static constexpr int kRows = W;
  // How many rows make a group worthwhile.
  static constexpr int64_t kMinRows = 1;

  int64_t dim;
  T* stage;
  Operand work;

  const Spectra& spectra() const {
    return *this;
  }

  static int64_t vectors_bytes(const LanePlan<T>& plan) {
    return 2 * (plan.size + W) * static_cast<int64_t>(sizeof(T)) + 64;
  }
  static int64_t scratch_bytes(int64_t dim, int operands) {
    const LanePlan<T>& plan = lane_plan<T>(dim, W);
    const int64_t bytes = W * dim * static_cast<int64_t>(sizeof(T)) + 64 + (operands + 1) * vectors_bytes(plan);
    return (bytes + 63) / 64 * 64;
  }

  LaneRows(int64_t the_dim, void* scratch, int64_t& used)
      : Spectra{lane_plan<T>(the_dim, W)}, dim(the_dim), stage(aligned<T>(scratch, used, W * the_dim)) {
    work = operand(scratch, used);
  }
  Operand operand(void* scratch, int64_t& used) const {
    T* const memory = aligned<T>(scratch, used, 2 * (plan.size + W));
    return {memory, memory + plan.size + W};
  }

  RowStage<S, W> row_stage() const {
    return {dim, stage};
  }
  void load(const S* const (&rows)[W], Operand spectra) const {
    const T* sources[W];
    row_stage().widened(rows, sources);
    lane_forward<W>(plan, sources, spectra, work);
  }

  // Spectra from packed bins; returns the lanes that need scaling first.
  uint32_t load_packed(const S* const (&rows)[W], Operand z) const {
    const T* sources[W];
    row_stage().widened(rows, sources);
    rows_to_lanes<W>(sources, plan.dim, Spectra::template packed_vectors<T>(z));
    this->unpack(z);
    return unsafe_rows(this->squared(z));
  }
  // The first `count` rows of `out` <- the packed bins of spectra; returns the lanes that need scaling first. `behind`
  // is that of pack.
  uint32_t store_packed(Operand z, const S* behind, S* out, int64_t count) const {
    const V sum = this->pack(z, behind);
    T ones[W];
    V::broadcast(1).store(ones);
    T* rows[W];
    row_stage().targets(out, count, plan.dim, rows);
    lanes_to_rows<W>(Spectra::template packed_vectors<const T>(z), plan.dim, ones, rows);
    row_stage().narrowed(out, count, plan.dim);
    return unsafe_rows(sum);
  }
  uint32_t finish(Operand spectra, const T (&scale)[W], S* out, int64_t count, int64_t step, bool /*finite*/) const {
    T* rows[W];
    row_stage().targets(out, count, step, rows);
    const uint32_t beyond = lane_inverse<W>(plan, spectra, work, scale, rows);
    row_stage().narrowed(out, count, step);
    return beyond;
  }
};

// Bytes for `operands` spectra of rows in lanes, if they go so.
template <typename S>
int64_t lane_bytes(RowGroup group, int64_t dim, int operands) {
  return group == RowGroup::kLanes ? LaneRows<S>::scratch_bytes(dim, operands) : 0;
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
