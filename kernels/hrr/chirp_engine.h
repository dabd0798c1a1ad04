// Spectra of rows of any length on the CPU by Bluestein's sum; the formulas stand in chirp_plan.h.
#pragma once

#include "kernels/fft/chirp_plan.h"
#include "kernels/hrr/engine.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// ChirpTransform of this instruction set.
void chirp_transform(int64_t length, double* re, double* im, double* work);

enum class ChirpWay { kToBins, kToRow };

// z_k <- conj(w_k) sum_n (z_n conj(w_n)) w_{k-n} of N numbers, for k < sums, or (kToRow) w_{n-k} of `sums` numbers, for
// k < N. The arrays hold L numbers, of which the others mean nothing. work holds chirp_work(L) numbers.
template <typename T>
void chirp_sum(const ChirpPlan<T>& plan, ChirpWay way, Split<T> z, T* work);

// Arrays for the numbers of a sum, and a vector beyond the last.
KERNEL_HOST_DEVICE int64_t chirp_elements(int64_t length) {
  return 2 * (length + kSplitPadding);
}
template <typename T>
KERNEL_HOST_DEVICE Split<T> chirp_operand(int64_t length, void* scratch, int64_t& used) {
  T* memory = aligned<T>(scratch, used, chirp_elements(length));
  return {memory, memory + chirp_elements(length) / 2};
}
// Of an engine with `operands` arrays of T.
template <typename S, typename T>
int64_t chirp_scratch_bytes(ChirpShape shape, int operands) {
  const int64_t numbers = shape.dim + chirp_work(shape.length) + operands * chirp_elements(shape.length);
  return numbers * static_cast<int64_t>(sizeof(T)) + shape.dim * static_cast<int64_t>(sizeof(compute_t<S>)) +
         64 * (operands + 3);
}

// Whole rows; T is the type of the sum.
template <typename S, typename T>
struct ChirpEngine {
  using Operand = Split<T>;  // the bins 0 .. D/2
  using Sum = T;
  static constexpr int kRows = 1;
  static constexpr int kWidth = kLanes<T>;

  const ChirpPlan<T>& plan;
  int64_t dim;
  compute_t<S>* stage;
  T* row;  // the stage itself where it is of this type
  T* work;

  KERNEL_HOST_DEVICE ChirpEngine(const ChirpPlan<T>& the_plan, void* scratch, int64_t& used)
      : plan(the_plan), dim(the_plan.shape.dim) {
    stage = aligned<compute_t<S>>(scratch, used, dim);
    if constexpr (std::is_same_v<T, compute_t<S>>) {
      row = stage;
    } else {
      row = aligned<T>(scratch, used, dim);
    }
    work = aligned<T>(scratch, used, chirp_work(plan.shape.length));
  }
  KERNEL_HOST_DEVICE Operand operand(void* scratch, int64_t& used) const {
    return chirp_operand<T>(plan.shape.length, scratch, used);
  }

  int64_t last_bin() const {
    return dim / 2;
  }
  bool last_is_real() const {
    return dim % 2 == 0;
  }

  // The imaginary parts of the real bins.
  void clear_real(Operand bins) const {
    bins.im[0] = 0;
    if (last_is_real()) {
      bins.im[last_bin()] = 0;
    }
  }

  // row = a row of storage type times 2^exponent; returns its squared norm.
  T widen(const S* source, int exponent) const {
    widen_row<S>(source, dim, stage);
    if constexpr (!std::is_same_v<T, compute_t<S>>) {
      for (int64_t n = 0; n < dim; ++n) {
        row[n] = static_cast<T>(stage[n]);
      }
    }
    if (exponent != 0) {
      scale_row(row, dim, exponent);
    }
    return dot<kWidth>(row, row, dim);
  }

  // The bins of a row times 2^exponent; returns the row's squared norm.
  T load(const S* source, int exponent, Operand bins) const {
    const T squared = widen(source, exponent);
    __builtin_memcpy(bins.re, row, static_cast<size_t>(dim) * sizeof(T));
    __builtin_memset(static_cast<void*>(bins.im), 0, static_cast<size_t>(dim) * sizeof(T));
    chirp_sum(plan, ChirpWay::kToBins, bins, work);
    clear_real(bins);
    return squared;
  }
  double norm_squared(T squared) const {
    return static_cast<double>(squared);
  }
  // What bins are multiplied by, beforehand, for `invert` to be exact.
  double share() const {
    return 1 / static_cast<double>(dim);
  }

  // The row of these bins, whose real ones count as such, in `row`.
  void invert(Operand bins) const {
    clear_real(bins);
    // The others stand for their mirror images too.
    const int64_t others = last_is_real() ? last_bin() : last_bin() + 1;
    for (int64_t k = 1; k < others; ++k) {
      bins.re[k] = 2 * bins.re[k];
      bins.im[k] = -2 * bins.im[k];
    }
    chirp_sum(plan, ChirpWay::kToRow, bins, work);
    __builtin_memcpy(row, bins.re, static_cast<size_t>(dim) * sizeof(T));
  }

  // out = the row times 2^exponent
  void put(int64_t exponent, S* out) const {
    rescale_row(row, dim, exponent);
    if constexpr (!std::is_same_v<T, compute_t<S>>) {
      for (int64_t n = 0; n < dim; ++n) {
        stage[n] = static_cast<compute_t<S>>(row[n]);
      }
    }
    narrow_row<S>(stage, dim, compute_t<S>{1}, out);
  }
};

// Rows of even length as half as many complex numbers.
template <typename S>
struct HalfChirpEngine {
  using T = compute_t<S>;
  using Operand = Split<T>;  // the half-length spectrum
  static constexpr int kRows = 1;
  static constexpr int kWidth = kLanes<T>;

  const ChirpPlan<T>& plan;
  int64_t dim;
  T* stage;
  T* work;

  // M, as of SpectralEngine.
  KERNEL_HOST_DEVICE int64_t points() const {
    return plan.size;
  }
  KERNEL_HOST_DEVICE HalfChirpEngine(const ChirpPlan<T>& the_plan, void* scratch, int64_t& used)
      : plan(the_plan), dim(the_plan.shape.dim) {
    stage = aligned<T>(scratch, used, dim);
    work = aligned<T>(scratch, used, chirp_work(plan.shape.length));
  }
  KERNEL_HOST_DEVICE Operand operand(void* scratch, int64_t& used) const {
    return chirp_operand<T>(plan.shape.length, scratch, used);
  }

  void load(const S* source, int exponent, Operand spectrum) const {
    const T* const row = staged_row(source, dim, exponent, stage);
    int64_t j = 0;
    for (; j + kWidth <= points(); j += kWidth) {
      const ComplexLanes<T, kWidth> numbers = FromRow<T, kWidth>{row}(j);
      numbers.re.store(spectrum.re + j);
      numbers.im.store(spectrum.im + j);
    }
    for (; j < points(); ++j) {
      spectrum.re[j] = row[2 * j];
      spectrum.im[j] = row[2 * j + 1];
    }
    chirp_sum(plan, ChirpWay::kToBins, spectrum, work);
    wrap(spectrum, points());
  }

  // The inverse transform of a spectrum, which it overwrites, times `scale`: 2 M reals.
  void inverse(Operand spectrum, T scale, T* row) const {
    // Parts exchanged on both sides.
    chirp_sum(plan, ChirpWay::kToRow, Operand{spectrum.im, spectrum.re}, work);
    const ToSwappedRow<T, kWidth> store{row, Simd<T, kWidth>::broadcast(scale)};
    int64_t j = 0;
    for (; j + kWidth <= points(); j += kWidth) {
      store(j, {Simd<T, kWidth>::load(spectrum.im + j), Simd<T, kWidth>::load(spectrum.re + j)});
    }
    for (; j < points(); ++j) {
      row[2 * j] = spectrum.re[j] * scale;
      row[2 * j + 1] = spectrum.im[j] * scale;
    }
  }
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
