// How a row by itself is multiplied, by its spectrum. All engines offer the same steps (load, clear, accumulate,
// finish), so that the per-row decisions are written once.
#pragma once

#include "kernels/fft/matrix_transform.h"
#include "kernels/hrr/matrix_stage.h"
#include "kernels/hrr/pair_stage.h"
#include "kernels/hrr/row_scaling.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// Elements between the real and imaginary arrays beyond M: the wrapped point, and a cache line to keep both apart.
constexpr int64_t kSplitPadding = 32;

template <typename T>
KERNEL_HOST_DEVICE T* aligned(void* memory, int64_t& used, int64_t count) {
  T* result = reinterpret_cast<T*>(static_cast<char*>(memory) + used);
  used += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
  return result;
}

// The row of storage type, times 2^exponent, in the compute type: itself where it is that, else in the stage.
template <typename S>
KERNEL_HOST_DEVICE const compute_t<S>* staged_row(const S* row, int64_t dim, int exponent, compute_t<S>* stage) {
  if constexpr (sizeof(S) == sizeof(compute_t<S>)) {
    if (exponent == 0) {
      return reinterpret_cast<const compute_t<S>*>(row);
    }
  }
  widen_row<S>(row, dim, stage);
  if (exponent != 0) {
    scale_row(stage, dim, exponent);
  }
  return stage;
}

template <typename T>
KERNEL_HOST_DEVICE void clear_spectrum(Split<T> z, int64_t numbers) {
  __builtin_memset(static_cast<void*>(z.re), 0, static_cast<size_t>(numbers) * sizeof(T));
  __builtin_memset(static_cast<void*>(z.im), 0, static_cast<size_t>(numbers) * sizeof(T));
}
// sum <- sum + weight (a (*) b) for the spectra of either kind of plan
template <typename T, int W, typename Plan>
void accumulate_product(const Plan& plan, Product product, Split<T> a, Split<T> b, T weight, Split<T> sum) {
  if (product == Product::kConvolution) {
    accumulate_spectra<Product::kConvolution, T, W>(plan, a, b, weight, sum);
  } else {
    accumulate_spectra<Product::kCorrelation, T, W>(plan, a, b, weight, sum);
  }
}

// Half-length transforms. S is the storage type, T the compute type; kFold: rows of `dim` elements are zero-padded to 2
// M and folded.
template <typename S, int W, bool kFold>
struct SpectralEngine {
  using T = compute_t<S>;
  using Operand = Split<T>;
  static constexpr int kWidth = W;

  const FftPlan<T>& plan;
  int64_t dim;
  int64_t points;  // M: a spectrum's squared norm over the row's, and what the inverse multiplies by
  T* stage;        // 2 M reals
  Split<T> work;

  KERNEL_HOST_DEVICE int64_t numbers() const {
    return points + 1;
  }

  KERNEL_HOST_DEVICE static int64_t split_elements(int64_t points) {
    return 2 * (points + kSplitPadding);
  }
  static int64_t scratch_bytes(int64_t points, int operands) {
    return (2 * points + (operands + 1) * split_elements(points)) * static_cast<int64_t>(sizeof(T)) +
           64 * (operands + 2);
  }

  KERNEL_HOST_DEVICE SpectralEngine(const FftPlan<T>& the_plan, int64_t the_dim, void* scratch, int64_t& used)
      : plan(the_plan), dim(the_dim), points(the_plan.size) {
    stage = aligned<T>(scratch, used, 2 * points);
    work = operand(scratch, used);
  }

  KERNEL_HOST_DEVICE Operand operand(void* scratch, int64_t& used) const {
    T* memory = aligned<T>(scratch, used, split_elements(points));
    return {memory, memory + points + kSplitPadding};
  }

  // The spectrum of a row of compute type, complete or (kFold) of `dim` elements.
  void load_reals(const T* row, Operand spectrum) const {
    if constexpr (kFold) {
      if (row != stage) {
        __builtin_memcpy(stage, row, static_cast<size_t>(dim) * sizeof(T));
      }
      __builtin_memset(static_cast<void*>(stage + dim), 0, static_cast<size_t>(2 * points - dim) * sizeof(T));
      row = stage;
    }
    // An even number of passes ends with a read of work[0], an odd one with a read of work[1].
    const bool even = plan.passes % 2 == 0;
    const Split<T> buffers[2] = {even ? work : spectrum, even ? spectrum : work};
    transform<T, W>(plan, FromRow<T, W>{row}, buffers, ToSplit<T, W>{spectrum});
    wrap(spectrum, points);
  }

  void load(const S* row, int exponent, Operand spectrum) const {
    load_reals(staged_row(row, dim, exponent, stage), spectrum);
  }

  void clear(Operand sum) const {
    clear_spectrum(sum, numbers());
  }

  void accumulate(Product product, Operand a, Operand b, T weight, Operand sum) const {
    accumulate_product<T, W>(plan, product, a, b, weight, sum);
  }

  // The inverse transform of a spectrum, which it overwrites, times `scale`: 2 M reals.
  void inverse(Operand spectrum, T scale, T* row) const {
    const Split<T> buffers[2] = {work, spectrum};
    const FromSplit<T, W> swapped{{spectrum.im, spectrum.re}};
    transform<T, W>(plan, swapped, buffers, ToSwappedRow<T, W>{row, Simd<T, W>::broadcast(scale)});
  }

  // The row of `dim` reals that a spectrum stands for, in `stage`; the spectrum is overwritten.
  T* finish(Product product, Operand spectrum) const {
    inverse(spectrum, T{1} / static_cast<T>(points), stage);
    if constexpr (kFold) {
      if (product == Product::kConvolution) {
        // The linear convolution has 2 dim - 1 elements.
        for (int64_t n = 0; n + 1 < dim; ++n) {
          stage[n] += stage[n + dim];
        }
      } else {
        // Negative lags stand at the end.
        for (int64_t n = 1; n < dim; ++n) {
          stage[n] += stage[2 * points - dim + n];
        }
      }
    }
    return stage;
  }
};

// Transforms of rows as matrices.
template <typename S>
struct MatrixEngine {
  using T = compute_t<S>;
  using Operand = Split<T>;
  static constexpr int kWidth = kLanes<T>;

  const MatrixPlan<T>& plan;
  int64_t dim;
  int64_t points;  // D: a spectrum's squared norm over the row's, and what the inverse multiplies by
  T* stage;
  Split<T> work;

  KERNEL_HOST_DEVICE int64_t numbers() const {
    return plan.numbers;
  }
  KERNEL_HOST_DEVICE static int64_t split_elements(const MatrixPlan<T>& plan) {
    return 2 * (plan.numbers + kSplitPadding);
  }
  static int64_t scratch_bytes(const MatrixPlan<T>& plan, int operands) {
    return (plan.dim + (operands + 1) * split_elements(plan)) * static_cast<int64_t>(sizeof(T)) + 64 * (operands + 2);
  }

  KERNEL_HOST_DEVICE MatrixEngine(const MatrixPlan<T>& the_plan, void* scratch, int64_t& used)
      : plan(the_plan), dim(the_plan.dim), points(the_plan.dim) {
    stage = aligned<T>(scratch, used, dim);
    work = operand(scratch, used);
  }
  KERNEL_HOST_DEVICE Operand operand(void* scratch, int64_t& used) const {
    T* memory = aligned<T>(scratch, used, split_elements(plan));
    return {memory, memory + split_elements(plan) / 2};
  }

  void load_reals(const T* row, Operand spectrum) const {
    matrix_forward(plan, row, spectrum, work);
    for (int64_t q = plan.size; q < plan.numbers; ++q) {
      spectrum.re[q] = 0;
      spectrum.im[q] = 0;
    }
  }
  void load(const S* row, int exponent, Operand spectrum) const {
    load_reals(staged_row(row, dim, exponent, stage), spectrum);
  }
  void clear(Operand sum) const {
    clear_spectrum(sum, numbers());
  }
  void accumulate(Product product, Operand a, Operand b, T weight, Operand sum) const {
    accumulate_product<T, kWidth>(plan, product, a, b, weight, sum);
  }
  void inverse(Operand spectrum, T scale, T* row) const {
    matrix_inverse(plan, spectrum, work, scale, row);
  }
  T* finish(Product, Operand spectrum) const {
    inverse(spectrum, T{1} / static_cast<T>(points), stage);
    return stage;
  }
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
