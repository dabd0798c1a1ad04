// Compiled once per instruction set: every function of kernels/math.h, over vectors and over one number at a time.
#include "math_rows.h"

#include "kernels/math.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// Rows are processed in whole vectors, the rest in a vector whose other lanes hold what must not matter.
template <typename L, typename F>
KERNEL_HOST_DEVICE void apply(const number_t<L>* x, int64_t count, number_t<L>* y, const F& function) {
  using T = number_t<L>;
  constexpr int kLanes = sizeof(L) / sizeof(T);
  if constexpr (kLanes == 1) {
    for (int64_t i = 0; i < count; ++i) {
      y[i] = function(x[i]);
    }
  } else {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      function(L::load(x + i)).store(y + i);
    }
    if (i < count) {
      T lanes[kLanes];
      for (int j = 0; j < kLanes; ++j) {
        lanes[j] = i + j < count ? x[i + j] : static_cast<T>(1e30);
      }
      function(L::load(lanes)).store(lanes);
      __builtin_memcpy(y + i, lanes, static_cast<size_t>(count - i) * sizeof(T));
    }
  }
}

template <typename L>
KERNEL_HOST_DEVICE L value_of(MathFunction function, L x) {
  switch (function) {
    case kSine:
      return sine(x);
    case kCosine:
      return cosine(x);
    case kSinePi:
      return sine_cosine_pi(x).sine;
    case kCosinePi:
      return sine_cosine_pi(x).cosine;
    case kExponential:
      return exponential(x);
    case kLogarithm:
      return logarithm(x);
    case kTanh:
      return hyperbolic_tangent(x);
    case kAngleByX:
      return angle_in_turns(x, lanes_of<L>(1));
    default:
      return angle_in_turns(lanes_of<L>(-1), x);
  }
}

template <typename L, MathFunction kFunction>
void row(const number_t<L>* x, int64_t count, number_t<L>* y) {
  apply<L>(x, count, y, [](L lanes) { return value_of(kFunction, lanes); });
}

// count is a multiple of the lanes.
template <typename L>
void normal_pair_rows(const bits_t<number_t<L>>* x, const bits_t<number_t<L>>* y, int64_t count, number_t<L>* first,
                      number_t<L>* second) {
  constexpr int kLanes = sizeof(L) / sizeof(number_t<L>);
  for (int64_t i = 0; i < count; i += kLanes) {
    if constexpr (kLanes == 1) {
      const NormalPair<L> pair = normal_pair<L>(x[i], y[i]);
      first[i] = pair.first;
      second[i] = pair.second;
    } else {
      const NormalPair<L> pair = normal_pair<L>(bits_t<L>::load(x + i), bits_t<L>::load(y + i));
      pair.first.store(first + i);
      pair.second.store(second + i);
    }
  }
}

template <typename L>
MathRowsOf<number_t<L>, bits_t<number_t<L>>> rows_of() {
  return {{row<L, kSine>, row<L, kCosine>, row<L, kSinePi>, row<L, kCosinePi>, row<L, kExponential>, row<L, kLogarithm>,
           row<L, kTanh>, row<L, kAngleByX>, row<L, kAngleByY>},
          normal_pair_rows<L>};
}

MathRows math_rows_of_vectors() {
  return {rows_of<Simd<float, kVectorBytes / 4>>(), rows_of<Simd<double, kVectorBytes / 8>>()};
}
MathRows math_rows_of_numbers() {
  return {rows_of<float>(), rows_of<double>()};
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
