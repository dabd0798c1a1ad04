// Packed spectra on the CPU; compiled once per instruction set.
#include "kernels/hrr/packed_spectrum.h"

#include "kernels/hrr/lane_rows.h"
#include "kernels/hrr/row_spectrum.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// Interleaves two vectors from their last lanes to their first, and back.
struct InterleaveReversedLow {
  static constexpr int of(int j, int w) {
    return w - 1 - j / 2 + (j % 2) * w;
  }
};
struct InterleaveReversedHigh {
  static constexpr int of(int j, int w) {
    return w / 2 - 1 - j / 2 + (j % 2) * w;
  }
};
struct ReversedEvenLanes {
  static constexpr int of(int j, int w) {
    return 2 * (w - 1 - j);
  }
};
struct ReversedOddLanes {
  static constexpr int of(int j, int w) {
    return 2 * (w - 1 - j) + 1;
  }
};

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
  const V low = V::load(bins);
  const V high = V::load(bins + W);
  const V mirror_low = V::load(mirrors);
  const V mirror_high = V::load(mirrors + W);
  return {{shuffle<EvenLanes>(low, high), shuffle<OddLanes>(low, high)},
          {shuffle<ReversedEvenLanes>(mirror_low, mirror_high), shuffle<ReversedOddLanes>(mirror_low, mirror_high)}};
}
template <typename T, int W>
KERNEL_HOST_DEVICE void spread_pairs(const PairLanes<T, W>& pair, T* bins, T* mirrors) {
  shuffle<InterleaveLow>(pair.k.re, pair.k.im).store(bins);
  shuffle<InterleaveHigh>(pair.k.re, pair.k.im).store(bins + W);
  shuffle<InterleaveReversedLow>(pair.mirror.re, pair.mirror.im).store(mirrors);
  shuffle<InterleaveReversedHigh>(pair.mirror.re, pair.mirror.im).store(mirrors + W);
}
template <typename T, int W>
KERNEL_HOST_DEVICE PairLanes<T, W> load_packed(const T* row, int64_t points, int64_t k, const Simd<T, W>&) {
  const T* mirrors = row + 2 * (points - k - W) + 1;
  if (k > 0) {
    return pairs_of<T, W>(row + 2 * k - 1, mirrors);
  }
  T first[2 * W];
  T last[2 * W];
  first[0] = row[0];
  first[1] = 0;
  __builtin_memcpy(first + 2, row + 1, (2 * W - 2) * sizeof(T));
  __builtin_memcpy(last, mirrors, (2 * W - 1) * sizeof(T));
  last[2 * W - 1] = 0;
  return pairs_of<T, W>(first, last);
}
template <typename T, int W>
KERNEL_HOST_DEVICE void store_packed(T* row, int64_t points, int64_t k, const PairLanes<T, W>& pair) {
  T* mirrors = row + 2 * (points - k - W) + 1;
  if (k > 0) {
    return spread_pairs<T, W>(pair, row + 2 * k - 1, mirrors);
  }
  T first[2 * W];
  T last[2 * W];
  spread_pairs<T, W>(pair, first, last);
  row[0] = first[0];
  __builtin_memcpy(row + 1, first + 2, (2 * W - 2) * sizeof(T));
  __builtin_memcpy(mirrors, last, (2 * W - 1) * sizeof(T));
}

// sum |Z|^2 of pairs as they come, the first point twice: for the question whether squares stay in range.
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
  for_pairs<T, W>(half_row, [&](int64_t k, const auto& w, const auto& half) {
    const auto pair = load_like(z, points, k, half);
    sum.add(pair);
    store_packed(row, points, k, bins_of_pair(pair, w, half));
  });
  if (points % 2 != 0) {
    return sum.total();
  }
  const Complex<T> middle{z.re[points / 2], z.im[points / 2]};
  row[points - 1] = middle.re;
  row[points] = -middle.im;
  return inner_of_half(middle, middle, sum.total());
}

// Z <- the half-length spectrum of a packed row; returns sum |Z|^2
template <int W, typename T>
T unpack(const HalfRow<T>& half_row, const T* row, Split<T> z) {
  const int64_t points = half_row.size;
  SquaredSum<T, W> sum;
  for_pairs<T, W>(half_row, [&](int64_t k, const auto& w, const auto& half) {
    const auto pair = pair_of_bins(load_packed(row, points, k, half), w, half);
    sum.add(pair);
    store_like(z, points, k, pair);
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

// The numbers p lanes .. of a matrix' spectrum stand for the bins k = bin[i] + R p. Of those below D/2 the packed row
// has the parts side by side; of those above it has their mirror images. Whether there are some of both, or bin 0,
// which has one part.
template <typename T>
KERNEL_HOST_DEVICE bool lies_across(const MatrixPlan<T>& plan, int64_t p) {
  const int64_t first = plan.rows * p;
  return first == 0 || (2 * first <= plan.dim && 2 * (first + plan.rows - 1) >= plan.dim);
}

// Where the packed row has the parts of lanes that do not lie across D/2, and what the imaginary ones are multiplied
// by.
template <typename Element, typename T>
struct PackedLanes {
  Element* begin;
  int64_t step;
  T sign;

  KERNEL_HOST_DEVICE PackedLanes(const MatrixPlan<T>& plan, int64_t p, Element* row) {
    const int64_t first = plan.rows * p;
    const bool above = 2 * first > plan.dim;
    begin = row + packed_real(above ? plan.dim - first : first);
    step = above ? -2 : 2;
    sign = above ? T{-1} : T{1};
  }
  KERNEL_HOST_DEVICE Element* at(const MatrixPlan<T>& plan, int64_t i) const {
    return begin + step * plan.bin[i];
  }
};

// Divides the lanes of every plan.
constexpr int kPackedWidth = 4;

// Two floats go as a double's bytes.
typedef double PairsOfFloat __attribute__((vector_size(2 * sizeof(double))));

// The lanes of a plan, with a bound that the compiler sees.
template <typename T>
KERNEL_HOST_DEVICE int64_t lanes_of_plan(const MatrixPlan<T>& plan) {
  return plan.lanes < kMaxMatrixLanes ? plan.lanes : kMaxMatrixLanes;
}

// visit(i, place, sign) for the lanes across D/2 but the first: where the row has the real part, with the imaginary one
// behind it, times sign.
template <typename T, typename Visit>
KERNEL_HOST_DEVICE void for_lanes_across(const MatrixPlan<T>& plan, int64_t p, const Visit& visit) {
  for (int64_t i = 1; i < plan.bins; ++i) {
    const int64_t bin = plan.bin_of[p * plan.lanes + i];
    visit(i, packed_real(bin / 2), static_cast<T>(1 - 2 * (bin % 2)));
  }
}

// Stores the first two lanes at `low`, the others at `high`, two numbers by one store.
template <typename T>
KERNEL_HOST_DEVICE void store_parted(Simd<T, kPackedWidth> value, T* low, T* high) {
  if constexpr (sizeof(T) == sizeof(double)) {
    low[0] = value.lanes[0];
    low[1] = value.lanes[1];
    high[0] = value.lanes[2];
    high[1] = value.lanes[3];
  } else {
    PairsOfFloat pairs;
    __builtin_memcpy(&pairs, &value.lanes, sizeof(pairs));
    const double first = pairs[0];
    const double second = pairs[1];
    __builtin_memcpy(low, &first, sizeof(double));
    __builtin_memcpy(high, &second, sizeof(double));
  }
}

// The packed bins of the numbers p lanes .. of a spectrum.
template <typename T>
KERNEL_HOST_DEVICE void pack_lanes(const MatrixPlan<T>& plan, int64_t p, const T* re, const T* im, T* row) {
  using V = Simd<T, kPackedWidth>;
  if (lies_across(plan, p)) {
    const int64_t k = plan.rows * p;
    if (2 * k <= plan.dim) {
      row[packed_real(k)] = re[0];
    }
    if (0 < k && 2 * k < plan.dim) {
      row[packed_imaginary(k)] = im[0];
    }
    return for_lanes_across(plan, p, [&](int64_t i, int64_t place, T turned) {
      row[place] = re[i];
      row[place + 1] = turned * im[i];
    });
  }
  const PackedLanes<T, T> lanes(plan, p, row);
  const V sign = V::broadcast(lanes.sign);
  const auto interleaved = [&](int64_t i, const auto& store_vectors) {
    const V real = V::load(re + i);
    const V imaginary = V::load(im + i) * sign;
    store_vectors(shuffle<InterleaveLow>(real, imaginary), shuffle<InterleaveHigh>(real, imaginary));
  };
  int64_t i = 0;
  for (; i + kPackedWidth <= plan.bins; i += kPackedWidth) {
    interleaved(i, [&](V low, V high) {
      store_parted(low, lanes.at(plan, i), lanes.at(plan, i + 1));
      store_parted(high, lanes.at(plan, i + 2), lanes.at(plan, i + 3));
    });
  }
  if (i < plan.bins) {
    T pairs[2 * kPackedWidth];
    interleaved(i, [&](V low, V high) {
      low.store(pairs);
      high.store(pairs + kPackedWidth);
    });
    for (const T* pair = pairs; i < plan.bins; ++i, pair += 2) {
      __builtin_memcpy(lanes.at(plan, i), pair, 2 * sizeof(T));
    }
  }
}

// row <- the packed bins of a spectrum, whose norm it returns. The first lane has its bins twice, of which the last
// stays.
template <int W, typename T>
T pack(const MatrixPlan<T>& plan, Split<T> z, T* row) {
  for (int64_t p = 0; p < plan.columns; ++p) {
    pack_lanes(plan, p, z.re + p * plan.lanes, z.im + p * plan.lanes, row);
  }
  return squared_norm<T, W>(plan, z);
}

// The two numbers at `low`, then those at `high`, two by one load.
template <typename T>
KERNEL_HOST_DEVICE Simd<T, kPackedWidth> joined(const T* low, const T* high) {
  Simd<T, kPackedWidth> result;
  if constexpr (sizeof(T) == sizeof(double)) {
    result.lanes = typename Simd<T, kPackedWidth>::Lanes{low[0], low[1], high[0], high[1]};
  } else {
    double first;
    double second;
    __builtin_memcpy(&first, low, sizeof(double));
    __builtin_memcpy(&second, high, sizeof(double));
    const PairsOfFloat pairs{first, second};
    __builtin_memcpy(&result.lanes, &pairs, sizeof(pairs));
  }
  return result;
}

// visit(i, numbers) for the numbers p lanes + i .. of the spectrum of a packed row, kPackedWidth at a time. Beyond the
// bins of a column they are those of its first lane or zeros: no transform takes them.
template <typename T, typename Visit>
KERNEL_HOST_DEVICE void for_packed_numbers(const MatrixPlan<T>& plan, const T* row, int64_t p, const Visit& visit) {
  using V = Simd<T, kPackedWidth>;
  if (!lies_across(plan, p)) {
    const PackedLanes<const T, T> lanes(plan, p, row);
    const V sign = V::broadcast(lanes.sign);
    for (int64_t i = 0; i < plan.lanes; i += kPackedWidth) {
      const V low = joined(lanes.at(plan, i), lanes.at(plan, i + 1));
      const V high = joined(lanes.at(plan, i + 2), lanes.at(plan, i + 3));
      visit(i, Complex<V>{shuffle<EvenLanes>(low, high), shuffle<OddLanes>(low, high) * sign});
    }
    return;
  }
  T re[kMaxMatrixLanes] = {};
  T im[kMaxMatrixLanes] = {};
  const int64_t bin = plan.bin_of[p * plan.lanes];
  const int64_t k = bin / 2;
  re[0] = row[packed_real(k)];
  im[0] = 0 < k && 2 * k < plan.dim ? static_cast<T>(1 - 2 * (bin % 2)) * row[packed_imaginary(k)] : T{0};
  for_lanes_across(plan, p, [&](int64_t i, int64_t place, T sign) {
    re[i] = row[place];
    im[i] = sign * row[place + 1];
  });
  for (int64_t i = 0; i < lanes_of_plan(plan); i += kPackedWidth) {
    visit(i, load_numbers<T, kPackedWidth>(Split<T>{re, im}, i));
  }
}

template <int W, typename T>
T unpack(const MatrixPlan<T>& plan, const T* row, Split<T> z) {
  for (int64_t p = 0; p < plan.columns; ++p) {
    for_packed_numbers(plan, row, p, [&](int64_t i, const auto& numbers) {
      store_numbers<T, kPackedWidth>(z, p * plan.lanes + i, numbers);
    });
  }
  for (int64_t q = plan.size; q < plan.numbers; ++q) {
    z.re[q] = 0;
    z.im[q] = 0;
  }
  return squared_norm<T, W>(plan, z);
}

template <Product kProduct, int W, typename T>
void multiply_packed(const MatrixPlan<T>& plan, Split<T> z, const T* packed) {
  for (int64_t p = 0; p < plan.columns; ++p) {
    for_packed_numbers(plan, packed, p, [&](int64_t i, const auto& numbers) {
      const int64_t q = p * plan.lanes + i;
      store_numbers<T, kPackedWidth>(z, q, product_of_bins<kProduct>(load_numbers<T, kPackedWidth>(z, q), numbers));
    });
  }
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
    const T squared = unpack<W>(engine.plan, staged_row(in, engine.dim, exponent, engine.stage), z);
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
    for (int64_t k = 0; k <= engine.last_bin(); ++k) {
      bins.re[k] = row[packed_real(k)] * share;
      bins.im[k] = 0 < k && 2 * k < dim ? row[packed_imaginary(k)] * share : T{0};
    }
    engine.invert(bins);
  } else {
    if (!safe_squared_norm(engine.load(in, exponent, bins)) && !scaled) {
      return false;
    }
    for (int64_t k = 0; k <= engine.last_bin(); ++k) {
      row[packed_real(k)] = bins.re[k];
      if (0 < k && 2 * k < dim) {
        row[packed_imaginary(k)] = bins.im[k];
      }
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
    const bool prefetch = prefetch_pays<S>(params.rows, params.dim, 1);
    for (int64_t r = begin; r < end; ++r) {
      const S* in = static_cast<const S*>(params.in) + row_offset(params.map, 0, r);
      S* out = static_cast<S*>(params.out) + r * params.dim;
      if (prefetch && r + 1 < end) {
        prefetch_row(static_cast<const S*>(params.in) + row_offset(params.map, 0, r + 1), params.dim);
      }
      if (!transform_row(engine, in, params.inverse, false, 0, z, out)) {
        scaled_transform_row(engine, in, params.inverse, z, out);
      }
    }
  });
}

template <typename S>
void packed_spectrum_lanes(const PackedSpectrumParams& params, int64_t begin, int64_t end, void* scratch) {
  using Lanes = LaneRows<S>;
  constexpr int W = Lanes::W;
  int64_t used = 0;
  const Lanes lanes(params.dim, scratch, used);
  const auto z = lanes.vectors(scratch, used);
  const auto group = [&](int64_t r, int64_t count) {
    const S* rows[W];
    Lanes::rows_of(params.map, 0, static_cast<const S*>(params.in), r, count, rows);
    S* const out = static_cast<S*>(params.out) + r * params.dim;
    if (params.inverse) {
      lanes.load_packed(rows, z);
    } else {
      lanes.load(rows, z);
    }
    const uint32_t unsafe = unsafe_lanes(lanes.squared(z));
    if (params.inverse) {
      lanes.finish(z, out, count);
    } else {
      lanes.store_packed(z, out, count);
    }
    return unsafe;
  };
  for_groups<W>(begin, end, group, [&](int64_t r, int64_t) {
    single_packed_spectrum_rows<S>(params, r, r + 1, Lanes::scratch_behind(params.dim, 1, scratch));
  });
}

template <typename S>
void packed_spectrum_rows(const PackedSpectrumParams& params, int64_t begin, int64_t end, void* scratch) {
  const auto rows = has_lanes(params.dim) ? packed_spectrum_lanes<S> : single_packed_spectrum_rows<S>;
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

template <typename S>
void bind_spectrum_lanes(const SpectrumBindParams& params, int64_t begin, int64_t end, void* scratch) {
  using Lanes = LaneRows<S>;
  constexpr int W = Lanes::W;
  int64_t used = 0;
  const Lanes lanes(params.dim, scratch, used);
  const auto z = lanes.vectors(scratch, used);
  const auto factors = lanes.vectors(scratch, used);
  const auto group = [&](int64_t r, int64_t count) {
    const S* a[W];
    const S* packed[W];
    Lanes::rows_of(params.map, 1, static_cast<const S*>(params.spectrum), r, count, packed);
    lanes.load(params.map, 0, params.a, r, count, a, z);
    lanes.load_packed(packed, factors);
    lanes.template multiply<false>(params.product, z, factors, z);
    return lanes.finish(z, static_cast<S*>(params.out) + r * params.dim, count);
  };
  for_groups<W>(begin, end, group, [&](int64_t r, int64_t) {
    single_bind_spectrum_rows<S>(params, r, r + 1, Lanes::scratch_behind(params.dim, 2, scratch));
  });
}

template <typename S>
void bind_spectrum_rows(const SpectrumBindParams& params, int64_t begin, int64_t end, void* scratch) {
  const auto rows = has_lanes(params.dim) ? bind_spectrum_lanes<S> : single_bind_spectrum_rows<S>;
  rows(params, begin, end, scratch);
}

template <typename S>
constexpr RowKernel<PackedSpectrumParams> kPackedSpectrum = {
    [](const PackedSpectrumParams& params) { return params.dim; },
    [](const PackedSpectrumParams& params) {
      return LaneRows<S>::scratch_bytes(params.dim, 1) + row_spectrum_scratch<S>(params.dim, 1);
    },
    packed_spectrum_rows<S>};
template <typename S>
constexpr RowKernel<SpectrumBindParams> kBindSpectrum = {[](const SpectrumBindParams& params) { return params.dim; },
                                                         [](const SpectrumBindParams& params) {
                                                           return LaneRows<S>::scratch_bytes(params.dim, 2) +
                                                                  native_scratch_bytes<S>(params.dim, 1);
                                                         },
                                                         bind_spectrum_rows<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<PackedSpectrumParams>, kPackedSpectrum)
KERNEL_REGISTER_BY_STORAGE(RowKernel<SpectrumBindParams>, kBindSpectrum)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
