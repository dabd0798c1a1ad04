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

// A stage reads w^p, w^2p (and w^4p for radix 8), p < period, each a contiguous run: other powers are one product away.
constexpr int stage_twiddle_runs(int radix) {
  return radix == 8 ? 3 : 2;
}

// Where the runs of a stage begin in the table; the stage after the last one of the last length gives its size.
constexpr int stage_twiddle_offset(int log2_points, bool inverse, int stage) {
  int offset = 0;
  for (int m = kMinDeviceFftLog2; m <= log2_points; ++m) {
    for (int direction = 0; direction < kDeviceFftDirections; ++direction) {
      const DeviceFftStages stages = device_fft_stages(m, direction == 1);
      for (int s = 1; s < stages.count; ++s) {
        if (m == log2_points && direction == (inverse ? 1 : 0) && s == stage) {
          return offset;
        }
        offset += stage_twiddle_runs(stages.radix[s]) * stage_period(m, direction == 1, s);
      }
    }
  }
  return offset;
}

constexpr int kTwiddleTablePoints = stage_twiddle_offset(kMaxDeviceFftLog2, true, kMaxDeviceFftStages);

// table[offset(stage) + run * period + p] = e^{-2 pi i p 2^run / (period radix)}
template <typename T>
void fill_twiddle_table(TwiddlePoint<T>* table) {
  for (int m = kMinDeviceFftLog2; m <= kMaxDeviceFftLog2; ++m) {
    for (int direction = 0; direction < kDeviceFftDirections; ++direction) {
      const bool inverse = direction == 1;
      const DeviceFftStages stages = device_fft_stages(m, inverse);
      for (int s = 1; s < stages.count; ++s) {
        const int period = stage_period(m, inverse, s);
        TwiddlePoint<T>* runs = table + stage_twiddle_offset(m, inverse, s);
        for (int run = 0; run < stage_twiddle_runs(stages.radix[s]); ++run) {
          for (int p = 0; p < period; ++p) {
            const Complex<double> root = root_of_unity(int64_t{p} << run, int64_t{period} * stages.radix[s]);
            runs[run * period + p] = {static_cast<T>(root.re), static_cast<T>(root.im)};
          }
        }
      }
    }
  }
}

}  // namespace torch_hrr::kernels
