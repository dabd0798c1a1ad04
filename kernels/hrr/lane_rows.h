// Short rows side by side, each in a lane: loads, products, packed spectra and stores of W rows at a time.
//
// Rows that leave the range of the compute type are found by masks of lanes; the caller computes them again one by one,
// scaled where that is needed.
#pragma once

#include "kernels/fft/lane_transform.h"
#include "kernels/hrr/bin_pairs.h"
#include "kernels/hrr/engine_dispatch.h"
#include "kernels/hrr/matrix_stage.h"
#include "kernels/hrr/prefetch.h"
#include "kernels/rows.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// The rows of an operand of a map from r on, the last one repeated.
template <typename S, int N>
void rows_of(const RowMap& map, int operand, const S* base, int64_t r, int64_t count, const S* (&rows)[N]) {
  const int inner = map.ndim - 1;
  // Mostly they lie in one run of the innermost dimension. If it is the only one, nothing is divided.
  const S* const first = base + (inner == 0 ? r * map.strides[operand][0] : row_offset(map, operand, r));
  const bool in_a_run = inner == 0 || (inner > 0 && r % map.sizes[inner] + count <= map.sizes[inner]);
  const int64_t step = in_a_run ? map.strides[operand][inner] : 0;
  for (int64_t lane = 0; lane < N; ++lane) {
    const int64_t row = lane < count ? lane : count - 1;
    rows[lane] = in_a_run ? first + row * step : base + row_offset(map, operand, r + row);
  }
}

// Pointers to N rows and to N results in the compute type. Rows of another type are copied to a stage, and so are
// results that have no place of that type; all rows must be read before results are written.
template <typename S, int N>
struct RowStage {
  using T = compute_t<S>;

  int64_t dim;
  T* numbers;  // N rows

  void widened(const S* const (&rows)[N], const T* (&result)[N]) const {
    for (int g = 0; g < N; ++g) {
      if constexpr (sizeof(S) == sizeof(T)) {
        result[g] = reinterpret_cast<const T*>(rows[g]);
      } else {
        widen_row<S>(rows[g], dim, numbers + g * dim);
        result[g] = numbers + g * dim;
      }
    }
  }
  // The first `count` are rows of `out`, `step` elements apart; the others are in the stage.
  void targets(S* out, int64_t count, int64_t step, T* (&result)[N]) const {
    const bool all_direct = sizeof(S) == sizeof(T) && count == N;
    T* const first = all_direct ? reinterpret_cast<T*>(out) : numbers;
    const int64_t distance = all_direct ? step : dim;
    for (int g = 0; g < N; ++g) {
      result[g] = first + g * distance;
    }
    if constexpr (sizeof(S) == sizeof(T)) {
      for (int64_t g = 0; !all_direct && g < count; ++g) {
        result[g] = reinterpret_cast<T*>(out + g * step);
      }
    }
  }
  // Results that targets() placed in the stage, to their rows.
  void narrowed(S* out, int64_t count, int64_t step) const {
    if constexpr (sizeof(S) != sizeof(T)) {
      for (int64_t g = 0; g < count; ++g) {
        narrow_row<S>(numbers + g * dim, dim, T{1}, out + g * step);
      }
    }
  }
};

// Lanes whose squared norm leaves the safe range.
template <typename T, int W>
uint32_t unsafe_lanes(Simd<T, W> squared) {
  using V = Simd<T, W>;
  constexpr uint32_t kAll = (1u << W) - 1;
  return kAll ^ (mask_of(squared >= V::broadcast(kLowestSafe<T>)) & mask_of(squared <= V::broadcast(kHighestSafe<T>)));
}

// What makes the inverse of a spectrum exact whose squared norm is `points` times that of its row.
template <typename T, int W>
void set_exact_scale(int64_t points, T (&scale)[W]) {
  Simd<T, W>::broadcast(static_cast<T>(1 / static_cast<double>(points))).store(scale);
}

template <typename S, int kWidth = kLanes<compute_t<S>>>
struct LaneRows {
  using T = compute_t<S>;
  static constexpr int W = kWidth;
  using V = Simd<T, W>;
  using Vectors = Split<T>;  // M + 1 vectors of real parts and as many of imaginary ones

  const LanePlan<T>& plan;
  RowStage<S, W> stage;
  Vectors work;

  static int64_t vectors_bytes(const LanePlan<T>& plan) {
    return 2 * (plan.size + W) * static_cast<int64_t>(sizeof(T)) + 64;
  }
  static int64_t scratch_bytes(int64_t dim, int operands) {
    const LanePlan<T>& plan = lane_plan<T>(dim, W);
    const int64_t bytes = W * dim * static_cast<int64_t>(sizeof(T)) + 64 + (operands + 1) * vectors_bytes(plan);
    return (bytes + 63) / 64 * 64;
  }

  LaneRows(int64_t dim, void* scratch, int64_t& used)
      : plan(lane_plan<T>(dim, W)), stage{dim, aligned<T>(scratch, used, W * dim)} {
    work = vectors(scratch, used);
  }
  Vectors vectors(void* scratch, int64_t& used) const {
    T* const memory = aligned<T>(scratch, used, 2 * (plan.size + W));
    return {memory, memory + plan.size + W};
  }

  static V at(const T* array, int64_t k) {
    return V::load(array + k * W);
  }
  static Complex<V> at(Vectors z, int64_t k) {
    return {at(z.re, k), at(z.im, k)};
  }
  static void put(Vectors z, int64_t k, Complex<V> value) {
    value.re.store(z.re + k * W);
    value.im.store(z.im + k * W);
  }
  // The pair (k, M-k), k > 0.
  Pair<V> pair_at(Vectors z, int64_t k) const {
    return {at(z, k), at(z, plan.points - k)};
  }
  void put_pair(Vectors z, int64_t k, const Pair<V>& pair) const {
    put(z, k, pair.k);
    put(z, plan.points - k, pair.mirror);
  }
  Complex<V> half_root(int64_t k) const {
    return {V::broadcast(plan.pairs[4 * k]), V::broadcast(plan.pairs[4 * k + 1])};
  }
  Complex<V> coupling_of(int64_t k) const {
    return {V::broadcast(plan.pairs[4 * k + 2]), V::broadcast(plan.pairs[4 * k + 3])};
  }
  bool is_odd() const {
    return plan.dim % 2 != 0;
  }
  // Where a packed row, A_0, Re A_1, Im A_1, ..., lies among the bins: A_0 in place of their first imaginary part.
  template <typename Element>
  static LaneVectors<Element> packed_vectors(Vectors z) {
    return {z.im, z.re + W, W};
  }

  void load(const S* const (&rows)[W], Vectors spectra) const {
    const T* sources[W];
    stage.widened(rows, sources);
    lane_forward<W>(plan, sources, spectra, work);
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
    int64_t k;

    Complex<V> in(Vectors z) const {
      return at(z, k);
    }
    void put_in(Vectors z, Complex<V> value) const {
      put(z, k, value);
    }
    void add_inner(InnerSum& sum, Complex<V> x, Complex<V> y) const {
      sum.add(x, y);
    }
  };
  struct PointPair : PairProduct<V> {
    int64_t k;
    int64_t mirror;

    Pair<V> in(Vectors z) const {
      return {at(z, k), at(z, mirror)};
    }
    void put_in(Vectors z, const Pair<V>& value) const {
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
  // visit(Point) or visit(PointPair) for all points
  template <typename Visit>
  void for_points(const Visit& visit) const {
    if (is_odd()) {
      for (int64_t k = 0; k < plan.points; ++k) {
        visit(Point{{}, k});
      }
      return;
    }
    for (int64_t k = 0; 2 * k <= plan.points; ++k) {
      visit(PointPair{{coupling_of(k)}, k, k == 0 ? 0 : plan.points - k});
    }
  }

  // c <- a (*) b; returns sum |C|^2 over all M points where kNorm. c may be a or b.
  template <Product kProduct, bool kNorm>
  V multiply(Vectors a, Vectors b, Vectors c) const {
    InnerSum sum;
    for_points([&](const auto& point) {
      const auto product = point.template of<kProduct>(point.in(a), point.in(b));
      point.put_in(c, product);
      if constexpr (kNorm) {
        point.add_inner(sum, product, product);
      }
    });
    return sum.total();
  }

  // sum |Z|^2 over all M points
  V squared(Vectors z) const {
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
  V pack(Vectors z, const S* behind = nullptr) const {
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
  void unpack(Vectors z) const {
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
  // errors, and a bin that is the smaller of the two after some factors may be the larger one in the end.
  void to_bins(Vectors z) const {
    if (!is_odd()) {
      pack(z);
    }
  }
  void from_bins(Vectors z) const {
    if (!is_odd()) {
      unpack(z);
    }
  }
  // c <- a (*) b; returns sum |C|^2. c may be a or b.
  template <Product kProduct>
  V multiply_bins(Vectors a, Vectors b, Vectors c) const {
    if (is_odd()) {
      return multiply<kProduct, true>(a, b, c);
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
  void conjugate_middle(Vectors z) const {
    if (plan.points % 2 == 0) {
      T* const middle = z.im + plan.points / 2 * W;
      (-V::load(middle)).store(middle);
    }
  }

  void clear(Vectors z) const {
    clear_spectrum(z, plan.size);
  }
  // Lane `lane` of the sums <- what all lanes of z hold together.
  void add_up(Vectors z, int64_t lane, Vectors sums) const {
    for (int64_t k = 0; k < plan.points; ++k) {
      sums.re[k * W + lane] = horizontal_sum(at(z.re, k));
      sums.im[k * W + lane] = horizontal_sum(at(z.im, k));
    }
  }
  // Spectra from packed bins; returns the lanes that need scaling first.
  uint32_t load_packed(const S* const (&rows)[W], Vectors z) const {
    const T* sources[W];
    stage.widened(rows, sources);
    rows_to_lanes<W>(sources, plan.dim, packed_vectors<T>(z));
    unpack(z);
    return unsafe_lanes(squared(z));
  }
  // The first `count` rows of `out` <- the packed bins of spectra; returns the lanes that need scaling first. `behind`
  // is that of pack.
  uint32_t store_packed(Vectors z, const S* behind, S* out, int64_t count) const {
    const V sum = pack(z, behind);
    T ones[W];
    V::broadcast(1).store(ones);
    T* rows[W];
    stage.targets(out, count, plan.dim, rows);
    lanes_to_rows<W>(packed_vectors<const T>(z), plan.dim, ones, rows);
    stage.narrowed(out, count, plan.dim);
    return unsafe_lanes(sum);
  }
  // The first `count` rows that spectra stand for, times scale[lane], to rows of `out` that begin `step` elements
  // apart; the spectra are overwritten. Returns a mask of the lanes with a result that is not finite.
  uint32_t finish(Vectors spectra, const T (&scale)[W], S* out, int64_t count, int64_t step) const {
    T* rows[W];
    stage.targets(out, count, step, rows);
    const uint32_t beyond = lane_inverse<W>(plan, spectra, work, scale, rows);
    stage.narrowed(out, count, step);
    return beyond;
  }
  uint32_t finish(Vectors spectra, const T (&scale)[W], S* out, int64_t count) const {
    return finish(spectra, scale, out, count, plan.dim);
  }

  // The rows themselves: times 1/M, which makes the inverse exact.
  uint32_t finish(Vectors spectra, S* out, int64_t count, int64_t step) const {
    T scale[W];
    set_exact_scale(plan.points, scale);
    return finish(spectra, scale, out, count, step);
  }
  uint32_t finish(Vectors spectra, S* out, int64_t count) const {
    return finish(spectra, out, count, plan.dim);
  }

  // Whether a row, whose squares sum up to 0, is 0. The stage is written over.
  bool is_zero(const S* row) const {
    widen_row<S>(row, plan.dim, stage.numbers);
    return largest_magnitude(stage.numbers, plan.dim, 0) == 0;
  }

  // The spectra of rows_of.
  void load(const RowMap& map, int operand, const void* base, int64_t r, int64_t count, const S* (&rows)[W],
            Vectors spectra) const {
    rows_of(map, operand, static_cast<const S*>(base), r, count, rows);
    load(rows, spectra);
  }

  // A spectrum's squared norm over the row's, and what the inverse multiplies by.
  int64_t points() const {
    return plan.points;
  }
  // How many rows make a group worthwhile.
  static constexpr int64_t kMinRows = 1;
};

// Bytes for `operands` spectra of rows in lanes, if they go so.
template <typename S>
int64_t lane_bytes(RowGroup group, int64_t dim, int operands) {
  return group == RowGroup::kLanes ? LaneRows<S>::scratch_bytes(dim, operands) : 0;
}

// Where scratch behind that of `operands` spectra begins: for the kernel of single rows, which takes what lanes leave.
template <typename Lanes>
void* scratch_behind(int64_t dim, int operands, void* scratch) {
  return static_cast<char*>(scratch) + Lanes::scratch_bytes(dim, operands);
}

// c <- a (*) b; returns sum |C|^2 over the points where kNorm. c may be a or b.
template <bool kNorm, typename Lanes>
typename Lanes::V multiply_lanes(const Lanes& lanes, Product product, typename Lanes::Vectors a,
                                 typename Lanes::Vectors b, typename Lanes::Vectors c) {
  return product == Product::kConvolution ? lanes.template multiply<Product::kConvolution, kNorm>(a, b, c)
                                          : lanes.template multiply<Product::kCorrelation, kNorm>(a, b, c);
}

// group(r, count) for the rows from begin to end, `count` of W from r on at a time, then alone(r, lane) for every lane
// of the mask that it returns: rows that leave the range on the way.
template <int W, typename Group, typename Alone>
void for_groups(int64_t begin, int64_t end, const Group& group, const Alone& alone) {
  for (int64_t r = begin; r < end; r += W) {
    const int64_t count = end - r < W ? end - r : W;
    const uint32_t beyond = group(r, count);
    for (int64_t lane = 0; beyond != 0 && lane < count; ++lane) {
      if ((beyond >> lane & 1) != 0) {
        alone(r + lane, lane);
      }
    }
  }
}

// group(r, count) as above, and alone(first, last) for rows that it leaves and for a last group of too few rows.
template <typename Lanes, typename Group, typename Alone>
void for_rows(int64_t begin, int64_t end, const Group& group, const Alone& alone) {
  const int64_t left = (end - begin) % Lanes::W;
  const int64_t groups_end = left < Lanes::kMinRows ? end - left : end;
  for_groups<Lanes::W>(begin, groups_end, group, [&](int64_t r, int64_t) { alone(r, r + 1); });
  if (groups_end < end) {
    alone(groups_end, end);
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
