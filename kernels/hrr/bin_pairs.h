// Between a pair of points of the half-length spectrum Z of a real row and the same pair of its own bins A_k.
//
// With E = (Z_k + conj Z_{M-k})/2, O = (Z_k - conj Z_{M-k})/2i and w = e^{-2 pi i k/2M}:
//   A_k = E + w O, A_{M-k} = conj(E - w O);  back: E = (A_k + conj A_{M-k})/2, O = conj(w) (A_k - conj A_{M-k})/2,
//   Z_k = E + i O, Z_{M-k} = conj(E - i O).
#pragma once

#include "kernels/hrr/circular_convolution.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

template <typename V>
KERNEL_HOST_DEVICE Pair<V> bins_of_pair(Pair<V> z, Complex<V> w, V half) {
  const Complex<V> even{(z.k.re + z.mirror.re) * half, (z.k.im - z.mirror.im) * half};
  const Complex<V> odd{(z.k.im + z.mirror.im) * half, (z.mirror.re - z.k.re) * half};
  const Complex<V> turned = multiply(odd, w);
  return {{even.re + turned.re, even.im + turned.im}, {even.re - turned.re, turned.im - even.im}};
}
template <typename V>
KERNEL_HOST_DEVICE Pair<V> pair_of_bins(Pair<V> a, Complex<V> w, V half) {
  const Complex<V> even{(a.k.re + a.mirror.re) * half, (a.k.im - a.mirror.im) * half};
  const Complex<V> difference{(a.k.re - a.mirror.re) * half, (a.k.im + a.mirror.im) * half};
  const Complex<V> odd = multiply_conjugate(difference, w);
  return {{even.re - odd.im, even.im + odd.re}, {even.re + odd.im, odd.re - even.im}};
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
