// Tables and lengths of the CUDA kernels that take the spectra of rows of any length by Bluestein's sum.
#pragma once

#include <cstdint>

#include "kernels/fft/twiddles.h"

namespace torch_hrr::kernels {

// A ChirpPlan in the device's memory.
struct ChirpTables {
  const double* wave_re = nullptr;
  const double* wave_im = nullptr;
  const double* to_bins_re = nullptr;
  const double* to_bins_im = nullptr;
  const double* to_row_re = nullptr;
  const double* to_row_im = nullptr;

  ChirpTables() = default;
  // From the numbers of a plan for transforms of `length` points.
  ChirpTables(const double* numbers, int64_t dim, int64_t length)
      : wave_re(numbers),
        wave_im(wave_re + dim),
        to_bins_re(wave_im + dim),
        to_bins_im(to_bins_re + length),
        to_row_re(to_bins_im + length),
        to_row_im(to_row_re + length) {}
};

// L = D + D/2 and more complex points must be among the device's transforms.
constexpr int64_t kMaxDeviceChirpDim = ((int64_t{2} << kMaxDeviceFftLog2) + 1) / 3;

constexpr int device_chirp_log2(int64_t dim) {
  int log2 = kMinDeviceFftLog2;
  while ((int64_t{1} << log2) < dim + dim / 2) {
    ++log2;
  }
  return log2;
}

}  // namespace torch_hrr::kernels
