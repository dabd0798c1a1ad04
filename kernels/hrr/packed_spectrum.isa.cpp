// Packed spectra on the CPU; compiled once per instruction set.
#include "kernels/hrr/packed_spectrum.h"

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
// has the parts side by side; of those above it has their mirror images.
enum class PackedPart { kBelow, kAbove, kAcross };
template <typename T>
KERNEL_HOST_DEVICE PackedPart part_of(const MatrixPlan<T>& plan, int64_t p) {
  const int64_t first = plan.rows * p;
  return 2 * first > plan.dim                                    ? PackedPart::kAbove
         : first == 0 || 2 * (first + plan.rows - 1) >= plan.dim ? PackedPart::kAcross
                                                                 : PackedPart::kBelow;
}

// visit(i, place, sign) for the first lanes' bins: where the real part is, with the imaginary one behind it, times
// sign.
template <typename T, typename Visit>
KERNEL_HOST_DEVICE void for_packed_lanes(const MatrixPlan<T>& plan, int64_t p, int64_t from, const Visit& visit) {
  const int64_t first = plan.rows * p;
  switch (part_of(plan, p)) {
    case PackedPart::kBelow:
      for (int64_t i = from; i < plan.bins; ++i) {
        visit(i, packed_real(first + plan.bin[i]), T{1});
      }
      return;
    case PackedPart::kAbove:
      for (int64_t i = from; i < plan.bins; ++i) {
        visit(i, packed_real(plan.dim - first - plan.bin[i]), T{-1});
      }
      return;
    case PackedPart::kAcross:
      for (int64_t i = from; i < plan.bins; ++i) {
        const int64_t bin = plan.bin_of[p * plan.lanes + i];
        visit(i, packed_real(bin / 2), static_cast<T>(1 - 2 * (bin % 2)));
      }
  }
}

// row <- the packed bins of a spectrum, whose norm it returns. The first lane has its bins twice.
template <int W, typename T>
T pack(const MatrixPlan<T>& plan, Split<T> z, T* row) {
  for (int64_t p = 0; p < plan.columns; ++p) {
    const T* const re = z.re + p * plan.lanes;
    const T* const im = z.im + p * plan.lanes;
    const int64_t k = plan.rows * p;
    if (2 * k <= plan.dim) {
      row[packed_real(k)] = re[0];
      if (0 < k && 2 * k < plan.dim) {
        row[packed_imaginary(k)] = im[0];
      }
    }
    for_packed_lanes(plan, p, 1, [&](int64_t i, int64_t place, T sign) {
      row[place] = re[i];
      row[place + 1] = sign * im[i];
    });
  }
  return squared_norm<T, W>(plan, z);
}

// The numbers p lanes .. of the spectrum of a packed row.
template <typename T>
KERNEL_HOST_DEVICE void unpack_lanes(const MatrixPlan<T>& plan, const T* row, int64_t p, T* re, T* im) {
  for_packed_lanes(plan, p, 1, [&](int64_t i, int64_t place, T sign) {
    re[i] = row[place];
    im[i] = sign * row[place + 1];
  });
  const int64_t bin = plan.bin_of[p * plan.lanes];
  const int64_t k = bin / 2;
  re[0] = row[packed_real(k)];
  im[0] = 0 < k && 2 * k < plan.dim ? static_cast<T>(1 - 2 * (bin % 2)) * row[packed_imaginary(k)] : T{0};
}

template <int W, typename T>
T unpack(const MatrixPlan<T>& plan, const T* row, Split<T> z) {
  for (int64_t p = 0; p < plan.columns; ++p) {
    T* const re = z.re + p * plan.lanes;
    T* const im = z.im + p * plan.lanes;
    unpack_lanes(plan, row, p, re, im);
    for (int64_t i = plan.bins; i < plan.lanes; ++i) {
      re[i] = 0;
      im[i] = 0;
    }
  }
  for (int64_t q = plan.size; q < plan.numbers; ++q) {
    z.re[q] = 0;
    z.im[q] = 0;
  }
  return squared_norm<T, W>(plan, z);
}

template <Product kProduct, int W, typename T>
void multiply_packed(const MatrixPlan<T>& plan, Split<T> z, const T* packed) {
  T re[kMaxMatrixLanes];
  T im[kMaxMatrixLanes];
  for (int64_t p = 0; p < plan.columns; ++p) {
    unpack_lanes(plan, packed, p, re, im);
    for (int64_t i = 0; i < plan.bins; ++i) {
      const int64_t q = p * plan.lanes + i;
      const Complex<T> bin = product_of_bins<kProduct>(Complex<T>{z.re[q], z.im[q]}, Complex<T>{re[i], im[i]});
      z.re[q] = bin.re;
      z.im[q] = bin.im;
    }
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

template <typename S, typename Engine>
void packed_spectrum_rows_with(const Engine& engine, int64_t used, const PackedSpectrumParams& params, int64_t begin,
                               int64_t end, void* scratch) {
  const auto z = engine.operand(scratch, used);
  for (int64_t r = begin; r < end; ++r) {
    const S* in = static_cast<const S*>(params.in) + row_offset(params.map, 0, r);
    S* out = static_cast<S*>(params.out) + r * params.dim;
    if (transform_row(engine, in, params.inverse, false, 0, z, out)) {
      continue;
    }
    int exponent = 0;
    if (row_exponent(engine, in, exponent)) {
      transform_row(engine, in, params.inverse, true, exponent, z, out);
    } else {
      fill_nan(out, engine.dim);
    }
  }
}

template <typename S>
void packed_spectrum_rows(const PackedSpectrumParams& params, int64_t begin, int64_t end, void* scratch) {
  with_spectrum_engine<S>(params.dim, scratch, [&](const auto& engine, int64_t used) {
    packed_spectrum_rows_with<S>(engine, used, params, begin, end, scratch);
  });
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
void bind_spectrum_rows(const SpectrumBindParams& params, int64_t begin, int64_t end, void* scratch) {
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
constexpr RowKernel<PackedSpectrumParams> kPackedSpectrum = {
    [](const PackedSpectrumParams& params) { return params.dim; },
    [](const PackedSpectrumParams& params) { return row_spectrum_scratch<S>(params.dim, 1); }, packed_spectrum_rows<S>};
template <typename S>
constexpr RowKernel<SpectrumBindParams> kBindSpectrum = {
    [](const SpectrumBindParams& params) { return params.dim; },
    [](const SpectrumBindParams& params) { return native_scratch_bytes<S>(params.dim, 1); }, bind_spectrum_rows<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<PackedSpectrumParams>, kPackedSpectrum)
KERNEL_REGISTER_BY_STORAGE(RowKernel<SpectrumBindParams>, kBindSpectrum)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
