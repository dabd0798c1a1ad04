// Chooses the engine of a row length and finishes native spectra.
#pragma once

#include <type_traits>

#include "kernels/hrr/engine.h"
#include "kernels/hrr/finish.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// Complex points of the transform of a row.
constexpr int64_t transform_points(int64_t dim) {
  return transform_length(dim, cpu_algorithm_for(dim)) / 2;
}

template <typename S>
const FftPlan<compute_t<S>>& plan_for(int64_t dim) {
  return fft_plan<compute_t<S>>(transform_points(dim), kLanes<compute_t<S>>);
}

// Calls body(engine, used) with the engine for rows of `dim` elements; `used` bytes of the scratch are taken.
template <typename S, int W, typename Body>
void with_spectral_engine(int64_t dim, void* scratch, const Body& body) {
  int64_t used = 0;
  if (cpu_algorithm_for(dim) == Algorithm::kPadded) {
    const SpectralEngine<S, W, true> engine(plan_for<S>(dim), dim, scratch, used);
    body(engine, used);
  } else {
    const SpectralEngine<S, W, false> engine(plan_for<S>(dim), dim, scratch, used);
    body(engine, used);
  }
}

template <typename S, typename Body>
void with_engine(int64_t dim, void* scratch, const Body& body) {
  if (cpu_algorithm_for(dim) == Algorithm::kDirect) {
    int64_t used = 0;
    const DirectEngine<S> engine(dim, scratch, used);
    return body(engine, used);
  }
  const int width = fft_width(transform_points(dim), kLanes<compute_t<S>>);
  if constexpr (kLanes<compute_t<S>> >= 16) {
    if (width == 16) {
      return with_spectral_engine<S, 16>(dim, scratch, body);
    }
  }
  if constexpr (kLanes<compute_t<S>> >= 8) {
    if (width == 8) {
      return with_spectral_engine<S, 8>(dim, scratch, body);
    }
  }
  with_spectral_engine<S, 4>(dim, scratch, body);
}

// Bytes for an engine with `operands` arrays and `rows` further rows of the compute type.
template <typename S>
int64_t scratch_bytes(int64_t dim, int operands, int rows) {
  const int64_t extra = rows * (dim * static_cast<int64_t>(sizeof(compute_t<S>)) + 64);
  if (cpu_algorithm_for(dim) == Algorithm::kDirect) {
    return DirectEngine<S>::scratch_bytes(dim, operands) + extra;
  }
  return SpectralEngine<S, 4, false>::scratch_bytes(transform_points(dim), operands) + extra;
}

// True where the engine's product is a complete spectrum of the row itself, so that Parseval gives its norm.
template <typename Engine>
constexpr bool kNativeSpectrum = false;
template <typename S, int W>
constexpr bool kNativeSpectrum<SpectralEngine<S, W, false>> = true;

// Calls body(engine, used) as with_engine does, with the half-length transform of rows of cpu_has_native_bins.
template <typename S, typename Body>
void with_native_engine(int64_t dim, void* scratch, const Body& body) {
  using T = compute_t<S>;
  const FftPlan<T>& plan = fft_plan<T>(dim / 2, kLanes<T>);
  const auto with_width = [&](auto width) {
    int64_t used = 0;
    const SpectralEngine<S, decltype(width)::value, false> engine(plan, dim, scratch, used);
    body(engine, used);
  };
  if constexpr (kLanes<T> >= 16) {
    if (plan.width == 16) {
      return with_width(std::integral_constant<int, 16>());
    }
  }
  if constexpr (kLanes<T> >= 8) {
    if (plan.width == 8) {
      return with_width(std::integral_constant<int, 8>());
    }
  }
  with_width(std::integral_constant<int, 4>());
}
template <typename S>
int64_t native_scratch_bytes(int64_t dim, int operands) {
  return SpectralEngine<S, 4, false>::scratch_bytes(dim / 2, operands);
}

// out = the row of a native spectrum whose squared norm (times M) is given; false if the row needs scaling first.
template <typename S, typename Engine, typename T>
bool try_finish_spectrum(const Engine& engine, Split<T> spectrum, T squared, bool normalize, double eps, S* out) {
  const double points = static_cast<double>(engine.points);
  double scale = 1 / points;
  if (normalize) {
    if (!safe_squared_norm(squared)) {
      return false;
    }
    const double norm = square_root(static_cast<double>(squared) / points);
    scale /= norm_divides(norm, eps) ? norm : eps;
  }
  if constexpr (sizeof(S) == sizeof(T)) {
    T* row = reinterpret_cast<T*>(out);
    engine.inverse(spectrum, static_cast<T>(scale), row);
    return normalize || all_finite(row, engine.dim);
  } else {
    engine.inverse(spectrum, static_cast<T>(scale), engine.stage);
    if (!normalize && !all_finite(engine.stage, engine.dim)) {
      return false;
    }
    narrow_row<S>(engine.stage, engine.dim, T{1}, out);
    return true;
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
