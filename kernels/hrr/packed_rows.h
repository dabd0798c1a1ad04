// Packed rows (packed_spectrum.h) from the spectra of single rows, and back.
#pragma once

#include "kernels/hrr/interleave.h"
#include "kernels/hrr/matrix_stage.h"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/prefetch.h"
#include "kernels/hrr/row_bins.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// The pairs of a packed row, A_0, Re A_1, Im A_1, ..., A_M: one pair, k > 0, or W of them from k on. The first and the
// last bin have no imaginary part there.
template <typename T>
KERNEL_HOST_DEVICE Pair<T> load_packed(const T* row, int64_t points, int64_t k, const T&) {
  const int64_t mirror = points - k;
  return {{row[packed_real(k)], row[packed_imaginary(k)]}, {row[packed_real(mirror)], row[packed_imaginary(mirror)]}};
}
template <typename T>
KERNEL_HOST_DEVICE void store_packed(T* row, int64_t points, int64_t k, const Pair<T>& pair) {
  const int64_t mirror = points - k;
  row[packed_real(k)] = pair.k.re;
  row[packed_imaginary(k)] = pair.k.im;
  row[packed_real(mirror)] = pair.mirror.re;
  row[packed_imaginary(mirror)] = pair.mirror.im;
}
template <typename T, int W>
KERNEL_HOST_DEVICE PairLanes<T, W> pairs_of(const T* bins, const T* mirrors) {
  using V = Simd<T, W>;
  const V low = V::load(mirrors);
  const V high = V::load(mirrors + W);
  return {FromRow<T, W>{bins}(0), {shuffle<ReversedEvenLanes<W>>(low, high), shuffle<ReversedOddLanes<W>>(low, high)}};
}
template <typename T, int W>
KERNEL_HOST_DEVICE PairLanes<T, W> load_packed(const T* row, int64_t points, int64_t k, const Simd<T, W>&) {
  const T* mirrors = row + 2 * (points - k - W) + 1;
  if (k > 0) {
    return pairs_of<T, W>(row + 2 * k - 1, mirrors);
  }
  return {first_bins<T, W>(row), last_bins_reversed<T, W>(mirrors)};
}
template <typename T, int W>
KERNEL_HOST_DEVICE void store_packed(T* row, int64_t points, int64_t k, const PairLanes<T, W>& pair) {
  T* mirrors = row + 2 * (points - k - W) + 1;
  if (k > 0) {
    interleave<T, W>(pair.k, row + 2 * k - 1);
    interleave_reversed<T, W>(pair.mirror, mirrors);
    return;
  }
  store_end_bins<NumbersOfFirstBins>(pair.k, row);
  store_end_bins<NumbersOfLastBins>(pair.mirror, mirrors);
}

// Lines of the result are brought into the cache this far ahead of the stores, which would otherwise wait for them one
// by one. They may lie beyond the row.
template <typename T>
constexpr int64_t kNumbersAhead = 8 * kLineNumbers<T>;

// sum |Z|^2 of pairs as they come, some of them twice: for the question whether squares stay in range.
template <typename T, int W>
struct SquaredSum {
  Simd<T, W> lanes = Simd<T, W>::broadcast(0);
  T single = 0;

  KERNEL_HOST_DEVICE void add(const PairLanes<T, W>& pair) {
    lanes = inner(pair, pair, lanes);
  }
  KERNEL_HOST_DEVICE void add(const Pair<T>& pair) {
    single = inner(pair, pair, single);
  }
  KERNEL_HOST_DEVICE T total() const {
    return horizontal_sum(lanes) + single;
  }
};

// row <- the packed bins of Z, wrapped; returns sum |Z|^2
template <int W, typename T>
T pack(const HalfRow<T>& half_row, Split<T> z, T* row) {
  const int64_t points = half_row.size;
  SquaredSum<T, W> sum;
  for_pairs<T, W, true>(half_row, [&](int64_t k, const auto& w, const auto& half) {
    const auto pair = load_like(z, points, k, half);
    sum.add(pair);
    store_packed(row, points, k, bins_of_pair(pair, w, half));
    for (const int64_t next : {int64_t{0}, int64_t{W}}) {
      prefetch_target(row + 2 * k + next + kNumbersAhead<T>);
      prefetch_target(row + 2 * (points - k) - next - kNumbersAhead<T>);
    }
  });
  if (points % 2 != 0) {
    return sum.total();
  }
  const Complex<T> middle{z.re[points / 2], z.im[points / 2]};
  row[points - 1] = middle.re;
  row[points] = -middle.im;
  return inner_of_half(middle, middle, sum.total());
}

// Asks for the lines of the row behind this one, which mostly comes next, and of this one's result, share by share: the
// processor waits for many that it is asked for at once.
template <typename T>
struct LinesAhead {
  // Longer rows would push out the spectrum in work.
  static constexpr int64_t kMaxBytes = 16384;

  const T* next;
  const T* target;
  int64_t end;
  int64_t asked = 0;
  int64_t due = 0;

  LinesAhead(const T* row, int64_t dim, const T* result)
      : next(row + dim), target(result), end(dim * static_cast<int64_t>(sizeof(T)) <= kMaxBytes ? dim : 0) {}

  KERNEL_HOST_DEVICE void ask(int64_t numbers) {
    if (due < end) {
      for (due += numbers; asked < due; asked += kLineNumbers<T>) {
        __builtin_prefetch(next + asked, 0, 2);
        prefetch_target(target + asked);
      }
    }
  }
};

// Z <- the half-length spectrum of a packed row; returns sum |Z|^2
template <int W, typename T>
T unpack(const HalfRow<T>& half_row, const T* row, Split<T> z, const T* target) {
  const int64_t points = half_row.size;
  SquaredSum<T, W> sum;
  LinesAhead<T> lines(row, 2 * points, target);
  for_pairs<T, W, true>(half_row, [&](int64_t k, const auto& w, const auto& half) {
    const auto pair = pair_of_bins(load_packed(row, points, k, half), w, half);
    sum.add(pair);
    store_like(z, points, k, pair);
    lines.ask(4 * W);
  });
  if (points % 2 != 0) {
    return sum.total();
  }
  const Complex<T> middle{row[points - 1], -row[points]};
  z.re[points / 2] = middle.re;
  z.im[points / 2] = middle.im;
  return inner_of_half(middle, middle, sum.total());
}

// Z <- the half-length spectrum of the row with the bins A_k B_k (A_k conj(B_k) for correlation), Z wrapped and B
// packed
template <Product kProduct, int W, typename T>
void multiply_packed(const FftPlan<T>& plan, Split<T> z, const T* packed) {
  const int64_t points = plan.size;
  for_pairs<T, W>(plan, [&](int64_t k, const auto& w, const auto& half) {
    auto bins = bins_of_pair(load_like(z, points, k, half), w, half);
    const auto factors = load_packed(packed, points, k, half);
    bins.k = product_of_bins<kProduct>(bins.k, factors.k);
    bins.mirror = product_of_bins<kProduct>(bins.mirror, factors.mirror);
    store_like(z, points, k, pair_of_bins(bins, w, half));
  });
  const int64_t middle = points / 2;
  const Complex<T> bin = product_of_bins<kProduct>(Complex<T>{z.re[middle], -z.im[middle]},
                                                   Complex<T>{packed[points - 1], packed[points]});
  z.re[middle] = bin.re;
  z.im[middle] = -bin.im;
}

// Of the bins of a row that is transformed as a matrix, columns p and C-1-p, p < C/2, have R p .. R (p+1) - 1: column p
// the first (R+1)/2, the other one the mirror images of the rest, the last one first. Where C is odd, the column in the
// middle has the last (R+1)/2 bins; where C is even, the first bin of column C/2 is the one of D/2.

// row <- the packed bins of a spectrum, by vectors of the plan's width. Returns the sum of |z|^2 over the bins given,
// the first bins of columns once or twice more.
template <int W, typename T>
T pack_columns(const MatrixPlan<T>& plan, Split<T> z, T* row) {
  using V = Simd<T, W>;
  // Copies, which no store can change: they stay in registers.
  const int64_t columns = plan.columns;
  const int64_t rows = plan.rows;
  const int64_t bins = plan.bins;
  const int64_t lanes = plan.lanes;
  V squared = V::broadcast(0);
  const auto load = [&](int64_t number) {
    const ComplexLanes<T, W> x = load_numbers<T, W>(z, number);
    squared = multiply_add(x.im, x.im, multiply_add(x.re, x.re, squared));
    return x;
  };
  // The bins of column p from `first` on. What whole vectors write beyond the bins that they have is overwritten by
  // those that follow, and beyond the bins of a column spectra are 0.
  const auto pack_column = [&](int64_t p, int64_t first, T* parts) {
    for (int64_t q = first; q < bins; q += W, parts += 2 * W) {
      interleave<T, W>(load(p * lanes + q), parts);
    }
  };
  const auto load_mirrors = [&](int64_t p, int64_t q) {
    const ComplexLanes<T, W> x = load(p * lanes + bins - W - q);
    return ComplexLanes<T, W>{x.re, -x.im};
  };
  const int64_t pairs = columns / 2;
  row[0] = z.re[0];
  pack_column(0, 1, row + packed_real(1));
  for (int64_t p = 0; p + 1 < pairs; ++p) {
    const int64_t k = rows * p;
    if (p > 0) {
      pack_column(p, 0, row + packed_real(k));
    }
    T* parts = row + packed_real(k + bins);
    for (int64_t q = 0; q + 1 < bins; q += W, parts += 2 * W) {
      interleave_reversed<T, W>(load_mirrors(columns - 1 - p, q), parts);
    }
    for (int64_t i = 0; i < 2 * rows; i += kLineNumbers<T>) {
      prefetch_target(row + packed_real(k) + i + kNumbersAhead<T>);
    }
  }
  // The last ones without what lies beyond: no vector may write behind the row.
  T* parts = row + packed_real(rows * (pairs - 1));
  const auto end_column = [&](int64_t p) {
    for (int64_t q = 0; q < bins; q += W) {
      interleave<T, W>(load(p * lanes + q), parts + 2 * q, 2 * (bins - q));
    }
    parts += 2 * bins;
  };
  end_column(pairs - 1);
  for (int64_t q = 0; q + 1 < bins; q += W) {
    interleave_reversed<T, W>(load_mirrors(columns - pairs, q), parts + 2 * q, 2 * (bins - 1 - q));
  }
  parts += 2 * (bins - 1);
  T rest = z.re[0] * z.re[0];
  if (columns % 2 != 0) {
    end_column(pairs);
  } else {
    *parts = z.re[pairs * lanes];
    rest += *parts * *parts;
  }
  return horizontal_sum(squared) + rest;
}

// row <- the packed bins of a spectrum; returns what tells whether their squares stay in range.
template <int W, typename T>
T pack(const MatrixPlan<T>& plan, Split<T> z, T* row) {
  T squared;
  with_width<T, W>(plan.width, [&](auto width) { squared = pack_columns<decltype(width)::value>(plan, z, row); });
  return squared;
}

// visit(q, bins) for the numbers of the spectrum of a packed row, W from q on. Beyond the bins of a column they are
// others of the row or zeros: no transform takes them.
template <int W, typename T, typename Visit>
void for_packed_columns(const MatrixPlan<T>& plan, const T* row, const Visit& visit) {
  const int64_t step = 2 * plan.rows;
  // The first bin of the second column is the one behind those of the pair.
  const auto visit_pair = [&](int64_t p, const T* parts) {
    for (int64_t i = 0; i < plan.lanes; i += W) {
      const PairLanes<T, W> pair = pairs_of<T, W>(parts + 2 * i, parts + step + 2 - 2 * (i + W));
      visit(p * plan.lanes + i, pair.k);
      visit((plan.columns - 1 - p) * plan.lanes + i, ComplexLanes<T, W>{pair.mirror.re, -pair.mirror.im});
    }
  };
  const int64_t pairs = plan.columns / 2;
  // Both parts of 2 (R + 1)/2 bins, at most 2 lanes of them: the first and the last bin of a row may have one part.
  // They are copied first and visited last: a vector loaded right after its parts were stored waits for these stores.
  T first[4 * kMaxMatrixLanes] = {};
  T last[4 * kMaxMatrixLanes] = {};
  T middle[4 * kMaxMatrixLanes] = {};
  first[0] = row[0];
  __builtin_memcpy(first + 2, row + 1, step * sizeof(T));
  const T* const last_parts = row + step * (pairs - 1) - 1;
  const T* const middle_parts = last_parts + step;
  __builtin_memcpy(last, last_parts, (step + 1) * sizeof(T));
  if (plan.columns % 2 != 0) {
    last[step + 1] = middle_parts[1];
    __builtin_memcpy(middle, middle_parts, 2 * plan.bins * sizeof(T));
  }
  for (int64_t p = 1; p + 1 < pairs; ++p) {
    visit_pair(p, row + step * p - 1);
  }
  visit_pair(0, first);
  visit_pair(pairs - 1, last);
  if (plan.columns % 2 != 0) {
    for (int64_t i = 0; i < plan.lanes; i += W) {
      visit(pairs * plan.lanes + i, FromRow<T, W>{middle}(i));
    }
  }
}

template <int W, typename T>
T unpack(const MatrixPlan<T>& plan, const T* row, Split<T> z, const T* target) {
  LinesAhead<T> lines(row, plan.dim, target);
  with_width<T, W>(plan.width, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const int64_t share = plan.rows * kWidth / plan.lanes;
    for_packed_columns<kWidth>(plan, row, [&](int64_t q, const auto& bins) {
      store_numbers(z, q, bins);
      lines.ask(share);
    });
  });
  for (int64_t q = plan.size; q < plan.numbers; ++q) {
    z.re[q] = 0;
    z.im[q] = 0;
  }
  return NumberSpectra<T, W>{plan}.squared(z);
}

template <Product kProduct, int W, typename T>
void multiply_packed(const MatrixPlan<T>& plan, Split<T> z, const T* packed) {
  with_width<T, W>(plan.width, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    for_packed_columns<kWidth>(plan, packed, [&](int64_t q, const auto& bins) {
      store_numbers(z, q, product_of_bins<kProduct>(load_numbers<T, kWidth>(z, q), bins));
    });
  });
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
