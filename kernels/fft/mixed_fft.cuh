// The complex transform of the points in shared memory by all threads of a block, of any length that mixed_plan takes.
//
// Forward, a stage takes butterflies and then multiplies output m of the butterfly at p by e^{-2 pi i p m / L}; the
// inverse undoes the stages from the last to the first with re and im swapped. Every butterfly writes where it read, so
// one buffer and one barrier a stage suffice.
#pragma once

#include "kernels/fft/fft.cuh"
#include "kernels/fft/mixed_plan.h"
#include "kernels/fft/parts_of_turn.h"

namespace torch_hrr::kernels {

// x_k <- sum_j e^{-2 pi i jk/P} x_j for an odd prime P
template <int P, typename T>
KERNEL_DEVICE void transform_prime(Complex<T>* x) {
  constexpr int kHalf = (P - 1) / 2;
  constexpr PartsOfTurn<P> kParts = make_parts<P>();
  Complex<T> total = x[0];
#pragma unroll
  for (int j = 1; j <= kHalf; ++j) {
    const Complex<T> sum = add(x[j], x[P - j]);
    x[P - j] = subtract(x[j], x[P - j]);
    x[j] = sum;
    total = add(total, sum);
  }
  Complex<T> result[P];
  result[0] = total;
#pragma unroll
  for (int k = 1; k <= kHalf; ++k) {
    Complex<T> middle = x[0];
    Complex<T> turned{T{0}, T{0}};
#pragma unroll
    for (int j = 1; j <= kHalf; ++j) {
      const T cosine = static_cast<T>(kParts.cosine[j * k % P]);
      const T sine = static_cast<T>(kParts.sine[j * k % P]);
      middle = {multiply_add(cosine, x[j].re, middle.re), multiply_add(cosine, x[j].im, middle.im)};
      turned = {multiply_add(sine, x[P - j].re, turned.re), multiply_add(sine, x[P - j].im, turned.im)};
    }
    result[k] = {middle.re + turned.im, middle.im - turned.re};
    result[P - k] = {middle.re - turned.im, middle.im + turned.re};
  }
#pragma unroll
  for (int k = 0; k < P; ++k) {
    x[k] = result[k];
  }
}

template <int R, typename T>
KERNEL_DEVICE void transform_points(Complex<T>* x) {
  if constexpr (R == 2) {
    const Complex<T> sum = add(x[0], x[1]);
    x[1] = subtract(x[0], x[1]);
    x[0] = sum;
  } else if constexpr (R == 4) {
    transform4<1>(x);
  } else if constexpr (R == 8) {
    transform8(x);
  } else {
    transform_prime<R>(x);
  }
}

template <int R, bool kInverse, typename T>
KERNEL_DEVICE void mixed_stage(TwiddlePoint<T>* points, int count, int mask, const MixedStage& stage,
                               const TwiddlePoint<T>* roots) {
  const int span = stage.span;
  const uint64_t reciprocal = stage.reciprocal;
  const TwiddlePoint<T>* const of_stage = roots + count - R * span;
#pragma unroll 1
  for (int q = thread_rank(); q < count / R; q += block_threads()) {
    const int block = static_cast<int>(static_cast<uint64_t>(q) * reciprocal >> 31);
    const int p = q - block * span;
    const int first = block * span * R + p;
    Complex<T> v[R];
#pragma unroll
    for (int j = 0; j < R; ++j) {
      const TwiddlePoint<T> point = points[mixed_place<T>(first + j * span, mask)];
      v[j] = kInverse ? Complex<T>{point.im, point.re} : Complex<T>{point.re, point.im};
    }
    const auto turn = [&] {
      // The roots of a last stage are 1.
      if (span > 1) {
#pragma unroll
        for (int m = 1; m < R; ++m) {
          const TwiddlePoint<T> w = of_stage[(m - 1) * span + p];
          v[m] = multiply(v[m], Complex<T>{w.re, w.im});
        }
      }
    };
    if constexpr (kInverse) {
      turn();
    }
    transform_points<R>(v);
    if constexpr (!kInverse) {
      turn();
    }
#pragma unroll
    for (int j = 0; j < R; ++j) {
      points[mixed_place<T>(first + j * span, mask)] =
          kInverse ? TwiddlePoint<T>{v[j].im, v[j].re} : TwiddlePoint<T>{v[j].re, v[j].im};
    }
  }
}

// The points from `first_point` of the block's shared memory on; N times the inverse where kInverse. Begins and ends
// with a barrier. Out of line: one copy serves every transform of a kernel.
template <bool kInverse, typename T>
KERNEL_COLD void mixed_transform(const MixedPlan* plan, int first_point) {
  TwiddlePoint<T>* const points = dynamic_shared<TwiddlePoint<T>>() + first_point;
  const MixedTable<T> table(plan);
  const int count = plan->points;
  const int stages = plan->stages;
  const int mask = mixed_mask<T>(plan);
  block_sync();
#pragma unroll 1
  for (int i = 0; i < stages; ++i) {
    const MixedStage stage = plan->stage[kInverse ? stages - 1 - i : i];
    switch (stage.radix) {
      case 2:
        mixed_stage<2, kInverse>(points, count, mask, stage, table.roots);
        break;
      case 3:
        mixed_stage<3, kInverse>(points, count, mask, stage, table.roots);
        break;
      case 4:
        mixed_stage<4, kInverse>(points, count, mask, stage, table.roots);
        break;
      case 5:
        mixed_stage<5, kInverse>(points, count, mask, stage, table.roots);
        break;
      case 7:
        mixed_stage<7, kInverse>(points, count, mask, stage, table.roots);
        break;
      case 8:
        mixed_stage<8, kInverse>(points, count, mask, stage, table.roots);
        break;
      case 11:
        mixed_stage<11, kInverse>(points, count, mask, stage, table.roots);
        break;
      default:
        mixed_stage<13, kInverse>(points, count, mask, stage, table.roots);
    }
    block_sync();
  }
}

}  // namespace torch_hrr::kernels
