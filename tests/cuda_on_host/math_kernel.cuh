// A kernel that evaluates every function of kernels/math.h: run on the host, and compiled to PTX by
// tests/test_math_ptx.py.
#pragma once

#include "kernels/math.h"

namespace torch_hrr::kernels {

constexpr int kMathResults = 11;

template <typename T>
struct MathKernelParams {
  const T* x = nullptr;
  const bits_t<T>* words = nullptr;  // two for every number
  T* results = nullptr;              // [kMathResults, count]
  int64_t count = 0;
};

template <typename L, typename Store>
KERNEL_HOST_DEVICE void math_results(L x, bits_t<L> word0, bits_t<L> word1, const Store& store) {
  const SineCosine<L> angle = sine_cosine(x);
  const SineCosine<L> pi = sine_cosine_pi(x);
  const NormalPair<L> normals = normal_pair<L>(word0, word1);
  const L one = lanes_of<L>(1);
  const L results[kMathResults] = {angle.sine,
                                   angle.cosine,
                                   pi.sine,
                                   pi.cosine,
                                   exponential(x),
                                   logarithm(x),
                                   hyperbolic_tangent(x),
                                   angle_in_turns(x, one),
                                   angle_in_turns(-one, x),
                                   normals.first,
                                   normals.second};
  for (int i = 0; i < kMathResults; ++i) {
    store(i, results[i]);
  }
}

template <typename T>
__global__ void math_kernel(MathKernelParams<T> params) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < params.count) {
    math_results(params.x[i], params.words[2 * i], params.words[2 * i + 1],
                 [&](int result, T value) { params.results[result * params.count + i] = value; });
  }
}

}  // namespace torch_hrr::kernels
