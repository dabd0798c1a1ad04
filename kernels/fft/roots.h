// Roots of unity, computed on the host in double: what every table of twiddle factors is filled from.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/numeric.h"

namespace torch_hrr::kernels {

// e^{-2 pi i index / size}, reduced to an eighth of a turn so that symmetric factors are exact mirror images.
inline Complex<double> root_of_unity(int64_t index, int64_t size) {
  const int64_t quarter = (4 * index + size / 2) / size;
  const double angle = kTurn * (static_cast<double>(4 * index - quarter * size) / static_cast<double>(4 * size));
  // At an eighth of a turn the library's sine and cosine may differ in their last bit.
  const bool eighth = 2 * (quarter * size - 4 * index) == size;
  const double c = eighth ? std::sqrt(0.5) : std::cos(angle);
  const double s = eighth ? -std::sqrt(0.5) : std::sin(angle);
  const Complex<double> turned[4] = {{c, -s}, {-s, -c}, {-c, s}, {s, c}};
  return turned[quarter % 4];
}

}  // namespace torch_hrr::kernels
