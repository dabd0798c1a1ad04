// Sines and cosines of the multiples of a part of a turn, computed by the compiler: the constants of butterflies.
#pragma once

#include "kernels/macros.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// cos and sin of 2 pi index / size: the series of Taylor on an eighth of a turn, for constants of the compiler. In long
// double, so that they are the nearest doubles.
constexpr long double taylor(long double x, long double first, int order) {
  long double term = first;
  long double sum = 0;
  for (int n = order; n < order + 26; n += 2) {
    sum += term;
    term *= -x * x / ((n + 1) * (n + 2));
  }
  return sum;
}
constexpr long double cosine_of_part(int index, int size);
constexpr long double sine_of_part(int index, int size) {
  index = (index % size + size) % size;
  if (2 * index > size) {
    return -sine_of_part(size - index, size);
  }
  if (4 * index > size) {
    return sine_of_part(size - 2 * index, 2 * size);
  }
  if (8 * index > size) {
    return cosine_of_part(size - 4 * index, 4 * size);
  }
  const long double x = 6.283185307179586476925286766559L * index / size;
  return taylor(x, x, 1);
}
constexpr long double cosine_of_part(int index, int size) {
  index = (index % size + size) % size;
  if (2 * index > size) {
    return cosine_of_part(size - index, size);
  }
  if (4 * index > size) {
    return -cosine_of_part(size - 2 * index, 2 * size);
  }
  if (8 * index > size) {
    return sine_of_part(size - 4 * index, 4 * size);
  }
  return taylor(6.283185307179586476925286766559L * index / size, 1, 0);
}

// The multiples of a part of a turn, as numbers that a loop may index.
template <int N>
struct PartsOfTurn {
  double cosine[N];
  double sine[N];
};
template <int N>
constexpr PartsOfTurn<N> make_parts() {
  PartsOfTurn<N> parts{};
  for (int i = 0; i < N; ++i) {
    parts.cosine[i] = static_cast<double>(cosine_of_part(i, N));
    parts.sine[i] = static_cast<double>(sine_of_part(i, N));
  }
  return parts;
}
template <int N>
static constexpr PartsOfTurn<N> kPartsOfTurn = make_parts<N>();

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
