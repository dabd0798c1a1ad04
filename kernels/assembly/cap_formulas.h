// The formulas of soft_cap.h on one element, and the search for the threshold; L is a double or a vector of doubles.
//
// Let c be the k-th largest element, z = (x - c) / tau and t = c + tau u. Everything follows from p = exp(-|z|), one
// exponential an element: with w = exp(u), an element that is at least c is 1 - q(w p) and any other is q(p / w), where
// q(a) = F(ln a). What the k winners lack is in sum what the others have. Elements equal to c are on both sides of the
// cut, and they are all alike: they are counted, not added up, so both sums are positive and nothing is subtracted.
// u is the zero of the increasing function h(u) = ln(what is lacking) - ln(what is there), which is close to linear:
// Newton's method takes a few steps, and a bracket that closes in guards them.
#pragma once

#include <cmath>

#include "kernels/assembly/soft_cap.h"
#include "kernels/assembly/winners.h"
#include "kernels/math.h"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {

template <CapShape kShape>
struct ShapeConstant {
  static constexpr CapShape value = kShape;
};

// q = F(ln a), 1 - q with all its digits, and d = F'(ln a)
template <typename L>
struct CapPoint {
  L q;
  L rest;
  L d;
};

// The sum of p over the elements above c, that over those below, and how many are c.
struct CapCensus {
  double above;
  double below;
  double tied;
};

// Sums over elements other than c: what those above lack, what those below have, and the sums of d over both.
struct CapSums {
  double lacking;
  double present;
  double lacking_slope;
  double present_slope;
};

// Where a row is divided: c, the largest element below it, and how many elements equal to c are not among the winners.
struct CapCut {
  double value;
  double below;
  int64_t losing_ties;
};

KERNEL_ISA_BEGIN

// Beyond so wide a gap between c and the largest element below, in units of tau, y is 0 or 1 and d is 0.
constexpr double kWidestGap = 600;
// A step from which Newton's next one is below the rounding of u.
constexpr double kLastStep = 1e-9;
constexpr int kMaxCapSteps = 100;

template <CapShape kShape, typename L>
KERNEL_HOST_DEVICE CapPoint<L> cap_point(L a) {
  const L one = lanes_of<L>(1);
  if constexpr (kShape == CapShape::kSigmoid) {
    const L r = one / (one + a);
    const L q = a * r;
    return {q, r, q * r};
  } else {
    const L half = lanes_of<L>(0.5);
    const L near = half * a;
    const L far = half / a;
    return {select(a <= one, near, one - far), select(a <= one, one - near, far), select(a <= one, near, far)};
  }
}

// z as (x s - c s) / (tau s): differences of the largest numbers stay in range where they matter.
struct CapScale {
  double factor;
  double center;
  double temperature;

  KERNEL_HOST_DEVICE CapScale(double c, double tau)
      : factor(tau > 1 ? 0.25 : 1), center(c * factor), temperature(tau * factor) {}

  // exp(-|z|)
  template <typename L>
  KERNEL_HOST_DEVICE L proximity(L x) const {
    const L z = (x * lanes_of<L>(factor) - lanes_of<L>(center)) / lanes_of<L>(temperature);
    return exponential(-magnitude(z));
  }
  KERNEL_HOST_DEVICE double distance(double x) const {
    return (center - x * factor) / temperature;
  }
};

// Whether y is 1 for elements of at least c and 0 for the others.
KERNEL_HOST_DEVICE bool is_wide(const CapCut& cut, double temperature) {
  return cut.losing_ties == 0 && CapScale(cut.value, temperature).distance(cut.below) > kWidestGap;
}

// Finds u for 0 < k < n where the gap is not wide. row.census() comes first; row.sums(w, v) gives the sums for w =
// exp(u) and v = 1 / w; row.point(a) is cap_point.
template <typename Row>
KERNEL_HOST_DEVICE double find_offset(const Row& row, const CapCut& cut, int64_t n, int64_t k, double temperature) {
  const CapCensus census = row.census();
  const auto losing = static_cast<double>(cut.losing_ties);
  const double winning = census.tied - losing;
  const double next = losing > 0 ? 0 : -CapScale(cut.value, temperature).distance(cut.below);
  // F(-a) k <= F(a) for a = ln k: at the lower end more is there than lacking, and at the upper end the reverse.
  double low = next - logarithm(static_cast<double>(k));
  double high = logarithm(static_cast<double>(n - k));
  // A first guess, exact where every p w is small or every p is 1 and k = n / 2.
  double u = 0.5 * (logarithm(census.below + losing) - logarithm(census.above + winning));
  u = u >= low && u <= high ? u : low + (high - low) / 2;
  for (int step = 0; step < kMaxCapSteps; ++step) {
    const double w = exponential(u);
    const double v = 1 / w;
    CapSums sums = row.sums(w, v);
    const CapPoint<double> tied = row.point(w);
    sums.lacking += winning * tied.q;
    sums.lacking_slope += winning * tied.d;
    sums.present += losing * tied.rest;
    sums.present_slope += losing * tied.d;
    const double h = logarithm(sums.lacking) - logarithm(sums.present);
    (h > 0 ? high : low) = u;
    double moved = u - h / (sums.lacking_slope / sums.lacking + sums.present_slope / sums.present);
    if (!(moved >= low && moved <= high)) {
      moved = low + (high - low) / 2;
    }
    const double distance = moved < u ? u - moved : moved - u;
    u = moved;
    if (distance <= kLastStep) {
      break;
    }
  }
  return u;
}

// Whether v - mean is in range for every v; a mean that is not may also come from a sum <d, v> that overflowed.
KERNEL_HOST_DEVICE bool is_safe_mean(double mean) {
  constexpr double kLargest = 0x1p969;  // a quarter of a spacing of the largest numbers
  return mean <= kLargest && mean >= -kLargest;
}
// By which directions are multiplied where it is not: a sum of n < 2^31 products stays in range.
constexpr double kSmallerDirections = 0x1p-32;

// d (v - mean) / tau, and 0 where d is 0; no step is out of range unless the result is. (v - mean) / tau and d / tau
// may overflow and d (v - mean) underflow, so d and a tau below 1 are both raised by the power of two that brings tau
// close to 1. The mean is that of part v.
struct CapJacobian {
  double raise;
  double part;
  double mean;
  double divisor;

  KERNEL_HOST_DEVICE CapJacobian(double temperature, double part_of_v, double mean_of_parts)
      : part(part_of_v), mean(mean_of_parts) {
    const int exponent = -1 - ::ilogb(temperature);
    raise = ::ldexp(1.0, exponent < 0 ? 0 : exponent < 1022 ? exponent : 1022);
    divisor = temperature * raise * part;
  }
  template <typename L>
  KERNEL_HOST_DEVICE L operator()(L d, L v) const {
    const L centered = fused_multiply_add(v, lanes_of<L>(part), lanes_of<L>(-mean));
    return d * lanes_of<L>(raise) * centered / lanes_of<L>(divisor);
  }
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
