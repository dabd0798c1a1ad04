// The twiddle factors of passes over n points, for each p of a pass radix-1 pairs of numbers; the last pass needs none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/fft/roots.h"

namespace torch_hrr::kernels {

// Appends them; offsets[i] is where those of pass i begin.
template <typename T>
void append_pass_twiddles(int64_t n, const int* radix, int passes, std::vector<T>& values, size_t* offsets) {
  for (int pass = 0; pass + 1 < passes; ++pass) {
    offsets[pass] = values.size();
    for (int64_t p = 0; p < n / radix[pass]; ++p) {
      for (int64_t k = 1; k < radix[pass]; ++k) {
        const Complex<double> root = root_of_unity(p * k, n);
        values.push_back(static_cast<T>(root.re));
        values.push_back(static_cast<T>(root.im));
      }
    }
    n /= radix[pass];
  }
}

}  // namespace torch_hrr::kernels
