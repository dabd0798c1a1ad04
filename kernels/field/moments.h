// Moments of a field's channels over blocks of places, which its metrics are made of: parameters and formulas.
#pragma once

#include <cstdint>

#include "kernels/cuda/call.h"
#include "kernels/lanes.h"

namespace torch_hrr::kernels {

// Places of a block: few enough to stay in a cache, or in a thread's registers, between the mean and the deviations.
constexpr int kMomentPlaces = 64;
constexpr int64_t kMoments = 4;

struct MomentsParams {
  const void* field = nullptr;  // contiguous [items, places, channels]
  // [items, blocks, kMoments, channels] of the compute type: of every block and channel the mean, the sum of squared
  // deviations from it, the largest absolute value and how many absolute values are below `small`. Places are added in
  // their order, by one thread, so that all devices give the same bits.
  void* out = nullptr;
  int64_t items = 0;
  int64_t places = 0;
  int64_t channels = 0;
  double small = 0;

  KERNEL_HOST_DEVICE int64_t blocks() const {
    return (places + kMomentPlaces - 1) / kMomentPlaces;
  }
  KERNEL_HOST_DEVICE int64_t rows() const {
    return items * blocks();
  }
  // Of block `row` of all.
  KERNEL_HOST_DEVICE int64_t first_place(int64_t row) const {
    return row / blocks() * places + row % blocks() * kMomentPlaces;
  }
  KERNEL_HOST_DEVICE int places_of(int64_t row) const {
    const int64_t left = places - row % blocks() * kMomentPlaces;
    return left < kMomentPlaces ? static_cast<int>(left) : kMomentPlaces;
  }
};

// The storage of a call is the field's.
void queue(const CudaCall& call, const MomentsParams& params);

KERNEL_ISA_BEGIN

// What a block's second pass gathers; L is a number or a vector of them.
template <typename L>
struct Deviations {
  L squares, largest, small;

  // The largest is compared by its bits, of which NaN has the most.
  KERNEL_HOST_DEVICE void add(L x, L mean, L limit) {
    using T = number_t<L>;
    using B = bits_t<L>;
    const L deviation = x - mean;
    squares = squares + deviation * deviation;
    const B bits = bits_of(x) & lanes_of<B>(~bits_t<T>{0} >> 1);
    const L size = number_of(bits);
    largest = select(bits > bits_of(largest), size, largest);
    small = small + select(size < limit, lanes_of<L>(T(1)), lanes_of<L>(T(0)));
  }
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
