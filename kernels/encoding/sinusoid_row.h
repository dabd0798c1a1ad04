// A row of sinusoids on the CPU, for files that are compiled once per instruction set.
#pragma once

#include <limits>

#include "kernels/encoding/sinusoid.h"
#include "kernels/finite.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

constexpr int kPhaseLanes = kVectorBytes / 8;
using Phases = Simd<uint64_t, kPhaseLanes>;

template <typename T>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <bool kFractional>
KERNEL_HOST_DEVICE Phases load_phases(const TurnArrays& turns, const FixedPoint& position, int64_t i) {
  const Phases fraction = Phases::load(turns.fraction + i);
  Phases phase = Phases::broadcast(position.whole) * fraction + Phases::load(turns.offset + i);
  if constexpr (kFractional) {
    const Phases own = Phases::broadcast(position.fraction);
    phase = phase + own * Phases::load(turns.whole + i) + fraction_product(own, fraction);
  }
  return phase;
}

// sine and cosine of kLanes<T> angles from frequency i on
template <typename T, bool kFractional>
KERNEL_HOST_DEVICE SineCosine<Simd<T, kLanes<T>>> load_sinusoids(const TurnArrays& turns, const FixedPoint& position,
                                                                 int64_t i) {
  using V = Simd<T, kLanes<T>>;
  const Phases first = load_phases<kFractional>(turns, position, i);
  if constexpr (sizeof(T) == 8) {
    return sine_cosine_of_phase<V>(first);
  } else {
    const Phases second = load_phases<kFractional>(turns, position, i + kPhaseLanes);
    const Phases half = Phases::broadcast(0x80000000u);
    return sine_cosine_of_phase<V>(high_halves(first + half, second + half));
  }
}

template <typename T, bool kFractional, bool kInterleaved>
KERNEL_HOST_DEVICE void make_row_of(const TurnArrays& turns, const FixedPoint& position, int64_t dim, T* row) {
  constexpr int W = kLanes<T>;
  using V = Simd<T, W>;
  const int64_t count = dim / 2;
  T* const cosines = row + (dim + 1) / 2;
  int64_t i = 0;
  for (; i + W <= count; i += W) {
    const SineCosine<V> pair = load_sinusoids<T, kFractional>(turns, position, i);
    if constexpr (kInterleaved) {
      shuffle<InterleaveLow>(pair.sine, pair.cosine).store(row + 2 * i);
      shuffle<InterleaveHigh>(pair.sine, pair.cosine).store(row + 2 * i + W);
    } else {
      pair.sine.store(row + i);
      pair.cosine.store(cosines + i);
    }
  }
  if (2 * i < dim) {
    const SineCosine<V> pair = load_sinusoids<T, kFractional>(turns, position, i);
    for (int j = 0; i + j < (dim + 1) / 2; ++j) {
      row[kInterleaved ? 2 * (i + j) : i + j] = pair.sine.lanes[j];
    }
    for (int j = 0; i + j < count; ++j) {
      (kInterleaved ? row + 2 * (i + j) + 1 : cosines + i + j)[0] = pair.cosine.lanes[j];
    }
  }
}

// Row r of `params` in the compute type, where params.out is not read.
template <typename T>
void make_row(const SinusoidParams& params, const TurnArrays& turns, int64_t r, T* row) {
  const LoadedPosition position = load_position(params.positions, r);
  if (!position.finite) {
    return fill_nan(row, params.dim);
  }
  if (position.value.fraction == 0) {
    params.interleaved ? make_row_of<T, false, true>(turns, position.value, params.dim, row)
                       : make_row_of<T, false, false>(turns, position.value, params.dim, row);
  } else {
    params.interleaved ? make_row_of<T, true, true>(turns, position.value, params.dim, row)
                       : make_row_of<T, true, false>(turns, position.value, params.dim, row);
  }
  if (turns.finite != nullptr) {
    for (int64_t column = 0; column < params.dim; ++column) {
      const int64_t i = params.interleaved ? column / 2 : column % params.frequencies();
      if (turns.finite[i] == 0) {
        row[column] = std::numeric_limits<T>::quiet_NaN();
      }
    }
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
