// The formulas of spectral_map.h on one bin; L is a double or a vector of doubles.
#pragma once

#include <cmath>
#include <type_traits>

#include "kernels/hrr/spectral_map.h"
#include "kernels/math.h"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {

template <SpectralMap kMap>
struct MapConstant {
  static constexpr SpectralMap value = kMap;
};

// eps for bins that stand for bin 2^scale, as eps 2^shift. Far above every bin the divisor is eps alone: it stays near
// them, and shift, which a map's result is then short of, keeps that result in range.
struct ScaledEps {
  double eps;
  int shift;
};

// What the bins of one row have in common, or, with vectors of doubles, those of a row in each lane. They stand for
// A = bin 2^scale.
template <typename N>
struct BinScalarsOf {
  N threshold;  // |bin|^2 at which a bin is empty
  N eps;        // of the inverse, for scaled bins
  N exponent;
  N ln_scale;  // scale ln 2
  int32_t order;
};
using BinScalars = BinScalarsOf<double>;

// How the bins of one row are mapped: map_bin of bin factor, times 2^exponent.
struct RowMapping {
  double factor;
  BinScalars scalars;
  int exponent;
};

KERNEL_ISA_BEGIN

KERNEL_HOST_DEVICE ScaledEps scaled_eps(double eps, int scale) {
  if (!(eps > 0) || !(eps - eps == 0)) {
    return {eps, 0};
  }
  const int excess = ::ilogb(eps) - 2 * scale - kFarAboveBins;
  const int shift = excess > 0 ? excess : 0;
  return {::ldexp(eps, -2 * scale - shift), shift};
}

// The exponent e with bins 2^-e near 1, for rows with norm2^2 = squared.
KERNEL_HOST_DEVICE int bin_exponent(double squared) {
  return squared > 0 && squared - squared == 0 ? ::ilogb(squared) / 2 : 0;
}

// For bins that stand for bin 2^scale, of rows with norm2^2 = squared; eps as scaled_eps gives it.
KERNEL_HOST_DEVICE BinScalars bin_scalars(double squared, int64_t dim, double roundoff, double eps, double exponent,
                                          int scale, int32_t order) {
  return {roundoff * roundoff * squared * static_cast<double>(dim), eps, exponent, scale * kLn2, order};
}

// For bins of a row with norm2^2 = squared that stands for row 2^row_exponent: the bins that are mapped are near 1.
KERNEL_HOST_DEVICE RowMapping row_mapping(SpectralMap kind, double squared, int row_exponent, int64_t dim,
                                          double roundoff, double eps, double exponent, int32_t order) {
  const int of_bins = bin_exponent(squared);
  const int scale = of_bins + row_exponent;
  const ScaledEps divisor = scaled_eps(eps, scale);
  return {::ldexp(1.0, -of_bins),
          bin_scalars(::ldexp(squared, -2 * of_bins), dim, roundoff, divisor.eps, exponent, scale, order),
          mapped_scale(kind, scale) - (divides_by_eps(kind) ? divisor.shift : 0)};
}

KERNEL_HOST_DEVICE BinScalars scalars_of(const LibraryBinsParams& params, int64_t r) {
  const double norm = params.norms[r];
  const int scale = static_cast<int>(params.scales[r]);
  return bin_scalars(norm * norm, params.dim, params.roundoff, scaled_eps(params.eps, scale).eps,
                     params.exponents == nullptr ? params.exponent : params.exponents[r], scale, params.order);
}

// body(MapConstant) with the map as a compile-time constant; constexpr, so that kernels may call it too
template <typename Body>
constexpr void with_map(SpectralMap map, const Body& body) {
  switch (map) {
    case SpectralMap::kInverse:
      return body(MapConstant<SpectralMap::kInverse>{});
    case SpectralMap::kCutInverse:
      return body(MapConstant<SpectralMap::kCutInverse>{});
    case SpectralMap::kUnitary:
      return body(MapConstant<SpectralMap::kUnitary>{});
    case SpectralMap::kPower:
      return body(MapConstant<SpectralMap::kPower>{});
    case SpectralMap::kInverseBackward:
      return body(MapConstant<SpectralMap::kInverseBackward>{});
    case SpectralMap::kUnitaryJacobian:
      return body(MapConstant<SpectralMap::kUnitaryJacobian>{});
    case SpectralMap::kPowerBackward:
      return body(MapConstant<SpectralMap::kPowerBackward>{});
  }
}

// ln A = ln |bin| + scale ln 2 + i angle; where empty, some finite number
template <typename L>
KERNEL_HOST_DEVICE Complex<L> complex_logarithm(Complex<L> a, L power, L ln_scale, L& turns) {
  turns = angle_in_turns(a.re, a.im);
  return {logarithm(power) * lanes_of<L>(0.5) + ln_scale, turns * lanes_of<L>(kTurn)};
}

// A^e (ln A)^order
template <typename L>
KERNEL_HOST_DEVICE Complex<L> complex_power(Complex<L> a, L power, L exponent, L ln_scale, int order) {
  L turns;
  const Complex<L> ln = complex_logarithm(a, power, ln_scale, turns);
  const L size = exponential(exponent * ln.re);
  const L half_turns = exponent * (turns + turns);
  const SineCosine<L> direction = sine_cosine_pi(half_turns);
  Complex<L> result{size * direction.cosine, size * direction.sine};
  for (int i = 0; i < order; ++i) {
    result = multiply(result, ln);
  }
  return result;
}

template <SpectralMap kMap, typename L, typename N>
KERNEL_HOST_DEVICE Complex<L> map_bin(Complex<L> a, Complex<L> v, const BinScalarsOf<N>& row) {
  const L zero = lanes_of<L>(0);
  const L one = lanes_of<L>(1);
  const L power = multiply_add(a.re, a.re, a.im * a.im);
  const auto empty = power <= in_lanes<L>(row.threshold);
  const L filled = select(empty, one, power);
  const auto blank = [&](Complex<L> y) { return Complex<L>{select(empty, zero, y.re), select(empty, zero, y.im)}; };
  if constexpr (kMap == SpectralMap::kInverse) {
    const L eps = in_lanes<L>(row.eps);
    const L factor = one / select(filled < eps, eps, filled);
    return blank({a.re * factor, -(a.im * factor)});
  } else if constexpr (kMap == SpectralMap::kCutInverse) {
    const auto cut = filled <= in_lanes<L>(row.eps);
    const L factor = select(cut, zero, one / filled);
    return blank({a.re * factor, -(a.im * factor)});
  } else if constexpr (kMap == SpectralMap::kUnitary) {
    const L factor = one / square_root(filled);
    return {select(empty, one, a.re * factor), select(empty, zero, a.im * factor)};
  } else if constexpr (kMap == SpectralMap::kPower) {
    const L exponent = in_lanes<L>(row.exponent);
    const Complex<L> y = complex_power(a, filled, exponent, in_lanes<L>(row.ln_scale), row.order);
    const L of_zero = row.order == kPowerItself ? select(exponent == zero, one, zero) : zero;
    return {select(empty, of_zero, y.re), select(empty, zero, y.im)};
  } else if constexpr (kMap == SpectralMap::kInverseBackward) {
    // y = 1/A: dy = -y^2 dA, so the gradient is -conj(y^2) V; below eps y = conj(A) / eps and it is conj(V) / eps.
    const L eps = in_lanes<L>(row.eps);
    const auto clamped = filled <= eps;
    const Complex<L> conj_y = scaled(one / filled, a);
    const Complex<L> g = multiply(multiply(conj_y, conj_y), v);
    const L factor = one / select(clamped, eps, one);
    return blank({select(clamped, v.re * factor, -g.re), select(clamped, -(v.im * factor), -g.im)});
  } else if constexpr (kMap == SpectralMap::kUnitaryJacobian) {
    // y = e^{i t}: dy = i y dt, dt = Im(V conj y) / |A|.
    const L factor = one / square_root(filled);
    const Complex<L> y = scaled(factor, a);
    const L turn = multiply_add(v.im, y.re, -(v.re * y.im)) * factor;
    return blank({-(y.im * turn), y.re * turn});
  } else {
    static_assert(kMap == SpectralMap::kPowerBackward);
    const L exponent = in_lanes<L>(row.exponent);
    const Complex<L> slope = complex_power(a, filled, exponent - one, in_lanes<L>(row.ln_scale), 0);
    return blank(scaled(exponent, multiply_conjugate(v, slope)));
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
