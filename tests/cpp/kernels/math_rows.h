// The functions of kernels/math.h over rows as plain functions, one set an instruction set.
#pragma once

#include <cstdint>

namespace torch_hrr::kernels {

// The angles are those of (x, 1) and of (-1, x), in turns.
enum MathFunction {
  kSine,
  kCosine,
  kSinePi,
  kCosinePi,
  kExponential,
  kLogarithm,
  kTanh,
  kAngleByX,
  kAngleByY,
  kMathFunctions
};

template <typename T, typename Bits>
struct MathRowsOf {
  // y[i] = f(x[i])
  void (*functions[kMathFunctions])(const T* x, int64_t count, T* y);
  // first[i], second[i] = normal_pair(x[i], y[i])
  void (*normal_pairs)(const Bits* x, const Bits* y, int64_t count, T* first, T* second);
};

struct MathRows {
  MathRowsOf<float, uint32_t> floats;
  MathRowsOf<double, uint64_t> doubles;
};

}  // namespace torch_hrr::kernels
