// The functions of lane_math.h for one double: what formulas written over lanes see on a GPU.
#pragma once

#include "kernels/cuda/block.cuh"
#include "kernels/math.h"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {

HRR_DEVICE double divide(double a, double b) {
  return a / b;
}
HRR_DEVICE double angle_in_turns(double x, double y) {
  return ::atan2(y, x) * (1 / kTurn);
}
HRR_DEVICE void sine_cosine(double turns, double& sine, double& cosine) {
  const SineCosine<double> both = sine_cosine_pi(2 * turns);
  sine = both.sine;
  cosine = both.cosine;
}

}  // namespace torch_hrr::kernels
