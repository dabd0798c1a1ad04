// Spectral maps of rows on the CPU; compiled once per instruction set.
#include "kernels/hrr/spectral_map.h"

#include "kernels/hrr/bin_maps.h"
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
  SpectralMap kind;
  double eps;
  double exponent;
  int32_t order;
};

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
  const RowMapping mapping =
      row_mapping(row.kind, norm_squared, -scale_a, spectrum.dim,
                  static_cast<double>(std::numeric_limits<compute_t<S>>::epsilon()), row.eps, row.exponent, row.order);
  with_map(row.kind, [&](auto kind) {
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

template <typename S>
void spectral_map_rows(const SpectralMapParams& params, int64_t begin, int64_t end, void* scratch) {
  with_spectrum_engine<S>(params.dim, scratch, [&](const auto& engine, int64_t used) {
    const auto& spectrum = spectrum_of(engine);
    const auto a = spectrum.operand(scratch, used);
    const auto v = spectrum.operand(scratch, used);
    for (int64_t r = begin; r < end; ++r) {
      const S* direction = static_cast<const S*>(params.v);
      const MapRow<S> row{
          static_cast<const S*>(params.a) + row_offset(params.map, 0, r),
          direction == nullptr ? nullptr : direction + row_offset(params.map, 1, r),
          params.kind,
          params.eps,
          params.exponents == nullptr ? params.exponent : params.exponents[row_offset(params.map, 2, r)],
          params.order};
      S* out = static_cast<S*>(params.out) + r * params.dim;
      if (!map_row(spectrum, row, false, 0, 0, a, v, out)) {
        scaled_map_row(spectrum, row, a, v, out);
      }
    }
  });
}

template <typename S>
constexpr RowKernel<SpectralMapParams> kSpectralMap = {
    [](const SpectralMapParams& params) { return params.dim; },
    [](const SpectralMapParams& params) { return row_spectrum_scratch<S>(params.dim, 2); }, spectral_map_rows<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<SpectralMapParams>, kSpectralMap)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
