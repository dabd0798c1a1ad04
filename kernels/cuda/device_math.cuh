// The functions of lane_math.h for one double: what formulas written over lanes see on a GPU.
#pragma once

#include "kernels/cuda/block.cuh"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {

template <typename L>
HRR_DEVICE L lanes_of(double value) {
  return value;
}
HRR_DEVICE double select(bool condition, double yes, double no) {
  return condition ? yes : no;
}
HRR_DEVICE double magnitude(double x) {
  return ::fabs(x);
}
HRR_DEVICE double divide(double a, double b) {
  return a / b;
}
HRR_DEVICE double square_root(double x) {
  return ::sqrt(x);
}
HRR_DEVICE double logarithm(double x) {
  return ::log(x);
}
HRR_DEVICE double exponential(double x) {
  return ::exp(x);
}
HRR_DEVICE double angle_in_turns(double x, double y) {
  return ::atan2(y, x) * (1 / kTurn);
}
HRR_DEVICE void sine_cosine(double turns, double& sine, double& cosine) {
  const double angle = (turns - ::rint(turns)) * kTurn;
  sine = ::sin(angle);
  cosine = ::cos(angle);
}

}  // namespace torch_hrr::kernels
