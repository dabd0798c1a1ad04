// Vectors of real and of imaginary parts stored as pairs of numbers, the first pair first or last, and such pairs taken
// apart.
#pragma once

#include "kernels/fft/butterflies.h"
#include "kernels/masked_lanes.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// The lane in whose place this one comes if every R lanes go from the last to the first.
template <int R>
constexpr int reversed_lane(int lane) {
  return lane / R * R + R - 1 - lane % R;
}
// Interleave two vectors, every R lanes from the last to the first.
template <int R>
struct InterleaveReversedLow {
  static constexpr int of(int j, int w) {
    return reversed_lane<R>(j / 2) + (j % 2) * w;
  }
};
template <int R>
struct InterleaveReversedHigh {
  static constexpr int of(int j, int w) {
    return reversed_lane<R>(w / 2 + j / 2) + (j % 2) * w;
  }
};

// Take the pairs of two vectors apart, every R of them from the last to the first.
template <int R>
struct ReversedEvenLanes {
  static constexpr int of(int j, int) {
    return 2 * reversed_lane<R>(j);
  }
};
template <int R>
struct ReversedOddLanes {
  static constexpr int of(int j, int) {
    return 2 * reversed_lane<R>(j) + 1;
  }
};

// parts <- the first `end` lanes: all of them, some or, for end <= 0, none.
template <typename T, int W>
KERNEL_HOST_DEVICE void store_up_to(Simd<T, W> x, int64_t end, T* parts) {
  if (end >= W) {
    x.store(parts);
  } else if (end > 0) {
    store_lanes(x, (1u << end) - 1, parts);
  }
}
// parts <- W bins, the first one first or last, of their numbers those up to `end`
template <typename T, int W>
KERNEL_HOST_DEVICE void interleave(const ComplexLanes<T, W>& bins, T* parts, int64_t end = 2 * W) {
  store_up_to(shuffle<InterleaveLow>(bins.re, bins.im), end, parts);
  store_up_to(shuffle<InterleaveHigh>(bins.re, bins.im), end - W, parts + W);
}
template <typename T, int W>
KERNEL_HOST_DEVICE void interleave_reversed(const ComplexLanes<T, W>& bins, T* parts, int64_t end = 2 * W) {
  store_up_to(shuffle<InterleaveReversedLow<W>>(bins.re, bins.im), end, parts);
  store_up_to(shuffle<InterleaveReversedHigh<W>>(bins.re, bins.im), end - W, parts + W);
}

// The 2 W - 1 numbers of W bins of which the first one, or the last one, has no imaginary part. They are arranged in
// registers: to load a vector from memory right after its parts were stored would wait for all of these stores.
struct RealsOfFirstBins {
  static constexpr int of(int j, int) {
    return j == 0 ? 0 : 2 * j - 1;
  }
};
// The second vector's lane in place of the first lane of every R.
template <int R>
struct FirstLanesFromSecond {
  static constexpr int of(int j, int w) {
    return j % R == 0 ? w + j : j;
  }
};
// Of two vectors that overlap by one number; the last bin has the imaginary part of another one.
struct RealsOfLastBins {
  static constexpr int of(int j, int w) {
    const int i = 2 * (w - 1 - j);
    return i < w ? i : i + 1;
  }
};
struct ImaginariesOfLastBins {
  static constexpr int of(int j, int w) {
    const int i = 2 * (w - 1 - j) + 1;
    return j == 0 ? 0 : i < w ? i : i + 1;
  }
};
// Numbers of such bins from kFirst on.
template <int kFirst>
struct NumbersOfFirstBins {
  static constexpr int of(int j, int w) {
    const int i = kFirst + j;
    return (i + 1) / 2 + (i % 2 == 0 && i > 0 ? w : 0);
  }
};
template <int kFirst>
struct NumbersOfLastBins {
  static constexpr int of(int j, int w) {
    const int i = kFirst + j;
    return w - 1 - i / 2 + (i % 2) * w;
  }
};

// The first bins of a row; the number behind them is read, too.
template <typename T, int W>
KERNEL_HOST_DEVICE ComplexLanes<T, W> first_bins(const T* numbers) {
  using V = Simd<T, W>;
  const V low = V::load(numbers);
  const V high = V::load(numbers + W);
  return {shuffle<RealsOfFirstBins>(low, high),
          shuffle<FirstLanesFromSecond<W>>(shuffle<EvenLanes>(low, high), V::broadcast(0))};
}
// The last bins of a row, from the last one to the first.
template <typename T, int W>
KERNEL_HOST_DEVICE ComplexLanes<T, W> last_bins_reversed(const T* numbers) {
  using V = Simd<T, W>;
  const V low = V::load(numbers);
  const V high = V::load(numbers + W - 1);
  return {shuffle<RealsOfLastBins>(low, high),
          shuffle<FirstLanesFromSecond<W>>(shuffle<ImaginariesOfLastBins>(low, high), V::broadcast(0))};
}
// Stores such bins; Numbers is NumbersOfFirstBins, or NumbersOfLastBins for those from the last one to the first.
template <template <int> typename Numbers, typename T, int W>
KERNEL_HOST_DEVICE void store_end_bins(const ComplexLanes<T, W>& bins, T* numbers) {
  shuffle<Numbers<0>>(bins.re, bins.im).store(numbers);
  shuffle<Numbers<W - 1>>(bins.re, bins.im).store(numbers + W - 1);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
