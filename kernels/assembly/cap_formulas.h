// The formulas of soft_cap.h on one element, and the search for the threshold; L is a double or a vector of doubles.
//
// The functions of L (lane_math.h, or kernels/cuda/device_math.cuh on a GPU) are included before this file.
//
// Let c be the k-th largest element, z = (x - c) / tau and t = c + tau u. Everything follows from p = exp(-|z|), one
// exponential an element: with w = exp(u), an element that is at least c is 1 - q(w p) and any other is q(p / w), where
// q(a) = F(ln a). What the first lack is in sum what the others have, and both are positive sums without cancellation;
// u is the zero of the increasing function h(u) = ln(what is lacking) - ln(what is there), which is close to linear:
// Newton's method takes a few steps, and a bracket that closes in guards them.
#pragma once

#include <cmath>

#include "kernels/assembly/soft_cap.h"
#include "kernels/assembly/winners.h"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {

template <CapShape kShape>
struct ShapeConstant {
  static constexpr CapShape value = kShape;
};

// q = F(ln a) and d = F'(ln a)
template <typename L>
struct CapPoint {
  L q;
  L d;
};

// Sums over a row: what elements of at least c lack, what the others have, and the sums of d over both.
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

HRR_ISA_BEGIN

// Beyond so wide a gap between c and the largest element below, in units of tau, y is 0 or 1 and d is 0.
constexpr double kWidestGap = 600;
// A step from which Newton's next one is below the rounding of u.
constexpr double kLastStep = 1e-9;
constexpr int kMaxCapSteps = 100;

template <CapShape kShape, typename L>
HRR_HOST_DEVICE CapPoint<L> cap_point(L a) {
  const L one = lanes_of<L>(1);
  if constexpr (kShape == CapShape::kSigmoid) {
    const L r = divide(one, one + a);
    const L q = a * r;
    return {q, q * r};
  } else {
    const L half = lanes_of<L>(0.5);
    const L near = half * a;
    const L far = divide(half, a);
    return {select(a <= one, near, one - far), select(a <= one, near, far)};
  }
}

// z as (x s - c s) / (tau s): differences of the largest numbers stay in range where they matter.
struct CapScale {
  double factor;
  double center;
  double temperature;

  HRR_HOST_DEVICE CapScale(double c, double tau)
      : factor(tau > 1 ? 0.25 : 1), center(c * factor), temperature(tau * factor) {}

  // exp(-|z|)
  template <typename L>
  HRR_HOST_DEVICE L proximity(L x) const {
    const L z = divide(x * lanes_of<L>(factor) - lanes_of<L>(center), lanes_of<L>(temperature));
    return exponential(select(z < lanes_of<L>(0), z, -z));
  }
  HRR_HOST_DEVICE double distance(double x) const {
    return (center - x * factor) / temperature;
  }
};

// Whether y is 1 for elements of at least c and 0 for the others.
HRR_HOST_DEVICE bool is_wide(const CapCut& cut, double temperature) {
  return cut.losing_ties == 0 && CapScale(cut.value, temperature).distance(cut.below) > kWidestGap;
}

// Finds u for 0 < k < n where the gap is not wide. row.start() is a first guess; row.sums(w, v) gives the sums for
// w = exp(u) and v = 1 / w with every element equal to c among the first; row.point(a) is cap_point.
template <typename Row>
HRR_HOST_DEVICE double find_offset(const Row& row, const CapCut& cut, int64_t n, int64_t k, double temperature) {
  const auto ties = static_cast<double>(cut.losing_ties);
  const double next = ties > 0 ? 0 : -CapScale(cut.value, temperature).distance(cut.below);
  // F(-a) k <= F(a) for a = ln k: at the lower end more is there than lacking, and at the upper end the reverse.
  double low = next - ::log(static_cast<double>(k));
  double high = ::log(static_cast<double>(n - k));
  double u = row.start();
  u = u >= low && u <= high ? u : low + (high - low) / 2;
  for (int step = 0; step < kMaxCapSteps; ++step) {
    const double w = ::exp(u);
    const double v = 1 / w;
    CapSums sums = row.sums(w, v);
    if (ties > 0) {
      const CapPoint<double> tied = row.point(w);
      sums.lacking -= ties * tied.q;
      sums.lacking_slope -= ties * tied.d;
      sums.present += ties * row.point(v).q;
      sums.present_slope += ties * tied.d;
    }
    const double h = ::log(sums.lacking) - ::log(sums.present);
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

HRR_ISA_END
}  // namespace torch_hrr::kernels
