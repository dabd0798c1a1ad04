// The stages of the transforms of fft.cuh, and the table of twiddle factors they read: plain C++, computed on the host.
//
// One table of a compute type serves every length. A process uploads it once a device:
//   std::vector<TwiddlePoint<float>> table(kTwiddleTablePoints);
//   fill_twiddle_table(table.data());
#pragma once

#include <cstdint>

#include "kernels/fft/roots.h"

namespace torch_hrr::kernels {

// A complex number that loads and stores as one access.
template <typename T>
struct alignas(2 * sizeof(T)) TwiddlePoint {
  T re, im;
};

constexpr int kMinDeviceFftLog2 = 4;
constexpr int kMaxDeviceFftLog2 = 12;
constexpr int kMaxDeviceFftStages = 5;
constexpr int kDeviceFftDirections = 2;

struct DeviceFftStages {
  int count;
  int radix[kMaxDeviceFftStages];
};

// Forward stages end, inverse stages begin with radix 4: there a thread's two butterflies are mirror images, so that it
// holds whole (k, M-k) pairs. The outer stage has radix 4 too (16-byte accesses) wherever that costs no further stage.
constexpr DeviceFftStages kDeviceFftStages[][kDeviceFftDirections] = {
    {{2, {4, 4}}, {2, {4, 4}}},
    {{2, {8, 4}}, {2, {4, 8}}},
    {{3, {4, 4, 4}}, {3, {4, 4, 4}}},
    {{3, {4, 8, 4}}, {3, {4, 8, 4}}},
    {{3, {8, 8, 4}}, {3, {4, 8, 8}}},
    {{4, {4, 8, 4, 4}}, {4, {4, 8, 4, 4}}},
    {{4, {4, 8, 8, 4}}, {4, {4, 8, 8, 4}}},
    {{4, {8, 8, 8, 4}}, {4, {4, 8, 8, 8}}},
    {{5, {4, 8, 8, 4, 4}}, {5, {4, 8, 8, 4, 4}}},
};

constexpr DeviceFftStages device_fft_stages(int log2_points, bool inverse) {
  return kDeviceFftStages[log2_points - kMinDeviceFftLog2][inverse ? 1 : 0];
}

// The product of the radices before a stage: its butterflies q repeat their twiddles with this period.
constexpr int stage_period(int log2_points, bool inverse, int stage) {
  int period = 1;
  for (int s = 0; s < stage; ++s) {
    period *= device_fft_stages(log2_points, inverse).radix[s];
  }
  return period;
}

// The roots of unity of every power of two up to the greatest length, one after the other:
// table[first_twiddle(n) + p] = e^{-2 pi i p / n}, p < n/2. A stage of period P and radix R reads w^p, w^2p (and w^4p
// for radix 8), w = e^{-2 pi i / P R}, p < P: contiguous runs of the roots for P R, P R / 2 and P R / 4. Other powers
// are one product away.
constexpr int first_twiddle(int n) {
  return n / 2;
}
constexpr int kTwiddleTablePoints = first_twiddle(2 << kMaxDeviceFftLog2);

template <typename T>
void fill_twiddle_table(TwiddlePoint<T>* table) {
  table[0] = {T{1}, T{0}};
  for (int n = 2; n <= 1 << kMaxDeviceFftLog2; n *= 2) {
    for (int p = 0; p < n / 2; ++p) {
      const Complex<double> root = root_of_unity(p, n);
      table[first_twiddle(n) + p] = {static_cast<T>(root.re), static_cast<T>(root.im)};
    }
  }
}

}  // namespace torch_hrr::kernels
