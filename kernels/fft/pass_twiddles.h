// The twiddle factors of passes over n points, for each p of a pass radix-1 pairs of numbers; the last pass needs none.
// Where the radix R has no butterfly of its own, the R pairs of its roots w_R^j stand before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/fft/roots.h"
#include "kernels/fft/row_shape.h"

namespace torch_hrr::kernels {

// Appends them; offsets[i] is where those of pass i begin.
template <typename T>
void append_pass_twiddles(int64_t n, const int* radix, int passes, std::vector<T>& values, size_t* offsets) {
  const auto append = [&](int64_t index, int64_t of) {
    const Complex<double> root = root_of_unity(index, of);
    values.push_back(static_cast<T>(root.re));
    values.push_back(static_cast<T>(root.im));
  };
  for (int pass = 0; pass < passes; ++pass) {
    offsets[pass] = values.size();
    for (int64_t j = 0; radix[pass] > kMaxButterfly && j < radix[pass]; ++j) {
      append(j, radix[pass]);
    }
    for (int64_t p = 0; pass + 1 < passes && p < n / radix[pass]; ++p) {
      for (int64_t k = 1; k < radix[pass]; ++k) {
        append(p * k, n);
      }
    }
    n /= radix[pass];
  }
}

}  // namespace torch_hrr::kernels
