// Which bins the transforms of an odd number of real numbers give, and in which order.
//
// N real numbers, N odd, have the real bin 0 and (N - 1)/2 pairs of mirror images. Of every pair one is given,
// whichever comes by itself. N is a prime, or A B with a prime B.
#pragma once

#include "kernels/macros.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

constexpr int last_odd_factor(int n) {
  return n % 3 == 0 && n > 3 ? 3 : n == 25 ? 5 : n;
}
constexpr int odd_bins(int n) {
  return (n + 1) / 2;
}
// The bin in place i.
constexpr int odd_bin(int n, int i) {
  const int b = last_odd_factor(n);
  const int a = n / b;
  if (a == 1) {
    return i;
  }
  if (i < odd_bins(b)) {
    return a * i;
  }
  const int later = i - odd_bins(b);
  return odd_bin(a, 1 + later / b) + a * (later % b);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
