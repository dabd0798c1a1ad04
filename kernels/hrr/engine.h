// How rows are multiplied by their spectra: engines, and what kernels that are written once over them have in common.
//
// An engine takes kRows rows at a time: SpectralEngine and MatrixEngine one, LaneRows (lane_rows.h) and MatrixLaneRows
// (matrix_lane_rows.h) as many as vectors have lanes. All offer
//   operand(scratch, used)  memory for the spectra of their rows
//   load(rows, z)           z <- the spectra
//   finish(z, scale, out, count, step, finite)
//                           `count` rows of `out`, `step` elements apart, <- those of z times scale[row], with z
//                           overwritten; returns a mask of rows that are not finite, 0 where all are known to be
//   spectra()               a Spectra, their part that does not depend on the storage type, with
//     for_points(visit)     visit(point) for what products take together: point.in(z), point.put_in(z, x),
//                           point.of<kProduct>(x, y), point.add_inner(sum, x, y), on numbers of point.Number
//     InnerSum, Sum         what add_inner adds to; its total() is a Sum, which holds a number of T for each row
//     points()              squared norms of spectra over those of rows, and what inverse transforms multiply by
// and for records numbers(), how many there are of each part, and squared(z). Those of one row also offer, for rows
// that leave the range, load(row, exponent, z) and row_of(product, z). The engines of chirp_engine.h give bins alone
// (engine_bins.h).
#pragma once

#include <type_traits>

#include "kernels/fft/half_transform.h"
#include "kernels/fft/matrix_transform.h"
#include "kernels/hrr/finish.h"
#include "kernels/hrr/matrix_stage.h"
#include "kernels/hrr/pair_stage.h"
#include "kernels/rows.h"

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

// The rows of an operand of a map from r on, the last one repeated.
template <typename S, int N>
KERNEL_HOST_DEVICE void rows_of(const RowMap& map, int operand, const void* base, int64_t r, int64_t count,
                                const S* (&rows)[N]) {
  const int inner = map.ndim - 1;
  // Mostly they lie in one run of the innermost dimension. If it is the only one, nothing is divided.
  const S* const all = static_cast<const S*>(base);
  const S* const first = all + (inner == 0 ? r * map.strides[operand][0] : row_offset(map, operand, r));
  if constexpr (N == 1) {
    rows[0] = first;
    return;
  }
  const bool in_a_run = inner == 0 || (inner > 0 && r % map.sizes[inner] + count <= map.sizes[inner]);
  const int64_t step = in_a_run ? map.strides[operand][inner] : 0;
  for (int64_t lane = 0; lane < N; ++lane) {
    const int64_t row = lane < count ? lane : count - 1;
    rows[lane] = in_a_run ? first + row * step : all + row_offset(map, operand, r + row);
  }
}

// A Sum from a number for each row, and the number of one row.
template <typename Sum>
KERNEL_HOST_DEVICE Sum sum_of_rows(const number_t<Sum>* numbers) {
  if constexpr (sizeof(Sum) == sizeof(number_t<Sum>)) {
    return *numbers;
  } else {
    return Sum::load(numbers);
  }
}
template <typename T>
KERNEL_HOST_DEVICE T of_row(T sum, int64_t) {
  return sum;
}
template <typename T, int W>
KERNEL_HOST_DEVICE T of_row(const Simd<T, W>& sum, int64_t row) {
  return sum.lanes[row];
}

// A mask of the rows whose squared norms leave the safe range.
template <typename T>
KERNEL_HOST_DEVICE uint32_t unsafe_rows(T squared) {
  return safe_squared_norm(squared) ? 0 : 1;
}
template <typename T, int W>
KERNEL_HOST_DEVICE uint32_t unsafe_rows(const Simd<T, W>& squared) {
  using V = Simd<T, W>;
  constexpr uint32_t kAll = (1u << W) - 1;
  return kAll ^ (mask_of(squared >= V::broadcast(kLowestSafe<T>)) & mask_of(squared <= V::broadcast(kHighestSafe<T>)));
}

// What products do at points is written over Spectra, so that all types of storage share its code. It is inlined, or
// sums would go through memory.

// c <- a (*) b; returns sum |C|^2 over all points where kNorm. c may be a or b.
template <Product kProduct, bool kNorm, typename Spectra, typename Operand>
typename Spectra::Sum multiply_points(const Spectra& spectra, Operand a, Operand b, Operand c) {
  typename Spectra::InnerSum sum;
  spectra.for_points([&](const auto& point) __attribute__((always_inline)) {
    const auto product = point.template of<kProduct>(point.in(a), point.in(b));
    point.put_in(c, product);
    if constexpr (kNorm) {
      point.add_inner(sum, product, product);
    }
  });
  return sum.total();
}
template <bool kNorm, typename Spectra, typename Operand>
typename Spectra::Sum multiply_spectra(const Spectra& spectra, Product product, Operand a, Operand b, Operand c) {
  return product == Product::kConvolution ? multiply_points<Product::kConvolution, kNorm>(spectra, a, b, c)
                                          : multiply_points<Product::kCorrelation, kNorm>(spectra, a, b, c);
}

// sum <- sum + weights (a (*) b), with a weight for each row
template <Product kProduct, typename Spectra, typename Operand>
void accumulate_points(const Spectra& spectra, Operand a, Operand b, const typename Spectra::Sum& weights,
                       Operand sum) {
  spectra.for_points([&](const auto& point) __attribute__((always_inline)) {
    using Number = typename std::remove_cvref_t<decltype(point)>::Number;
    const auto product = point.template of<kProduct>(point.in(a), point.in(b));
    point.put_in(sum, add_scaled(point.in(sum), in_lanes<Number>(weights), product));
  });
}
template <typename Spectra, typename Operand>
void accumulate_spectra(const Spectra& spectra, Product product, Operand a, Operand b,
                        const typename Spectra::Sum& weights, Operand sum) {
  if (product == Product::kConvolution) {
    accumulate_points<Product::kConvolution>(spectra, a, b, weights, sum);
  } else {
    accumulate_points<Product::kCorrelation>(spectra, a, b, weights, sum);
  }
}

template <typename Spectra, typename Operand>
void clear_spectra(const Spectra& spectra, Operand z) {
  const auto bytes = static_cast<size_t>(spectra.numbers()) * sizeof(*z.re);
  __builtin_memset(static_cast<void*>(z.re), 0, bytes);
  __builtin_memset(static_cast<void*>(z.im), 0, bytes);
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

// The row of a spectrum, which is overwritten, times `scale`; false if it is not finite and not known to be, with
// nothing written where S is not the compute type.
template <typename S, typename Engine>
bool store_inverse(const Engine& engine, typename Engine::Operand z, compute_t<S> scale, bool finite, S* out) {
  using T = compute_t<S>;
  if constexpr (sizeof(S) == sizeof(T)) {
    T* row = reinterpret_cast<T*>(out);
    engine.inverse(z, scale, row);
    return finite || all_finite(row, engine.dim);
  } else {
    engine.inverse(z, scale, engine.stage);
    if (!finite && !all_finite(engine.stage, engine.dim)) {
      return false;
    }
    narrow_row<S>(engine.stage, engine.dim, T{1}, out);
    return true;
  }
}

// Half-length transforms of a row. S is the storage type, T the compute type; kFold: rows of `dim` elements are
// zero-padded to 2 M and folded.
template <typename S, int W, bool kFold>
struct SpectralEngine : PairSpectra<compute_t<S>, W> {
  using T = compute_t<S>;
  using Spectra = PairSpectra<T, W>;
  using Operand = Split<T>;
  static constexpr int kRows = 1;
  static constexpr int kWidth = W;
  using Spectra::plan;
  using Spectra::points;

  int64_t dim;
  T* stage;  // 2 M reals
  Split<T> work;

  const Spectra& spectra() const {
    return *this;
  }
  KERNEL_HOST_DEVICE static int64_t split_elements(int64_t points) {
    return 2 * (points + kSplitPadding);
  }
  static int64_t scratch_bytes(int64_t points, int operands) {
    return (2 * points + (operands + 1) * split_elements(points)) * static_cast<int64_t>(sizeof(T)) +
           64 * (operands + 2);
  }

  KERNEL_HOST_DEVICE SpectralEngine(const FftPlan<T>& the_plan, int64_t the_dim, void* scratch, int64_t& used)
      : Spectra{the_plan}, dim(the_dim) {
    stage = aligned<T>(scratch, used, 2 * points());
    work = operand(scratch, used);
  }

  KERNEL_HOST_DEVICE Operand operand(void* scratch, int64_t& used) const {
    T* memory = aligned<T>(scratch, used, split_elements(points()));
    return {memory, memory + points() + kSplitPadding};
  }

  // The spectrum of a row of compute type, complete or (kFold) of `dim` elements.
  void load_reals(const T* row, Operand spectrum) const {
    if constexpr (kFold) {
      if (row != stage) {
        __builtin_memcpy(stage, row, static_cast<size_t>(dim) * sizeof(T));
      }
      __builtin_memset(static_cast<void*>(stage + dim), 0, static_cast<size_t>(2 * points() - dim) * sizeof(T));
      row = stage;
    }
    half_forward(plan, row, spectrum, work);
    wrap(spectrum, points());
  }
  // That of a row times 2^exponent.
  void load(const S* row, int exponent, Operand spectrum) const {
    load_reals(staged_row(row, dim, exponent, stage), spectrum);
  }
  void load(const S* const (&rows)[1], Operand spectrum) const {
    load(rows[0], 0, spectrum);
  }

  // The inverse transform of a spectrum, which it overwrites, times `scale`: 2 M reals.
  void inverse(Operand spectrum, T scale, T* row) const {
    half_inverse(plan, spectrum, work, scale, row);
  }
  uint32_t finish(Operand spectrum, const T (&scale)[1], S* out, int64_t, int64_t, bool finite) const {
    return store_inverse(*this, spectrum, scale[0], finite, out) ? 0 : 1;
  }

  // The row of `dim` reals that a product stands for, in `stage`; the spectrum is overwritten.
  T* row_of(Product product, Operand spectrum) const {
    inverse(spectrum, T{1} / static_cast<T>(points()), stage);
    if constexpr (kFold) {
      if (product == Product::kConvolution) {
        // The linear convolution has 2 dim - 1 elements.
        for (int64_t n = 0; n + 1 < dim; ++n) {
          stage[n] += stage[n + dim];
        }
      } else {
        // Negative lags stand at the end.
        for (int64_t n = 1; n < dim; ++n) {
          stage[n] += stage[2 * points() - dim + n];
        }
      }
    }
    return stage;
  }
};

// Transforms of a row as a matrix.
template <typename S>
struct MatrixEngine : NumberSpectra<compute_t<S>, kLanes<compute_t<S>>> {
  using T = compute_t<S>;
  using Spectra = NumberSpectra<T, kLanes<T>>;
  using Operand = Split<T>;
  static constexpr int kRows = 1;
  static constexpr int kWidth = kLanes<T>;
  using Spectra::plan;
  using Spectra::points;

  int64_t dim;
  T* stage;
  Split<T> work;

  const Spectra& spectra() const {
    return *this;
  }
  KERNEL_HOST_DEVICE static int64_t split_elements(const MatrixPlan<T>& plan) {
    return 2 * (plan.numbers + kSplitPadding);
  }
  static int64_t scratch_bytes(const MatrixPlan<T>& plan, int operands) {
    return (plan.dim + (operands + 1) * split_elements(plan)) * static_cast<int64_t>(sizeof(T)) + 64 * (operands + 2);
  }

  KERNEL_HOST_DEVICE MatrixEngine(const MatrixPlan<T>& the_plan, void* scratch, int64_t& used)
      : Spectra{the_plan}, dim(the_plan.dim) {
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
  void load(const S* const (&rows)[1], Operand spectrum) const {
    load(rows[0], 0, spectrum);
  }

  void inverse(Operand spectrum, T scale, T* row) const {
    matrix_inverse(plan, spectrum, work, scale, row);
  }
  uint32_t finish(Operand spectrum, const T (&scale)[1], S* out, int64_t, int64_t, bool finite) const {
    return store_inverse(*this, spectrum, scale[0], finite, out) ? 0 : 1;
  }
  T* row_of(Product, Operand spectrum) const {
    inverse(spectrum, T{1} / static_cast<T>(points()), stage);
    return stage;
  }
};

// True where a product is finished in the time domain: its spectrum is not that of the row.
template <typename Engine>
constexpr bool kFolds = false;
template <typename S, int W>
constexpr bool kFolds<SpectralEngine<S, W, true>> = true;

// What makes the inverse of a spectrum exact whose squared norm is `points` times that of its row.
template <typename T, int N>
void set_exact_scale(int64_t points, T (&scale)[N]) {
  for (T& factor : scale) {
    factor = static_cast<T>(1 / static_cast<double>(points));
  }
}
// The same over the norm of each row, whose spectrum has the squared norm `squared`; returns rows that need scaling
// first.
template <typename T, int N, typename Sum>
uint32_t set_normalizing_scale(int64_t points, double eps, const Sum& squared, T (&scale)[N]) {
  const double share = 1 / static_cast<double>(points);
  for (int row = 0; row < N; ++row) {
    const double norm = square_root(static_cast<double>(of_row(squared, row)) / static_cast<double>(points));
    scale[row] = static_cast<T>(share / (norm_divides(norm, eps) ? norm : eps));
  }
  return unsafe_rows(squared);
}

// `count` rows of `out`, `step` elements apart, <- those of spectra, which are overwritten; returns a mask of rows that
// are not finite.
template <typename S, typename Engine>
uint32_t finish_exactly(const Engine& engine, typename Engine::Operand z, S* out, int64_t count, int64_t step) {
  typename Engine::T scale[Engine::kRows];
  set_exact_scale(engine.points(), scale);
  return engine.finish(z, scale, out, count, step, false);
}

// The rows that a product stands for, normalised or not, from its spectra with the squared norms `squared`; these are
// overwritten. Returns the rows that must be computed again from scaled operands.
template <typename S, typename Engine>
uint32_t finish_product(const Engine& engine, Product product, typename Engine::Operand c, bool normalize, double eps,
                        const typename Engine::Sum& squared, S* out, int64_t count) {
  if constexpr (kFolds<Engine>) {
    const auto* row = engine.row_of(product, c);
    return try_finish_row<S, Engine::kWidth>(row, engine.dim, normalize, eps, out) ? 0 : 1;
  } else {
    compute_t<S> scale[Engine::kRows];
    uint32_t unsafe = 0;
    if (normalize) {
      unsafe = set_normalizing_scale(engine.points(), eps, squared, scale);
    } else {
      set_exact_scale(engine.points(), scale);
    }
    if (Engine::kRows == 1 && unsafe != 0) {
      return unsafe;
    }
    return unsafe | engine.finish(c, scale, out, count, engine.dim, normalize);
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
