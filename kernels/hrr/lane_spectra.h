// Spectra of short rows side by side, each in a lane: what products and maps do with them, whatever the storage type.
#pragma once

#include "kernels/fft/lane_transform.h"
#include "kernels/hrr/bin_pairs.h"
#include "kernels/hrr/engine.h"
#include "kernels/hrr/prefetch.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// As engine.h asks for; also the bins of rows, packed or not.
template <typename T, int kWidth>
struct LaneSpectra {
  static constexpr int W = kWidth;
  using V = Simd<T, W>;
  using Operand = Split<T>;  // M + 1 vectors of real parts and as many of imaginary ones
  using Sum = V;

  const LanePlan<T>& plan;

  int64_t points() const {
    return plan.points;
  }
  int64_t numbers() const {
    return plan.size;
  }

  static V at(const T* array, int64_t k) {
    return V::load(array + k * W);
  }
  static Complex<V> at(Operand z, int64_t k) {
    return {at(z.re, k), at(z.im, k)};
  }
  static void put(Operand z, int64_t k, Complex<V> value) {
    value.re.store(z.re + k * W);
    value.im.store(z.im + k * W);
  }
  // The pair (k, M-k), k > 0.
  Pair<V> pair_at(Operand z, int64_t k) const {
    return {at(z, k), at(z, plan.points - k)};
  }
  void put_pair(Operand z, int64_t k, const Pair<V>& pair) const {
    put(z, k, pair.k);
    put(z, plan.points - k, pair.mirror);
  }
  Complex<V> half_root(int64_t k) const {
    return {V::broadcast(plan.pairs[4 * k]), V::broadcast(plan.pairs[4 * k + 1])};
  }
  bool is_odd() const {
    return plan.dim % 2 != 0;
  }
  // Where a packed row, A_0, Re A_1, Im A_1, ..., lies among the bins: A_0 in place of their first imaginary part.
  template <typename Element>
  static LaneVectors<Element> packed_vectors(Operand z) {
    return {z.im, z.re + W, W};
  }

  // Sums of Re x conj(y) as four, so that none of them waits for its last addition.
  struct InnerSum {
    V parts[4] = {V::broadcast(0), V::broadcast(0), V::broadcast(0), V::broadcast(0)};

    void add(Complex<V> x, Complex<V> y, int first = 0) {
      parts[first] = multiply_add(x.re, y.re, parts[first]);
      parts[first + 1] = multiply_add(x.im, y.im, parts[first + 1]);
    }
    V total() const {
      return parts[0] + parts[1] + (parts[2] + parts[3]);
    }
  };

  // What products take together: a point of rows of odd length, a pair of the others. The points 0 and M/2 are pairs
  // of one point.
  struct Point : BinProduct {
    using Number = V;
    int64_t k;

    Complex<V> in(Operand z) const {
      return at(z, k);
    }
    void put_in(Operand z, Complex<V> value) const {
      put(z, k, value);
    }
    void add_inner(InnerSum& sum, Complex<V> x, Complex<V> y) const {
      sum.add(x, y);
    }
  };
  struct PointPair : PairProduct<V> {
    using Number = V;
    int64_t k;
    int64_t mirror;

    Pair<V> in(Operand z) const {
      return {at(z, k), at(z, mirror)};
    }
    void put_in(Operand z, const Pair<V>& value) const {
      put(z, mirror, value.mirror);
      put(z, k, value.k);
    }
    void add_inner(InnerSum& sum, const Pair<V>& x, const Pair<V>& y) const {
      sum.add(x.k, y.k);
      if (mirror != k) {
        sum.add(x.mirror, y.mirror, 2);
      }
    }
  };
  // visit(Point) or visit(PointPair) for all points. What a loop asks for is copied: no store can change it then.
  template <typename Visit>
  KERNEL_HOST_DEVICE void for_points(const Visit& visit) const {
    const int64_t points = plan.points;
    if (is_odd()) {
      for (int64_t k = 0; k < points; ++k) {
        visit(Point{{}, k});
      }
      return;
    }
    const T* const pairs = plan.pairs;
    for (int64_t k = 0; 2 * k <= points; ++k) {
      const Complex<V> coupling{V::broadcast(pairs[4 * k + 2]), V::broadcast(pairs[4 * k + 3])};
      visit(PointPair{{coupling}, k, k == 0 ? 0 : points - k});
    }
  }

  // sum |Z|^2 over all M points
  V squared(Operand z) const {
    InnerSum sum;
    int64_t k = 0;
    for (; k + 2 <= plan.points; k += 2) {
      sum.add(at(z, k), at(z, k));
      sum.add(at(z, k + 1), at(z, k + 1), 2);
    }
    if (k < plan.points) {
      sum.add(at(z, k), at(z, k));
    }
    return sum.total();
  }

  // The spectra of rows as their packed bins, in place; returns sum |Z|^2 of the spectra. Brings W rows from `behind`
  // on into the cache meanwhile: those after the ones in work mostly come next.
  template <typename S = T>
  V pack(Operand z, const S* behind = nullptr) const {
    if (is_odd()) {
      const V sum = squared(z);
      at(z.re, 0).store(z.im);
      return sum;
    }
    const V half = V::broadcast(static_cast<T>(0.5));
    const Complex<V> first = at(z, 0);
    InnerSum sum;
    sum.add(first, first);
    (first.re + first.im).store(z.im);
    (first.re - first.im).store(z.re + plan.points * W);
    int64_t k = 1;
    for (; 2 * k < plan.points; ++k) {
      const Pair<V> pair = pair_at(z, k);
      sum.add(pair.k, pair.k);
      sum.add(pair.mirror, pair.mirror, 2);
      if (behind != nullptr) {
        prefetch_row(behind, 4 * W);
        behind += 4 * W;
      }
      put_pair(z, k, bins_of_pair(pair, half_root(k), half));
    }
    if (2 * k == plan.points) {
      sum.add(at(z, k), at(z, k));
    }
    conjugate_middle(z);
    return sum.total();
  }
  // The inverse.
  void unpack(Operand z) const {
    const V zero = V::broadcast(0);
    const V half = V::broadcast(static_cast<T>(0.5));
    if (is_odd()) {
      put(z, 0, {at(z.im, 0), zero});
      for (int64_t k = 1; 2 * k < plan.points; ++k) {
        const Complex<V> bin = at(z, k);
        put(z, plan.points - k, {bin.re, -bin.im});
      }
      return;
    }
    const V first = at(z.im, 0) * half;
    const V last = at(z.re, plan.points) * half;
    put(z, 0, {first + last, first - last});
    for (int64_t k = 1; 2 * k < plan.points; ++k) {
      put_pair(z, k, pair_of_bins(pair_at(z, k), half_root(k), half));
    }
    conjugate_middle(z);
  }
  // Products of many rows are taken bin by bin: in the half-length form the bins k and M - k share their rounding
  // errors, and a bin that is the smaller of the two after some factors may be the larger one in the end. Returns sum
  // |Z|^2.
  V to_bins(Operand z) const {
    return is_odd() ? squared(z) : pack(z);
  }
  void from_bins(Operand z) const {
    if (!is_odd()) {
      unpack(z);
    }
  }
  // c <- a (*) b; returns sum |C|^2. c may be a or b.
  template <Product kProduct>
  V multiply_bins(Operand a, Operand b, Operand c) const {
    if (is_odd()) {
      return multiply_points<kProduct, true>(*this, a, b, c);
    }
    const int64_t last = plan.points * W;
    const Complex<V> real_bins{V::load(a.im) * V::load(b.im), V::load(a.re + last) * V::load(b.re + last)};
    real_bins.re.store(c.im);
    real_bins.im.store(c.re + last);
    InnerSum sum;
    sum.add(real_bins, real_bins);
    for (int64_t k = 1; k < plan.points; ++k) {
      const Complex<V> bin = product_of_bins<kProduct>(at(a, k), at(b, k));
      put(c, k, bin);
      sum.add(bin, bin, k % 2 == 0 ? 0 : 2);
    }
    return sum.total();
  }
  void conjugate_middle(Operand z) const {
    if (plan.points % 2 == 0) {
      T* const middle = z.im + plan.points / 2 * W;
      (-V::load(middle)).store(middle);
    }
  }

  // Lane `lane` of the sums <- what all lanes of z hold together.
  void add_up(Operand z, int64_t lane, Operand sums) const {
    for (int64_t k = 0; k < plan.points; ++k) {
      sums.re[k * W + lane] = horizontal_sum(at(z.re, k));
      sums.im[k * W + lane] = horizontal_sum(at(z.im, k));
    }
  }
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
