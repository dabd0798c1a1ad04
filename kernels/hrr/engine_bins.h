// The bins A_k of rows and the way back, for maps and products of many rows: by the transforms of their length where
// there are some, else by Bluestein's sum, or side by side in lanes.
//
// load_bins, multiply_bins and store_rows serve spectra of any engine. Those of one row also offer
//   load(row, exponent, z)  z <- the bins of the row times 2^exponent; returns a sum of squares that grows with theirs
//   norm_squared(sum)       norm2^2 of the row, from that sum
//   last_bin()              the last number that counts
//   share()                 what bins are multiplied by, beforehand, for `invert` to be exact
//   invert(z)               the row of z, which is overwritten, in the engine's memory
//   put(exponent, out)      out <- that row times 2^exponent
#pragma once

#include "kernels/hrr/chirp_engine.h"
#include "kernels/hrr/engine_dispatch.h"
#include "kernels/hrr/lane_rows.h"
#include "kernels/hrr/row_bins.h"
#include "kernels/hrr/scaled_product.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// dst <- x (*) y for the bins up to `last`; returns sum |dst|^2 over them. dst may be x or y.
template <Product kProduct, typename T>
T multiply_bins_to(Split<T> x, Split<T> y, int64_t last, Split<T> dst) {
  constexpr int W = kLanes<T>;
  using V = Simd<T, W>;
  V sum = V::broadcast(0);
  int64_t k = 0;
  for (; k + W <= last + 1; k += W) {
    const Complex<V> bin = product_of_bins<kProduct>(load_numbers<T, W>(x, k), load_numbers<T, W>(y, k));
    store_numbers<T, W>(dst, k, bin);
    sum = inner_of_half(bin, bin, sum);
  }
  T total = horizontal_sum(sum);
  for (; k <= last; ++k) {
    const Complex<T> bin = product_of_bins<kProduct>(Complex<T>{x.re[k], x.im[k]}, Complex<T>{y.re[k], y.im[k]});
    dst.re[k] = bin.re;
    dst.im[k] = bin.im;
    total = inner_of_half(bin, bin, total);
  }
  return total;
}

template <Product kProduct, typename Spectrum, typename Operand>
typename Spectrum::Sum multiply_bins(const Spectrum& spectrum, Operand x, Operand y, Operand dst) {
  if constexpr (Spectrum::kRows > 1) {
    return spectrum.engine.template multiply_bins<kProduct>(x, y, dst);
  } else {
    return multiply_bins_to<kProduct>(x, y, spectrum.last_bin(), dst);
  }
}

// Multiplies the bins of a row, whose squares sum up to `squared`, by a power of two that brings them near 1 and adds
// it to the exponent.
template <typename Spectrum>
void bring_near_1(const Spectrum& spectrum, typename Spectrum::Operand bins, typename Spectrum::Sum squared,
                  int64_t& exponent) {
  const int shift = unit_exponent(static_cast<double>(squared)) / 2;
  scale_row(bins.re, spectrum.last_bin() + 1, shift);
  scale_row(bins.im, spectrum.last_bin() + 1, shift);
  exponent += shift;
}

// out = the row of these bins, which are overwritten, times 2^exponent
template <typename S, typename Spectrum>
void store_bins(const Spectrum& spectrum, typename Spectrum::Operand bins, int64_t exponent, S* out) {
  const auto share = static_cast<typename Spectrum::Sum>(spectrum.share());
  for (int64_t k = 0; k <= spectrum.last_bin(); ++k) {
    bins.re[k] *= share;
    bins.im[k] *= share;
  }
  spectrum.invert(bins);
  spectrum.put(exponent, out);
}

// What the spectra of engines for one row, which have a stage, are made of.
template <typename S, typename Engine>
struct SingleBins {
  using T = compute_t<S>;
  using Operand = Split<T>;
  using Sum = T;
  static constexpr int kRows = 1;

  const Engine& engine;
  int64_t dim;
  T* stage;

  explicit SingleBins(const Engine& the_engine) : engine(the_engine), dim(the_engine.dim), stage(the_engine.stage) {}

  Operand operand(void* scratch, int64_t& used) const {
    return engine.operand(scratch, used);
  }
  double norm_squared(T squared) const {
    return static_cast<double>(squared) / static_cast<double>(engine.points());
  }
  double share() const {
    return 1 / static_cast<double>(engine.points());
  }
  void put(int64_t exponent, S* out) const {
    rescale_row(stage, dim, exponent);
    narrow_row<S>(stage, dim, T{1}, out);
  }
};

template <typename S, typename Engine>
struct NativeBins : SingleBins<S, Engine> {
  using T = compute_t<S>;
  using Operand = Split<T>;
  static constexpr int kWidth = Engine::kWidth;
  using SingleBins<S, Engine>::SingleBins;
  using SingleBins<S, Engine>::engine;

  int64_t last_bin() const {
    return engine.points();
  }
  // The sum of squares over the half-length spectrum.
  T load(const S* source, int exponent, Operand bins) const {
    engine.load(source, exponent, bins);
    const T squared = squared_norm<T, kWidth>(engine.plan, bins);
    split<T, kWidth>(engine.plan, bins);
    return squared;
  }
  void invert(Operand bins) const {
    bins.im[0] = 0;
    bins.im[engine.points()] = 0;
    merge<T, kWidth>(engine.plan, bins);
    engine.inverse(bins, T{1}, engine.stage);
  }
};

// The bins of a matrix in the order of its plan, all there are; last_bin() is the last number of them.
template <typename S>
struct MatrixBins : SingleBins<S, MatrixEngine<S>> {
  using T = compute_t<S>;
  using Operand = Split<T>;
  using SingleBins<S, MatrixEngine<S>>::SingleBins;
  using SingleBins<S, MatrixEngine<S>>::engine;

  int64_t last_bin() const {
    return engine.plan.size - 1;
  }
  T load(const S* source, int exponent, Operand bins) const {
    engine.load(source, exponent, bins);
    const MatrixPlan<T>& plan = engine.plan;
    // The first bins of the columns come with their mirror images. Those must be exact, or maps that jump on the
    // negative axis would take the two apart.
    bins.im[0] = 0;
    for (int64_t p = 1; 2 * p <= plan.columns; ++p) {
      const int64_t place = p * plan.lanes;
      const int64_t mirror = (plan.columns - p) * plan.lanes;
      bins.re[mirror] = bins.re[place];
      bins.im[mirror] = 2 * p == plan.columns ? T{0} : -bins.im[place];
    }
    return engine.squared(bins);
  }
  void invert(Operand bins) const {
    engine.inverse(bins, T{1}, engine.stage);
  }
};

// Rows side by side.
template <typename S>
struct LaneBins {
  using Engine = LaneRows<S>;
  using T = typename Engine::T;
  using Operand = typename Engine::Operand;
  using Sum = typename Engine::Sum;
  static constexpr int kRows = Engine::kRows;

  const Engine& engine;
  int64_t dim;

  explicit LaneBins(const Engine& the_engine) : engine(the_engine), dim(the_engine.dim) {}

  Operand operand(void* scratch, int64_t& used) const {
    return engine.operand(scratch, used);
  }
  Sum load(const S* const (&rows)[kRows], Operand bins) const {
    engine.load(rows, bins);
    return engine.to_bins(bins);
  }
  uint32_t store(Operand bins, S* out, int64_t count, int64_t step) const {
    engine.from_bins(bins);
    return finish_exactly(engine, bins, out, count, step);
  }
};

inline bool is_chirp(RowPath path) {
  return path == RowPath::kChirp || path == RowPath::kHalfChirp || path == RowPath::kDoubleChirp;
}
inline ChirpShape chirp_shape_of(const RowPlan& row, int64_t dim) {
  return {dim, row.path == RowPath::kHalfChirp, row.length};
}

// Calls body(engine, used) with the engine that gives the bins of rows; `used` bytes of the scratch are taken.
template <typename S, typename Body>
void with_bins_engine(const RowPlan& row, int64_t dim, void* scratch, const Body& body) {
  using T = compute_t<S>;
  if (!is_chirp(row.path)) {
    return with_native_engine<S>(row, dim, scratch, body);
  }
  const ChirpShape shape = chirp_shape_of(row, dim);
  int64_t used = 0;
  if (row.path == RowPath::kDoubleChirp) {
    const ChirpLease<double> lease(shape, chirp_transform);
    const ChirpEngine<S, double> engine(lease.plan(), scratch, used);
    return body(engine, used);
  }
  const ChirpLease<T> lease(shape, chirp_transform);
  if (shape.halved) {
    const HalfChirpEngine<S> engine(lease.plan(), scratch, used);
    return body(engine, used);
  }
  const ChirpEngine<S, T> engine(lease.plan(), scratch, used);
  body(engine, used);
}

template <typename S, typename T>
const ChirpEngine<S, T>& bins_of(const ChirpEngine<S, T>& engine) {
  return engine;
}
template <typename S>
NativeBins<S, HalfChirpEngine<S>> bins_of(const HalfChirpEngine<S>& engine) {
  return NativeBins<S, HalfChirpEngine<S>>(engine);
}
template <typename S, int W>
NativeBins<S, SpectralEngine<S, W, false>> bins_of(const SpectralEngine<S, W, false>& engine) {
  return NativeBins<S, SpectralEngine<S, W, false>>(engine);
}
template <typename S>
MatrixBins<S> bins_of(const MatrixEngine<S>& engine) {
  return MatrixBins<S>(engine);
}
template <typename S>
LaneBins<S> bins_of(const LaneRows<S>& engine) {
  return LaneBins<S>(engine);
}
template <typename Engine>
using BinsOf = std::remove_cvref_t<decltype(bins_of(std::declval<const Engine&>()))>;

// The bins of rows as they stand; returns sums of squares, from which unsafe_rows tells whether they are in range.
template <typename S, typename Spectrum>
typename Spectrum::Sum load_bins(const Spectrum& spectrum, const S* const (&rows)[Spectrum::kRows],
                                 typename Spectrum::Operand bins) {
  if constexpr (Spectrum::kRows > 1) {
    return spectrum.load(rows, bins);
  } else {
    return spectrum.load(rows[0], 0, bins);
  }
}
// `count` rows of `out`, `step` elements apart, <- those of these bins, which are overwritten. Returns a mask of rows
// that are not finite; of one row nothing is asked.
template <typename S, typename Spectrum>
uint32_t store_rows(const Spectrum& spectrum, typename Spectrum::Operand bins, S* out, int64_t count, int64_t step) {
  if constexpr (Spectrum::kRows > 1) {
    return spectrum.store(bins, out, count, step);
  } else {
    store_bins(spectrum, bins, 0, out);
    return 0;
  }
}

template <typename S>
int64_t bins_scratch_bytes(const RowPlan& row, int64_t dim, int operands) {
  if (!is_chirp(row.path)) {
    return native_scratch_bytes<S>(row, dim, operands);
  }
  const ChirpShape shape = chirp_shape_of(row, dim);
  return row.path == RowPath::kDoubleChirp ? chirp_scratch_bytes<S, double>(shape, operands)
                                           : chirp_scratch_bytes<S, compute_t<S>>(shape, operands);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
