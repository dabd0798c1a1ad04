// Spectral maps of rows on the CPU; compiled once per instruction set.
#include "kernels/hrr/spectral_map.h"

#include "kernels/hrr/bin_maps.h"
#include "kernels/hrr/lane_rows.h"
#include "kernels/hrr/row_spectrum.h"
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

template <typename S>
struct MapRow {
  const S* a;
  const S* v;  // null where the map takes no direction
  const SpectralMapParams& params;
  double exponent;
};

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

// The row from inputs times 2^scale_a and 2^scale_v; false, with nothing written, if their plain transforms left the
// safe range (then the caller scales).
template <typename S, typename Spectrum>
bool map_row(const Spectrum& spectrum, const MapRow<S>& row, bool scaled, int scale_a, int scale_v,
             typename Spectrum::Operand a, typename Spectrum::Operand v, S* out) {
  const auto squared = spectrum.load(row.a, scale_a, a);
  if (!scaled && !safe_squared_norm(squared)) {
    return false;
  }
  clear_beyond(a, spectrum.last_bin());
  if (row.v != nullptr) {
    const auto squared_v = spectrum.load(row.v, scale_v, v);
    if (!scaled && !safe_squared_norm(squared_v) && !(squared_v == 0 && largest_in(spectrum, row.v, 0) == 0)) {
      return false;
    }
    clear_beyond(v, spectrum.last_bin());
  }
  // sum |A_k|^2 over all D bins is D norm2(a)^2; the mapped bins are near 1.
  const double norm_squared = spectrum.total(squared) / static_cast<double>(spectrum.dim);
  const RowMapping mapping = mapping_of<S>(row.params, row.exponent, norm_squared, -scale_a);
  with_map(row.params.kind, [&](auto kind) {
    map_bins<decltype(kind)::value>(a, v, spectrum.last_bin(), mapping.factor, spectrum.share(), mapping.scalars);
  });
  spectrum.invert(a);
  spectrum.store(mapping.exponent - (row.v != nullptr ? scale_v : 0), out);
  return true;
}

template <typename S, typename Spectrum>
void scaled_map_row(const Spectrum& spectrum, const MapRow<S>& row, typename Spectrum::Operand a,
                    typename Spectrum::Operand v, S* out) {
  int scale_a = 0;
  int scale_v = 0;
  bool finite = row_exponent(spectrum, row.a, scale_a);
  finite = (row.v == nullptr || row_exponent(spectrum, row.v, scale_v)) && finite;
  if (!finite) {
    return fill_nan(out, spectrum.dim);
  }
  map_row(spectrum, row, true, scale_a, scale_v, a, v, out);
}

double exponent_of(const SpectralMapParams& params, int64_t r) {
  return params.exponents == nullptr ? params.exponent : params.exponents[row_offset(params.map, 2, r)];
}

template <typename S>
void single_spectral_map_rows(const SpectralMapParams& params, int64_t begin, int64_t end, void* scratch) {
  with_spectrum_engine<S>(params.plan, params.dim, scratch, [&](const auto& engine, int64_t used) {
    const auto& spectrum = spectrum_of(engine);
    const auto a = spectrum.operand(scratch, used);
    const auto v = spectrum.operand(scratch, used);
    for (int64_t r = begin; r < end; ++r) {
      const S* direction = static_cast<const S*>(params.v);
      const MapRow<S> row{static_cast<const S*>(params.a) + row_offset(params.map, 0, r),
                          direction == nullptr ? nullptr : direction + row_offset(params.map, 1, r), params,
                          exponent_of(params, r)};
      S* out = static_cast<S*>(params.out) + r * params.dim;
      if (!map_row(spectrum, row, false, 0, 0, a, v, out)) {
        scaled_map_row(spectrum, row, a, v, out);
      }
    }
  });
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

template <typename S>
void spectral_map_lanes(const SpectralMapParams& params, int64_t begin, int64_t end, void* scratch) {
  using Lanes = LaneRows<S>;
  using T = compute_t<S>;
  constexpr int W = Lanes::W;
  int64_t used = 0;
  const Lanes lanes(params.dim, scratch, used);
  const auto a = lanes.vectors(scratch, used);
  const auto v = lanes.vectors(scratch, used);
  const double share = 1 / static_cast<double>(lanes.plan.points);
  const auto load = [&](int operand, const void* base, int64_t r, int64_t count, typename Lanes::Vectors bins,
                        const S*(&rows)[W]) {
    lanes.load(params.map, operand, base, r, count, rows, bins);
    return lanes.pack(bins);
  };
  LaneMappings<T> mappings;
  const auto group = [&](int64_t r, int64_t count) {
    const S* rows[W];
    const auto squared = load(0, params.a, r, count, a, rows);
    uint32_t beyond = unsafe_lanes(squared);
    if (params.v != nullptr) {
      const auto squared_v = load(1, params.v, r, count, v, rows);
      const uint32_t unsafe_v = unsafe_lanes(squared_v);
      for (int64_t lane = 0; unsafe_v != 0 && lane < W; ++lane) {
        const bool zero = squared_v.lanes[lane] == 0 && lanes.is_zero(rows[lane]);
        beyond |= zero ? 0u : unsafe_v & 1u << lane;
      }
    }
    for (int64_t lane = 0; lane < W; ++lane) {
      const double norm_squared = (beyond >> lane & 1) != 0 ? 1 : static_cast<double>(squared.lanes[lane]) * share;
      if (!mappings.set(lane,
                        mapping_of<S>(params, exponent_of(params, r + (lane < count ? lane : 0)), norm_squared, 0))) {
        beyond |= 1u << lane;
      }
    }
    with_map(params.kind,
             [&](auto kind) { map_lanes<decltype(kind)::value>(a, v, params.dim, count, share, mappings); });
    lanes.unpack(a);
    lanes.finish(a, mappings.scale, static_cast<S*>(params.out) + r * params.dim, count);
    return beyond;
  };
  for_groups<W>(begin, end, group, [&](int64_t r, int64_t) {
    single_spectral_map_rows<S>(params, r, r + 1, scratch_behind<Lanes>(params.dim, 2, scratch));
  });
}

template <typename S>
void spectral_map_rows(const SpectralMapParams& params, int64_t begin, int64_t end, void* scratch) {
  const auto rows = params.plan.group == RowGroup::kLanes ? spectral_map_lanes<S> : single_spectral_map_rows<S>;
  rows(params, begin, end, scratch);
}

template <typename S>
constexpr RowKernel<SpectralMapParams> kSpectralMap = {[](const SpectralMapParams& params) { return params.dim; },
                                                       [](const SpectralMapParams& params) {
                                                         return lane_bytes<S>(params.plan.group, params.dim, 2) +
                                                                row_spectrum_scratch<S>(params.plan, params.dim, 2);
                                                       },
                                                       spectral_map_rows<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<SpectralMapParams>, kSpectralMap)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
