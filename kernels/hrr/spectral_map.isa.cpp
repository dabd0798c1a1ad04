// Spectral maps of rows on the CPU; compiled once per instruction set.
#include "kernels/hrr/spectral_map.h"

#include "kernels/hrr/bin_maps.h"
#include "kernels/hrr/row_groups.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

constexpr int kBinLanes = kVectorBytes / static_cast<int>(sizeof(double));
using L = Simd<double, kBinLanes>;

// a <- map(a, v) for the bins 0 .. last. Arrays reach a vector beyond the last bin.
template <SpectralMap kMap, typename T>
void map_bins(Split<T> a, Split<T> v, int64_t last, double factor, double share, const BinScalars& row) {
  const L scale = L::broadcast(factor);
  // What the inverse transform multiplies by is divided out where bins may still be beyond T.
  const L after = L::broadcast(share);
  for (int64_t k = 0; k <= last; k += kBinLanes) {
    const Complex<L> bin{load_as<L>(a.re + k) * scale, load_as<L>(a.im + k) * scale};
    Complex<L> direction{L::broadcast(0), L::broadcast(0)};
    if constexpr (takes_direction(kMap)) {
      direction = {load_as<L>(v.re + k), load_as<L>(v.im + k)};
    }
    const Complex<L> result = map_bin<kMap>(bin, direction, row);
    store_as(result.re * after, a.re + k);
    store_as(result.im * after, a.im + k);
  }
}

// How a row is mapped, from norm2^2 of the row times 2^-row_exponent.
template <typename S>
RowMapping mapping_of(const SpectralMapParams& params, double exponent, double norm_squared, int row_exponent) {
  return row_mapping(params.kind, norm_squared, row_exponent, params.dim,
                     static_cast<double>(std::numeric_limits<compute_t<S>>::epsilon()), params.eps, exponent,
                     params.order);
}

// Lanes beyond the last bin hold zeros, which every map takes.
template <typename T>
void clear_beyond(Split<T> z, int64_t last) {
  for (int64_t i = last + 1; i < last + kBinLanes; ++i) {
    z.re[i] = 0;
    z.im[i] = 0;
  }
}

// The mappings of rows side by side. T is the compute type.
template <typename T>
struct LaneMappings {
  static constexpr int W = kLanes<T>;
  // A result near 1 times 2^e is a normal number of T for |e| up to this.
  static constexpr int kMaxExponent = std::numeric_limits<T>::max_exponent - 28;

  alignas(64) double factor[W];
  alignas(64) double threshold[W];
  alignas(64) double eps[W];
  alignas(64) double exponent[W];
  alignas(64) double ln_scale[W];
  T scale[W];
  int32_t order;

  // False for a row whose results may leave the range of T.
  bool set(int64_t lane, const RowMapping& mapping) {
    factor[lane] = mapping.factor;
    threshold[lane] = mapping.scalars.threshold;
    eps[lane] = mapping.scalars.eps;
    exponent[lane] = mapping.scalars.exponent;
    ln_scale[lane] = mapping.scalars.ln_scale;
    order = mapping.scalars.order;
    const bool near = -kMaxExponent <= mapping.exponent && mapping.exponent <= kMaxExponent;
    scale[lane] = static_cast<T>(scale_by_power(1, near ? mapping.exponent : 0));
    return near;
  }
  BinScalarsOf<L> from(int lane) const {
    return {L::load(threshold + lane), L::load(eps + lane), L::load(exponent + lane), L::load(ln_scale + lane), order};
  }
};

// a <- map(a, v) for the packed bins 0 .. D/2 of `count` rows of `dim` numbers, as LaneRows::pack leaves them; v is not
// read where the map takes no direction.
template <SpectralMap kMap, typename T>
void map_lanes(Split<T> a, Split<T> v, int64_t dim, int64_t count, double share, const LaneMappings<T>& rows) {
  constexpr int W = kLanes<T>;
  const L zero = L::broadcast(0);
  const L after = L::broadcast(share);
  for (int64_t k = 0; 2 * k <= dim; ++k) {
    // A_0 stands in place of its imaginary part; neither it nor A_{D/2} has one.
    const bool real = k == 0 || 2 * k == dim;
    T* const re = (k == 0 ? a.im : a.re) + k * W;
    T* const im = a.im + k * W;
    const T* const re_v = (k == 0 ? v.im : v.re) + k * W;
    for (int lane = 0; lane < count; lane += kBinLanes) {
      const L scale = L::load(rows.factor + lane);
      const Complex<L> bin{load_as<L>(re + lane) * scale, real ? zero : load_as<L>(im + lane) * scale};
      Complex<L> direction{zero, zero};
      if constexpr (takes_direction(kMap)) {
        direction = {load_as<L>(re_v + lane), real ? zero : load_as<L>(v.im + k * W + lane)};
      }
      const Complex<L> result = map_bin<kMap>(bin, direction, rows.from(lane));
      store_as(result.re * after, re + lane);
      if (!real) {
        store_as(result.im * after, im + lane);
      }
    }
  }
}

template <typename S, typename Engine>
struct MapRows {
  using Spectrum = BinsOf<Engine>;
  using Operand = typename Spectrum::Operand;
  using Sum = typename Spectrum::Sum;
  static constexpr int kRows = Spectrum::kRows;

  const Engine& engine;
  const Spectrum spectrum;
  const SpectralMapParams& params;
  Operand a;
  Operand v;

  MapRows(const Engine& the_engine, const SpectralMapParams& the_params, void* scratch, int64_t& used)
      : engine(the_engine),
        spectrum(bins_of(engine)),
        params(the_params),
        a(spectrum.operand(scratch, used)),
        v(spectrum.operand(scratch, used)) {}

  double exponent(int64_t r) const {
    return params.exponents == nullptr ? params.exponent : params.exponents[row_offset(params.map, 2, r)];
  }
  // The bins of rows as they stand. Adds to a mask those that leave the safe range, but for rows of zeros if they
  // may be.
  Sum load(int operand, const void* base, int64_t r, int64_t count, bool may_be_zero, Operand bins,
           uint32_t& beyond) const {
    const S* rows[kRows];
    rows_of(params.map, operand, base, r, count, rows);
    Sum squared;
    if constexpr (kRows > 1) {
      engine.load(rows, bins);
      squared = engine.pack(bins);
    } else {
      squared = spectrum.load(rows[0], 0, bins);
    }
    const uint32_t unsafe = unsafe_rows(squared);
    for (int64_t row = 0; unsafe != 0 && row < kRows; ++row) {
      const bool zero = may_be_zero && of_row(squared, row) == 0 && largest_in(engine, rows[row]) == 0;
      beyond |= zero ? 0u : unsafe & 1u << row;
    }
    return squared;
  }

  uint32_t group(int64_t r, int64_t count) const {
    uint32_t beyond = 0;
    const Sum squared = load(0, params.a, r, count, false, a, beyond);
    if (params.v != nullptr && (kRows > 1 || beyond == 0)) {
      load(1, params.v, r, count, true, v, beyond);
    }
    if constexpr (kRows > 1) {
      return map_side_by_side(squared, r, count, beyond);
    } else {
      if (beyond == 0) {
        map(squared, 0, 0, r);
      }
      return beyond;
    }
  }

  uint32_t map_side_by_side(const Sum& squared, int64_t r, int64_t count, uint32_t beyond) const {
    LaneMappings<compute_t<S>> mappings;
    const double share = 1 / static_cast<double>(engine.points());
    for (int64_t lane = 0; lane < kRows; ++lane) {
      const double norm_squared = (beyond >> lane & 1) != 0 ? 1 : static_cast<double>(of_row(squared, lane)) * share;
      const int64_t row = r + (lane < count ? lane : 0);
      if (!mappings.set(lane, mapping_of<S>(params, exponent(row), norm_squared, 0))) {
        beyond |= 1u << lane;
      }
    }
    with_map(params.kind,
             [&](auto kind) { map_lanes<decltype(kind)::value>(a, v, params.dim, count, share, mappings); });
    engine.unpack(a);
    engine.finish(a, mappings.scale, result_row<S>(params.out, r, params.dim), count, params.dim, true);
    return beyond;
  }

  // A row from bins times 2^scale_a and 2^scale_v, the first of which have the squares `squared`.
  void map(Sum squared, int scale_a, int scale_v, int64_t r) const {
    const int64_t last = spectrum.last_bin();
    clear_beyond(a, last);
    if (params.v != nullptr) {
      clear_beyond(v, last);
    }
    const RowMapping mapping = mapping_of<S>(params, exponent(r), spectrum.norm_squared(squared), -scale_a);
    with_map(params.kind, [&](auto kind) {
      map_bins<decltype(kind)::value>(a, v, last, mapping.factor, spectrum.share(), mapping.scalars);
    });
    spectrum.invert(a);
    spectrum.put(mapping.exponent - scale_v, result_row<S>(params.out, r, params.dim));
  }
  void scaled(int64_t r) const {
    const S* const row = operand_row<S>(params.a, params.map, 0, r);
    int scale_a = 0;
    int scale_v = 0;
    bool finite = row_exponent(engine, row, scale_a);
    if (params.v != nullptr) {
      const S* const direction = operand_row<S>(params.v, params.map, 1, r);
      finite = row_exponent(engine, direction, scale_v) && finite;
      if (finite) {
        spectrum.load(direction, scale_v, v);
      }
    }
    if (!finite) {
      return fill_nan(result_row<S>(params.out, r, params.dim), params.dim);
    }
    map(spectrum.load(row, scale_a, a), scale_a, scale_v, r);
  }
};

template <typename S>
constexpr RowKernel<SpectralMapParams> kSpectralMap = {
    [](const SpectralMapParams& params) { return params.dim; },
    [](const SpectralMapParams& params) {
      return lane_bytes<S>(params.plan.group, params.dim, 2) + bins_scratch_bytes<S>(params.plan, params.dim, 2);
    },
    rows_by_plan<MapRows, Engines::kBins, false, S, SpectralMapParams>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<SpectralMapParams>, kSpectralMap)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
