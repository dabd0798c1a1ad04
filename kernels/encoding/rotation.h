// Rows whose pairs of elements turn by the angles of their positions: parameters.
#pragma once

#include "kernels/encoding/sinusoid.h"
#include "kernels/rows.h"

namespace torch_hrr::kernels {

// Pair i of a row of x, with a = (position of the row) (frequency i): (s, c) becomes factor (s cos a + c sin a, c cos a
// - s sin a). Pairs lie in the first `turned` elements, side by side if interleaved, else the second elements after all
// first ones; the elements after them are copied. A position that is NaN or infinite gives NaN there, such a frequency
// in its pair. out may be x.
struct RotationParams {
  const void* x = nullptr;
  void* out = nullptr;
  Positions positions;
  int64_t dim = 0;     // of a row, at least 1
  int64_t turned = 0;  // even, at most dim
  bool interleaved = true;
  bool inverse = false;  // by -a
  double factor = 1;
  // Where rows lie: those with a position of their own, and those beside each of them that share it. Operands are x,
  // out and, in `places`, positions.
  RowMap places;
  RowMap repeats;
  int64_t place_count = 1;
  int64_t repeat_count = 1;
  int64_t repeats_together = 1;  // repeats of a place that one unit of work turns

  KERNEL_HOST_DEVICE int64_t frequencies() const {
    return turned / 2;
  }
  KERNEL_HOST_DEVICE int64_t parts() const {
    return (repeat_count + repeats_together - 1) / repeats_together;
  }
  // Unit u has part u / place_count of the repeats of place u % place_count.
  KERNEL_HOST_DEVICE int64_t units() const {
    return place_count * parts();
  }
};
using RotationRowParams = WithTurns<RotationParams>;

void queue(const CudaCall& call, const RotationParams& params, const TurnArrays& turns);
void queue(const CudaCall& call, const RotationParams& params, const HeldFrequencies& held);

KERNEL_ISA_BEGIN

// The sine and cosine that a pair is turned by.
template <typename T>
KERNEL_HOST_DEVICE SineCosine<T> turning(const RotationParams& params, SineCosine<T> of_angle) {
  const auto factor = static_cast<T>(params.factor);
  const T sine = of_angle.sine * factor;
  return {params.inverse ? -sine : sine, of_angle.cosine * factor};
}
template <typename L>
KERNEL_HOST_DEVICE SineCosine<L> turned_pair(SineCosine<L> pair, SineCosine<L> by) {
  return {pair.sine * by.cosine + pair.cosine * by.sine, pair.cosine * by.cosine - pair.sine * by.sine};
}

// a / b of numbers that are not negative: a GPU divides 32 bits much faster.
KERNEL_HOST_DEVICE int64_t quotient(int64_t a, int64_t b) {
  return static_cast<uint64_t>(a | b) >> 32 == 0 ? static_cast<uint32_t>(a) / static_cast<uint32_t>(b) : a / b;
}

// Element offsets of a row of a map.
struct RowPlace {
  int64_t x = 0;
  int64_t out = 0;
  int64_t position = 0;
};
KERNEL_HOST_DEVICE RowPlace row_place(const RowMap& map, int64_t row) {
  RowPlace place;
  for (int d = map.ndim - 1; d >= 0; --d) {
    const int64_t next = d == 0 ? 0 : quotient(row, map.sizes[d]);
    const int64_t index = row - next * map.sizes[d];
    place.x += index * map.strides[0][d];
    place.out += index * map.strides[1][d];
    place.position += index * map.strides[2][d];
    row = next;
  }
  return place;
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
