// Packed spectra on the CPU; compiled once per instruction set.
#include "kernels/hrr/packed_spectrum.h"

#include "kernels/hrr/in_register_spectrum.h"
#include "kernels/hrr/interleave.h"
#include "kernels/hrr/lane_rows.h"
#include "kernels/hrr/matrix_lane_rows.h"
#include "kernels/hrr/prefetch.h"
#include "kernels/hrr/row_spectrum.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

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

// row <- the packed bins of a spectrum, by vectors of the plan's width. Returns the sum of |z|^2 over the bins given
// and the first bins of columns again.
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
  return squared_norm<T, W>(plan, z);
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

// The transform of a row times 2^exponent, either way, without that factor in the result; false if a plain transform
// left the safe range (then the caller scales).
template <typename S, typename Engine>
bool transform_row(const Engine& engine, const S* in, bool inverse, bool scaled, int exponent,
                   typename Engine::Operand z, S* out) {
  using T = compute_t<S>;
  constexpr int W = Engine::kWidth;
  T* row = engine.stage;
  if constexpr (sizeof(S) == sizeof(T)) {
    row = out;
  }
  if (inverse) {
    const T squared = unpack<W>(engine.plan, staged_row(in, engine.dim, exponent, engine.stage), z, row);
    if (!scaled && !safe_squared_norm(squared)) {
      return false;
    }
    engine.inverse(z, T{1} / static_cast<T>(engine.points), row);
  } else {
    engine.load(in, exponent, z);
    const T squared = pack<W>(engine.plan, z, row);
    if (!scaled && !safe_squared_norm(squared)) {
      return false;
    }
  }
  rescale_row(row, engine.dim, -exponent);
  if constexpr (sizeof(S) != sizeof(T)) {
    narrow_row<S>(row, engine.dim, T{1}, out);
  }
  return true;
}

// The same by Bluestein's sum over whole rows.
template <typename S, typename T>
bool transform_row(const ChirpEngine<S, T>& engine, const S* in, bool inverse, bool scaled, int exponent, Split<T> bins,
                   S* out) {
  T* row = engine.row;
  const int64_t dim = engine.dim;
  if (inverse) {
    if (!safe_squared_norm(engine.widen(in, exponent)) && !scaled) {
      return false;
    }
    const T share = static_cast<T>(engine.share());
    bins.re[0] = row[0] * share;
    for (int64_t k = 1; 2 * k < dim; ++k) {
      bins.re[k] = row[packed_real(k)] * share;
      bins.im[k] = row[packed_imaginary(k)] * share;
    }
    if (engine.last_is_real()) {
      bins.re[engine.last_bin()] = row[dim - 1] * share;
    }
    engine.invert(bins);
  } else {
    if (!safe_squared_norm(engine.load(in, exponent, bins)) && !scaled) {
      return false;
    }
    row[0] = bins.re[0];
    for (int64_t k = 1; 2 * k < dim; ++k) {
      row[packed_real(k)] = bins.re[k];
      row[packed_imaginary(k)] = bins.im[k];
    }
    if (engine.last_is_real()) {
      row[dim - 1] = bins.re[engine.last_bin()];
    }
  }
  engine.store(-exponent, out);
  return true;
}

// The same for a row that a plain transform did not serve.
template <typename S, typename Engine>
void scaled_transform_row(const Engine& engine, const S* in, bool inverse, typename Engine::Operand z, S* out) {
  int exponent = 0;
  if (row_exponent(engine, in, exponent)) {
    transform_row(engine, in, inverse, true, exponent, z, out);
  } else {
    fill_nan(out, engine.dim);
  }
}

template <typename S>
void single_packed_spectrum_rows(const PackedSpectrumParams& params, int64_t begin, int64_t end, void* scratch) {
  with_spectrum_engine<S>(params.dim, scratch, [&](const auto& engine, int64_t used) {
    const auto z = engine.operand(scratch, used);
    for (int64_t r = begin; r < end; ++r) {
      const S* in = static_cast<const S*>(params.in) + row_offset(params.map, 0, r);
      S* out = static_cast<S*>(params.out) + r * params.dim;
      if (!transform_row(engine, in, params.inverse, false, 0, z, out)) {
        scaled_transform_row(engine, in, params.inverse, z, out);
      }
    }
  });
}

template <typename S, int W>
void packed_spectrum_groups(const PackedSpectrumParams& params, int64_t begin, int64_t end, void* scratch) {
  using Lanes = LaneRows<S, W>;
  int64_t used = 0;
  const Lanes lanes(params.dim, scratch, used);
  const auto z = lanes.vectors(scratch, used);
  const auto group = [&](int64_t r, int64_t count) {
    const S* rows[W];
    rows_of(params.map, 0, static_cast<const S*>(params.in), r, count, rows);
    S* const out = static_cast<S*>(params.out) + r * params.dim;
    if (!params.inverse) {
      lanes.load(rows, z);
      return unsafe_lanes(lanes.store_packed(z, rows[W - 1] + params.dim, out, count));
    }
    const uint32_t unsafe = unsafe_lanes(lanes.load_packed(rows, z));
    lanes.finish(z, out, count);
    return unsafe;
  };
  for_groups<W>(begin, end, group, [&](int64_t r, int64_t) {
    single_packed_spectrum_rows<S>(params, r, r + 1, LaneRows<S>::scratch_behind(params.dim, 1, scratch));
  });
}

// Up to 4 rows that are left go by vectors of 4: they would leave most lanes of a longer one empty.
template <typename S>
void packed_spectrum_lanes(const PackedSpectrumParams& params, int64_t begin, int64_t end, void* scratch) {
  constexpr int kFew = 4;
  constexpr int W = LaneRows<S>::W;
  const int64_t left = (end - begin) % W;
  const int64_t wide_end = W > kFew && left <= kFew ? end - left : end;
  if (begin < wide_end) {
    packed_spectrum_groups<S, W>(params, begin, wide_end, scratch);
  }
  if (wide_end < end) {
    packed_spectrum_groups<S, kFew>(params, wide_end, end, scratch);
  }
}

template <typename S>
void packed_spectrum_matrix_lanes(const PackedSpectrumParams& params, int64_t begin, int64_t end, void* scratch) {
  using Lanes = MatrixLaneRows<S>;
  constexpr int W = Lanes::W;
  int64_t used = 0;
  const Lanes lanes(params.dim, scratch, used);
  const auto z = lanes.vectors(scratch, used);
  // By itself a row is judged by a sum in which some squares count twice.
  const auto unsafe = [](const auto& squared) { return unsafe_lanes(squared) | unsafe_lanes(squared + squared); };
  const auto group = [&](int64_t r, int64_t count) {
    const S* rows[W];
    rows_of(params.map, 0, static_cast<const S*>(params.in), r, count, rows);
    S* const out = static_cast<S*>(params.out) + r * params.dim;
    if (!params.inverse) {
      lanes.load(rows, z);
      return unsafe(lanes.store_packed(z, out, count));
    }
    const auto squared = lanes.load_packed(rows, z);
    return unsafe(squared) | lanes.finish(z, out, count);
  };
  void* const rest = Lanes::scratch_behind(params.dim, 1, scratch);
  for_rows<Lanes>(begin, end, group,
                  [&](int64_t first, int64_t last) { single_packed_spectrum_rows<S>(params, first, last, rest); });
}

#if defined(__AVX512F__)
template <typename S, int R>
void packed_spectrum_in_registers(const PackedSpectrumParams& params, int64_t begin, int64_t end, void* scratch) {
  constexpr int kRows = InRegisterPlan::kLanes / R;
  constexpr int64_t kDim = 2 * InRegisterPlan::kLanes * R;
  const InRegisterPlan& plan = in_register_plan(R);
  alignas(64) float numbers[kRows * kDim];
  const RowStage<S, kRows> stage{kDim, numbers};
  const auto group = [&](int64_t r, int64_t count) {
    const S* rows[kRows];
    rows_of(params.map, 0, static_cast<const S*>(params.in), r, count, rows);
    S* const out = static_cast<S*>(params.out) + r * kDim;
    const float* sources[kRows];
    float* targets[kRows];
    stage.widened(rows, sources);
    stage.targets(out, count, kDim, targets);
    constexpr bool kPrefetch = sizeof(S) == sizeof(float);
    const uint32_t unsafe = params.inverse ? in_register_rows<R, kPrefetch>(plan, sources, targets)
                                           : in_register_spectra<R, kPrefetch>(plan, sources, targets);
    stage.narrowed(out, count, kDim);
    return unsafe;
  };
  for_groups<kRows>(begin, end, group, [&](int64_t r, int64_t) {
    single_packed_spectrum_rows<S>(params, r, r + 1, LaneRows<S>::scratch_behind(kDim, 1, scratch));
  });
}
#endif

template <typename S>
void packed_spectrum_rows(const PackedSpectrumParams& params, int64_t begin, int64_t end, void* scratch) {
#if defined(__AVX512F__)
  if constexpr (sizeof(compute_t<S>) == sizeof(float)) {
    switch (in_register_radix(params.dim)) {
      case 4:
        return packed_spectrum_in_registers<S, 4>(params, begin, end, scratch);
      case 8:
        return packed_spectrum_in_registers<S, 8>(params, begin, end, scratch);
      case 16:
        return packed_spectrum_in_registers<S, 16>(params, begin, end, scratch);
      default:
        break;
    }
  }
#endif
  const auto rows = has_lanes(params.dim)                        ? packed_spectrum_lanes<S>
                    : has_matrix_lanes<compute_t<S>>(params.dim) ? packed_spectrum_matrix_lanes<S>
                                                                 : single_packed_spectrum_rows<S>;
  rows(params, begin, end, scratch);
}

// The half-length spectrum of a (*) b from a row of a and the packed spectrum of b, both times powers of two.
template <typename S, typename Engine>
void multiply_rows(const Engine& engine, Product product, const S* a, int exponent_a, const S* packed, int exponent_b,
                   typename Engine::Operand z) {
  constexpr int W = Engine::kWidth;
  engine.load(a, exponent_a, z);
  const auto* factors = staged_row(packed, engine.dim, exponent_b, engine.stage);
  if (product == Product::kConvolution) {
    multiply_packed<Product::kConvolution, W>(engine.plan, z, factors);
  } else {
    multiply_packed<Product::kCorrelation, W>(engine.plan, z, factors);
  }
}

template <typename S, typename Engine>
void scaled_bind_spectrum(const Engine& engine, Product product, const S* a, const S* packed,
                          typename Engine::Operand z, S* out) {
  int exponent_a = 0;
  int exponent_b = 0;
  const bool finite = row_exponent(engine, a, exponent_a);
  if (!row_exponent(engine, packed, exponent_b) || !finite) {
    return fill_nan(out, engine.dim);
  }
  multiply_rows(engine, product, a, exponent_a, packed, exponent_b, z);
  finish_scaled_row<S, Engine::kWidth>(engine.finish(product, z), engine.dim, exponent_a + exponent_b, false, 0, out);
}

template <typename S>
void single_bind_spectrum_rows(const SpectrumBindParams& params, int64_t begin, int64_t end, void* scratch) {
  with_native_engine<S>(params.dim, scratch, [&](const auto& engine, int64_t used) {
    const auto z = engine.operand(scratch, used);
    for (int64_t r = begin; r < end; ++r) {
      const S* a = static_cast<const S*>(params.a) + row_offset(params.map, 0, r);
      const S* packed = static_cast<const S*>(params.spectrum) + row_offset(params.map, 1, r);
      S* out = static_cast<S*>(params.out) + r * params.dim;
      multiply_rows(engine, params.product, a, 0, packed, 0, z);
      if (!try_finish_spectrum(engine, z, compute_t<S>{0}, false, 0, out)) {
        scaled_bind_spectrum(engine, params.product, a, packed, z, out);
      }
    }
  });
}

template <typename S, typename Lanes>
void bind_spectrum_lanes(const SpectrumBindParams& params, int64_t begin, int64_t end, void* scratch) {
  constexpr int W = Lanes::W;
  int64_t used = 0;
  const Lanes lanes(params.dim, scratch, used);
  const auto z = lanes.vectors(scratch, used);
  const auto factors = lanes.vectors(scratch, used);
  const auto group = [&](int64_t r, int64_t count) {
    const S* a[W];
    const S* packed[W];
    rows_of(params.map, 1, static_cast<const S*>(params.spectrum), r, count, packed);
    lanes.load(params.map, 0, params.a, r, count, a, z);
    lanes.load_packed(packed, factors);
    lanes.template multiply<false>(params.product, z, factors, z);
    return lanes.finish(z, static_cast<S*>(params.out) + r * params.dim, count);
  };
  void* const rest = Lanes::scratch_behind(params.dim, 2, scratch);
  for_rows<Lanes>(begin, end, group,
                  [&](int64_t first, int64_t last) { single_bind_spectrum_rows<S>(params, first, last, rest); });
}

template <typename S>
void bind_spectrum_rows(const SpectrumBindParams& params, int64_t begin, int64_t end, void* scratch) {
  const auto rows = has_lanes(params.dim)                        ? bind_spectrum_lanes<S, LaneRows<S>>
                    : has_matrix_lanes<compute_t<S>>(params.dim) ? bind_spectrum_lanes<S, MatrixLaneRows<S>>
                                                                 : single_bind_spectrum_rows<S>;
  rows(params, begin, end, scratch);
}

template <typename S>
constexpr RowKernel<PackedSpectrumParams> kPackedSpectrum = {
    [](const PackedSpectrumParams& params) { return params.dim; },
    [](const PackedSpectrumParams& params) {
      return LaneRows<S>::scratch_bytes(params.dim, 1) + MatrixLaneRows<S>::scratch_bytes(params.dim, 1) +
             row_spectrum_scratch<S>(params.dim, 1);
    },
    packed_spectrum_rows<S>};
template <typename S>
constexpr RowKernel<SpectrumBindParams> kBindSpectrum = {[](const SpectrumBindParams& params) { return params.dim; },
                                                         [](const SpectrumBindParams& params) {
                                                           return LaneRows<S>::scratch_bytes(params.dim, 2) +
                                                                  MatrixLaneRows<S>::scratch_bytes(params.dim, 2) +
                                                                  native_scratch_bytes<S>(params.dim, 1);
                                                         },
                                                         bind_spectrum_rows<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<PackedSpectrumParams>, kPackedSpectrum)
KERNEL_REGISTER_BY_STORAGE(RowKernel<SpectrumBindParams>, kBindSpectrum)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
