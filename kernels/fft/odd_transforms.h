// Discrete Fourier transforms of odd lengths on vectors of lanes: of complex numbers for a prime radix, and of real
// numbers, both ways, for the odd side of a row that is transformed as a matrix.
#pragma once

#include "kernels/fft/butterflies.h"
#include "kernels/fft/parts_of_turn.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// x_k <- sum_j e^{-2 pi i jk/P} x_j for an odd prime P
template <int P, typename T, int W>
KERNEL_HOST_DEVICE void butterfly_prime(ComplexLanes<T, W> (&x)[P]) {
  using C = ComplexLanes<T, W>;
  constexpr int kHalf = (P - 1) / 2;
  C sum[kHalf];
  C difference[kHalf];
#pragma GCC unroll 8
  for (int j = 1; j <= kHalf; ++j) {
    sum[j - 1] = add(x[j], x[P - j]);
    difference[j - 1] = subtract(x[j], x[P - j]);
  }
  const C first = x[0];
  C total = sum[0];
#pragma GCC unroll 8
  for (int j = 1; j < kHalf; ++j) {
    total = add(total, sum[j]);
  }
  x[0] = add(first, total);
#pragma GCC unroll 8
  for (int k = 1; k <= kHalf; ++k) {
    C middle = add_multiple(first, kPartsOfTurn<P>.cosine[k], sum[0]);
    C turned = multiple(kPartsOfTurn<P>.sine[k], difference[0]);
#pragma GCC unroll 8
    for (int j = 2; j <= kHalf; ++j) {
      middle = add_multiple(middle, kPartsOfTurn<P>.cosine[j * k % P], sum[j - 1]);
      turned = add_multiple(turned, kPartsOfTurn<P>.sine[j * k % P], difference[j - 1]);
    }
    x[k] = subtract_i(middle, turned);
    x[P - k] = add_i(middle, turned);
  }
}

template <int R, typename T, int W>
KERNEL_HOST_DEVICE void butterfly(ComplexLanes<T, W> (&x)[R]) {
  if constexpr (R == 2) {
    butterfly2(x[0], x[1]);
  } else if constexpr (R == 4) {
    butterfly4(x[0], x[1], x[2], x[3]);
  } else if constexpr (R == 8) {
    butterfly8<T, W>(x);
  } else if constexpr (R == 16) {
    butterfly16<T, W>(x);
  } else {
    butterfly_prime<R, T, W>(x);
  }
}

template <typename V>
KERNEL_HOST_DEVICE V times(double factor, V x) {
  return V::broadcast(static_cast<number_t<V>>(factor)) * x;
}
template <typename V>
KERNEL_HOST_DEVICE V plus_times(V a, double factor, V x) {
  return multiply_add(V::broadcast(static_cast<number_t<V>>(factor)), x, a);
}

// A length N is a prime, or A B with a prime B.
constexpr int last_odd_factor(int n) {
  return n % 3 == 0 && n > 3 ? 3 : n == 25 ? 5 : n == 35 || n == 49 ? 7 : n;
}
// The bins of N real numbers, N odd, that are not mirror images of others: 0 to (N - 1)/2.
constexpr int odd_bins(int n) {
  return (n + 1) / 2;
}

// y_k = sum_n x_n e^{-2 pi i nk/N}
template <int N, typename T, int W>
KERNEL_HOST_DEVICE void odd_forward(const Simd<T, W> (&x)[N], ComplexLanes<T, W> (&y)[odd_bins(N)]) {
  using V = Simd<T, W>;
  constexpr int B = last_odd_factor(N);
  constexpr int A = N / B;
  constexpr int kBinsA = odd_bins(A);
  constexpr int kBinsB = odd_bins(B);
  if constexpr (A == 1) {
    constexpr int kHalf = kBinsB - 1;
    V sum[kHalf];
    V difference[kHalf];
    y[0] = {x[0], V::broadcast(0)};
#pragma GCC unroll 8
    for (int j = 1; j <= kHalf; ++j) {
      sum[j - 1] = x[j] + x[N - j];
      difference[j - 1] = x[j] - x[N - j];
      y[0].re = y[0].re + sum[j - 1];
    }
#pragma GCC unroll 8
    for (int k = 1; k <= kHalf; ++k) {
      V re = plus_times(x[0], kPartsOfTurn<N>.cosine[k], sum[0]);
      V im = times(-kPartsOfTurn<N>.sine[k], difference[0]);
#pragma GCC unroll 8
      for (int j = 2; j <= kHalf; ++j) {
        re = plus_times(re, kPartsOfTurn<N>.cosine[j * k % N], sum[j - 1]);
        im = plus_times(im, -kPartsOfTurn<N>.sine[j * k % N], difference[j - 1]);
      }
      y[k] = {re, im};
    }
  } else {
    // x[b + B a]: B transforms over a, the twiddles w_N^{bk}, one transform over b for each of their bins k.
    ComplexLanes<T, W> inner[B][kBinsA];
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) {
      V column[A];
#pragma GCC unroll 16
      for (int a = 0; a < A; ++a) {
        column[a] = x[b + B * a];
      }
      odd_forward<A, T, W>(column, inner[b]);
    }
    V real[B];
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) {
      real[b] = inner[b][0].re;
    }
    ComplexLanes<T, W> first[kBinsB];
    odd_forward<B, T, W>(real, first);
#pragma GCC unroll 8
    for (int i = 0; i < kBinsB; ++i) {
      y[A * i] = first[i];
    }
#pragma GCC unroll 8
    for (int k = 1; k < kBinsA; ++k) {
      ComplexLanes<T, W> z[B];
#pragma GCC unroll 8
      for (int b = 0; b < B; ++b) {
        z[b] = inner[b][k];
        if (b > 0) {
          turn(z[b], kPartsOfTurn<N>.cosine[b * k % N], -kPartsOfTurn<N>.sine[b * k % N]);
        }
      }
      butterfly_prime<B, T, W>(z);
#pragma GCC unroll 8
      for (int b = 0; b < B; ++b) {
        const int bin = k + A * b;
        if (2 * bin < N) {
          y[bin] = z[b];
        } else {
          y[N - bin] = {z[b].re, -z[b].im};
        }
      }
    }
  }
}

// x_n = sum over all N bins, those given and their mirror images, of y_k e^{2 pi i nk/N}. Of bin 0 the real part
// counts.
template <int N, typename T, int W>
KERNEL_HOST_DEVICE void odd_inverse(const ComplexLanes<T, W> (&y)[odd_bins(N)], Simd<T, W> (&x)[N]) {
  using V = Simd<T, W>;
  constexpr int B = last_odd_factor(N);
  constexpr int A = N / B;
  constexpr int kBinsA = odd_bins(A);
  constexpr int kBinsB = odd_bins(B);
  if constexpr (A == 1) {
    constexpr int kHalf = kBinsB - 1;
    V re[kHalf];
    V im[kHalf];
    x[0] = y[0].re;
#pragma GCC unroll 8
    for (int k = 1; k <= kHalf; ++k) {
      re[k - 1] = y[k].re + y[k].re;
      im[k - 1] = y[k].im + y[k].im;
      x[0] = x[0] + re[k - 1];
    }
#pragma GCC unroll 8
    for (int j = 1; j <= kHalf; ++j) {
      V even = plus_times(y[0].re, kPartsOfTurn<N>.cosine[j], re[0]);
      V odd = times(kPartsOfTurn<N>.sine[j], im[0]);
#pragma GCC unroll 8
      for (int k = 2; k <= kHalf; ++k) {
        even = plus_times(even, kPartsOfTurn<N>.cosine[j * k % N], re[k - 1]);
        odd = plus_times(odd, kPartsOfTurn<N>.sine[j * k % N], im[k - 1]);
      }
      x[j] = even - odd;
      x[N - j] = even + odd;
    }
  } else {
    ComplexLanes<T, W> inner[B][kBinsA];
    ComplexLanes<T, W> first[kBinsB];
#pragma GCC unroll 8
    for (int i = 0; i < kBinsB; ++i) {
      first[i] = y[A * i];
    }
    V real[B];
    odd_inverse<B, T, W>(first, real);
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) {
      inner[b][0] = {real[b], V::broadcast(0)};
    }
#pragma GCC unroll 8
    for (int k = 1; k < kBinsA; ++k) {
      // The inverse: parts exchanged on both sides.
      ComplexLanes<T, W> z[B];
#pragma GCC unroll 8
      for (int b = 0; b < B; ++b) {
        const int bin = k + A * b;
        if (2 * bin < N) {
          z[b] = {y[bin].im, y[bin].re};
        } else {
          z[b] = {-y[N - bin].im, y[N - bin].re};
        }
      }
      butterfly_prime<B, T, W>(z);
#pragma GCC unroll 8
      for (int b = 0; b < B; ++b) {
        ComplexLanes<T, W> value{z[b].im, z[b].re};
        if (b > 0) {
          turn(value, kPartsOfTurn<N>.cosine[b * k % N], kPartsOfTurn<N>.sine[b * k % N]);
        }
        inner[b][k] = value;
      }
    }
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) {
      V column[A];
      odd_inverse<A, T, W>(inner[b], column);
#pragma GCC unroll 16
      for (int a = 0; a < A; ++a) {
        x[b + B * a] = column[a];
      }
    }
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
