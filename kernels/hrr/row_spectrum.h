// A row's own bins A_k and the way back, by the transforms of its length where there are some, else by Bluestein's sum.
//
// All give the same steps: load, total, share, invert, store.
#pragma once

#include "kernels/hrr/bind_superpose_row.h"
#include "kernels/hrr/chirp_engine.h"
#include "kernels/hrr/row_bins.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

template <typename S, typename Engine>
struct NativeSpectrum {
  using T = compute_t<S>;
  using Operand = Split<T>;
  static constexpr int kWidth = Engine::kWidth;

  const Engine& engine;
  int64_t dim;
  T* stage;

  explicit NativeSpectrum(const Engine& the_engine)
      : engine(the_engine), dim(the_engine.dim), stage(the_engine.stage) {}

  Operand operand(void* scratch, int64_t& used) const {
    return engine.operand(scratch, used);
  }
  int64_t last_bin() const {
    return engine.points;
  }
  // The bins of a row times 2^exponent; total() of what it returns is the sum of |A_k|^2 over all D of them.
  T load(const S* source, int exponent, Operand bins) const {
    engine.load(source, exponent, bins);
    const T squared = squared_norm<T, kWidth>(engine.plan, bins);
    split<T, kWidth>(engine.plan, bins);
    return squared;
  }
  static double total(T squared) {
    return 2 * static_cast<double>(squared);
  }
  // What bins are multiplied by, beforehand, for `invert` to be exact.
  double share() const {
    return 1 / static_cast<double>(engine.points);
  }
  void invert(Operand bins) const {
    bins.im[0] = 0;
    bins.im[engine.points] = 0;
    merge<T, kWidth>(engine.plan, bins);
    engine.inverse(bins, T{1}, stage);
  }
  void store(int64_t exponent, S* out) const {
    rescale_row(stage, dim, exponent);
    narrow_row<S>(stage, dim, T{1}, out);
  }
};

// The bins of a matrix in the order of its plan, all there are; last_bin() is the last number of them.
template <typename S>
struct MatrixSpectrum {
  using T = compute_t<S>;
  using Operand = Split<T>;

  const MatrixEngine<S>& engine;
  int64_t dim;
  T* stage;

  explicit MatrixSpectrum(const MatrixEngine<S>& the_engine)
      : engine(the_engine), dim(the_engine.dim), stage(the_engine.stage) {}

  Operand operand(void* scratch, int64_t& used) const {
    return engine.operand(scratch, used);
  }
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
    return squared_norm<T, MatrixEngine<S>::kWidth>(plan, bins);
  }
  static double total(T squared) {
    return static_cast<double>(squared);
  }
  double share() const {
    return 1 / static_cast<double>(dim);
  }
  void invert(Operand bins) const {
    engine.inverse(bins, T{1}, stage);
  }
  void store(int64_t exponent, S* out) const {
    rescale_row(stage, dim, exponent);
    narrow_row<S>(stage, dim, T{1}, out);
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
void with_spectrum_engine(const RowPlan& row, int64_t dim, void* scratch, const Body& body) {
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
const ChirpEngine<S, T>& spectrum_of(const ChirpEngine<S, T>& engine) {
  return engine;
}
template <typename S>
NativeSpectrum<S, HalfChirpEngine<S>> spectrum_of(const HalfChirpEngine<S>& engine) {
  return NativeSpectrum<S, HalfChirpEngine<S>>(engine);
}
template <typename S, int W>
NativeSpectrum<S, SpectralEngine<S, W, false>> spectrum_of(const SpectralEngine<S, W, false>& engine) {
  return NativeSpectrum<S, SpectralEngine<S, W, false>>(engine);
}
template <typename S>
MatrixSpectrum<S> spectrum_of(const MatrixEngine<S>& engine) {
  return MatrixSpectrum<S>(engine);
}

// dst <- x (*) y for the bins up to `last`; returns sum |dst|^2 over them. dst may be x or y.
template <Product kProduct, typename T>
T multiply_bins(Split<T> x, Split<T> y, int64_t last, Split<T> dst) {
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

// Where `scaled` is set, multiplies bins, whose squares sum up to `squared`, by a power of two that brings them near 1
// and adds it to the exponent; else false if they are out of the safe range.
template <typename T>
bool keep_in_range(Split<T> bins, int64_t last, T squared, bool scaled, int64_t& exponent) {
  if (!scaled) {
    return safe_squared_norm(squared);
  }
  const int shift = unit_exponent(static_cast<double>(squared)) / 2;
  scale_row(bins.re, last + 1, shift);
  scale_row(bins.im, last + 1, shift);
  exponent += shift;
  return true;
}

// out = the row of these bins, which are overwritten, times 2^exponent
template <typename S, typename Spectrum>
void store_bins(const Spectrum& spectrum, typename Spectrum::Operand bins, int64_t exponent, S* out) {
  const auto share = static_cast<std::remove_reference_t<decltype(*bins.re)>>(spectrum.share());
  for (int64_t k = 0; k <= spectrum.last_bin(); ++k) {
    bins.re[k] *= share;
    bins.im[k] *= share;
  }
  spectrum.invert(bins);
  spectrum.store(exponent, out);
}

template <typename S>
int64_t row_spectrum_scratch(const RowPlan& row, int64_t dim, int operands) {
  if (!is_chirp(row.path)) {
    return native_scratch_bytes<S>(row, dim, operands);
  }
  const ChirpShape shape = chirp_shape_of(row, dim);
  return row.path == RowPath::kDoubleChirp ? chirp_scratch_bytes<S, double>(shape, operands)
                                           : chirp_scratch_bytes<S, compute_t<S>>(shape, operands);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
