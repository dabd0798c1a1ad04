// Spectral maps of rows and of a library's bins, and products of many rows, on the CPU; compiled once per instruction
// set.
#include "kernels/hrr/spectral_map.h"

#include "kernels/lane_math.h"

#include "kernels/hrr/bin_maps.h"
#include "kernels/hrr/families.h"
#include "kernels/hrr/row_spectrum.h"

namespace torch_hrr::kernels {
HRR_ISA_BEGIN
namespace {

constexpr int kMapLanes = kVectorBytes / static_cast<int>(sizeof(double));

template <typename T>
HRR_HOST_DEVICE DoubleLanes<kMapLanes> load_wide(const T* source) {
  if constexpr (sizeof(T) == sizeof(double)) {
    return DoubleLanes<kMapLanes>::load(source);
  } else {
    using Lanes = typename DoubleLanes<kMapLanes>::Lanes;
    return {__builtin_convertvector(Simd<T, kMapLanes>::load(source).lanes, Lanes)};
  }
}
template <typename T>
HRR_HOST_DEVICE void store_wide(DoubleLanes<kMapLanes> value, T* target) {
  if constexpr (sizeof(T) == sizeof(double)) {
    value.store(target);
  } else {
    using Lanes = typename Simd<T, kMapLanes>::Lanes;
    Simd<T, kMapLanes>{__builtin_convertvector(value.lanes, Lanes)}.store(target);
  }
}

// a <- map(a, v) for the bins 0 .. last. Arrays reach a vector beyond the last bin.
template <SpectralMap kMap, typename T>
void map_bins(Split<T> a, Split<T> v, int64_t last, double factor, double share, const BinScalars& row) {
  using L = DoubleLanes<kMapLanes>;
  const L scale = L::broadcast(factor);
  // What the inverse transform multiplies by is divided out where bins may still be beyond T.
  const L after = L::broadcast(share);
  for (int64_t k = 0; k <= last; k += kMapLanes) {
    const Complex<L> bin{load_wide(a.re + k) * scale, load_wide(a.im + k) * scale};
    Complex<L> direction{L::broadcast(0), L::broadcast(0)};
    if constexpr (takes_direction(kMap)) {
      direction = {load_wide(v.re + k), load_wide(v.im + k)};
    }
    const Complex<L> result = map_bin<kMap>(bin, direction, row);
    store_wide(result.re * after, a.re + k);
    store_wide(result.im * after, a.im + k);
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
  for (int64_t i = last + 1; i < last + kMapLanes; ++i) {
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
  const int exponent = bin_exponent(norm_squared);
  const double epsilon = static_cast<double>(std::numeric_limits<compute_t<S>>::epsilon());
  const int scale = exponent - scale_a;
  const ScaledEps eps = scaled_eps(row.eps, scale);
  const BinScalars scalars = bin_scalars(scale_by_power(norm_squared, -2 * exponent), spectrum.dim, epsilon, eps.eps,
                                         row.exponent, scale, row.order);
  with_map(row.kind, [&](auto kind) {
    map_bins<decltype(kind)::value>(a, v, spectrum.last_bin(), scale_by_power(1, -exponent), spectrum.share(), scalars);
  });
  spectrum.invert(a);
  spectrum.store(
      mapped_scale(row.kind, scale) - (row.v != nullptr ? scale_v : 0) - (divides_by_eps(row.kind) ? eps.shift : 0),
      out);
  return true;
}

template <typename S, typename Spectrum>
void careful_map_row(const Spectrum& spectrum, const MapRow<S>& row, typename Spectrum::Operand a,
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
        careful_map_row(spectrum, row, a, v, out);
      }
    }
  });
}

// The product as it stands; false, with nothing written, if it leaves the safe range on the way.
template <typename S, typename Engine>
bool try_multibind_row(const Engine& engine, const S* vectors, int64_t items, int64_t stride,
                       typename Engine::Operand product, typename Engine::Operand item, S* out) {
  using T = compute_t<S>;
  constexpr int W = Engine::kWidth;
  engine.load(vectors, 0, product);
  T squared = squared_norm<T, W>(engine.plan, product);
  for (int64_t k = 1; k < items && safe_squared_norm(squared); ++k) {
    engine.load(vectors + k * stride, 0, item);
    squared = multiply_spectra<Product::kConvolution, true, T, W>(engine.plan, product, item, product);
  }
  if (!safe_squared_norm(squared)) {
    return false;
  }
  engine.inverse(product, T{1} / static_cast<T>(engine.points), engine.stage);
  narrow_row<S>(engine.stage, engine.dim, T{1}, out);
  return true;
}

template <typename S, typename Engine>
void careful_multibind_row(const Engine& engine, const S* vectors, int64_t items, int64_t stride,
                           typename Engine::Operand product, typename Engine::Operand item, S* out) {
  using T = compute_t<S>;
  constexpr int W = Engine::kWidth;
  // The product so far stands for product 2^-total.
  int64_t total = 0;
  bool finite = true;
  for (int64_t k = 0; k < items; ++k) {
    int exponent = 0;
    finite = row_exponent(engine, vectors + k * stride, exponent) && finite;
    engine.load(vectors + k * stride, exponent, k == 0 ? product : item);
    total += exponent;
    const T squared = k == 0 ? squared_norm<T, W>(engine.plan, product)
                             : multiply_spectra<Product::kConvolution, true, T, W>(engine.plan, product, item, product);
    const int shift = unit_exponent(static_cast<double>(squared)) / 2;
    scale_row(product.re, engine.points + 1, shift);
    scale_row(product.im, engine.points + 1, shift);
    total += shift;
  }
  if (!finite) {
    return fill_nan(out, engine.dim);
  }
  engine.inverse(product, T{1} / static_cast<T>(engine.points), engine.stage);
  rescale_row(engine.stage, engine.dim, -total);
  narrow_row<S>(engine.stage, engine.dim, T{1}, out);
}

// The product row by row, for lengths without bins of their own; with `scaled` every factor and product is brought near
// 1 by powers of two, else false, with nothing written, if a product leaves the safe range.
template <typename S, typename Engine>
bool fold_row(const Engine& engine, const S* vectors, int64_t items, int64_t stride, bool scaled,
              const typename Engine::Operand (&operands)[3], compute_t<S>* product, S* out) {
  using T = compute_t<S>;
  int64_t total = 0;
  const auto keep_in_range = [&] {
    if (!scaled) {
      return safe_squared_norm(dot<Engine::kWidth>(product, product, engine.dim));
    }
    const int shift = unit_exponent(largest_magnitude(product, engine.dim, 0));
    scale_row(product, engine.dim, shift);
    total += shift;
    return true;
  };
  widen_row<S>(vectors, engine.dim, product);
  if (!keep_in_range()) {
    return false;
  }
  for (int64_t k = 1; k < items; ++k) {
    int exponent = 0;
    if (scaled) {
      row_exponent(engine, vectors + k * stride, exponent);
    }
    total += exponent;
    engine.load_reals(product, operands[0]);
    engine.load(vectors + k * stride, exponent, operands[1]);
    engine.clear(operands[2]);
    engine.accumulate(Product::kConvolution, operands[0], operands[1], T{1}, operands[2]);
    const T* bound = engine.finish(Product::kConvolution, operands[2]);
    __builtin_memcpy(product, bound, static_cast<size_t>(engine.dim) * sizeof(T));
    if (!keep_in_range()) {
      return false;
    }
  }
  rescale_row(product, engine.dim, -total);
  narrow_row<S>(product, engine.dim, T{1}, out);
  return true;
}

template <typename S, typename Engine>
bool all_finite_rows(const Engine& engine, const S* vectors, int64_t items, int64_t stride) {
  for (int64_t k = 0; k < items; ++k) {
    if (!is_finite(largest_in(engine, vectors + k * stride, 0))) {
      return false;
    }
  }
  return true;
}

template <typename S>
void fold_rows(const MultibindParams& params, int64_t begin, int64_t end, void* scratch) {
  with_engine<S>(params.dim, scratch, [&](const auto& engine, int64_t used) {
    const typename std::remove_cvref_t<decltype(engine)>::Operand operands[3] = {
        engine.operand(scratch, used), engine.operand(scratch, used), engine.operand(scratch, used)};
    compute_t<S>* const product = aligned<compute_t<S>>(scratch, used, params.dim);
    for (int64_t r = begin; r < end; ++r) {
      const S* vectors = static_cast<const S*>(params.vectors) + row_offset(params.map, 0, r);
      S* out = static_cast<S*>(params.out) + r * params.dim;
      if (fold_row(engine, vectors, params.items, params.item_stride, false, operands, product, out)) {
        continue;
      }
      if (all_finite_rows(engine, vectors, params.items, params.item_stride)) {
        fold_row(engine, vectors, params.items, params.item_stride, true, operands, product, out);
      } else {
        fill_nan(out, engine.dim);
      }
    }
  });
}

// Interleaved bins of a library's transform, mapped in place.
template <SpectralMap kMap>
void map_library_row(double* bins, const double* v, int64_t count, const BinScalars& row) {
  using L = DoubleLanes<kMapLanes>;
  double block[4][kMapLanes];
  for (int64_t k = 0; k < count; k += kMapLanes) {
    const int64_t lanes = count - k < kMapLanes ? count - k : kMapLanes;
    for (int64_t i = 0; i < kMapLanes; ++i) {
      const bool exists = i < lanes;
      block[0][i] = exists ? bins[2 * (k + i)] : 0;
      block[1][i] = exists ? bins[2 * (k + i) + 1] : 0;
      block[2][i] = exists && takes_direction(kMap) ? v[2 * (k + i)] : 0;
      block[3][i] = exists && takes_direction(kMap) ? v[2 * (k + i) + 1] : 0;
    }
    const Complex<L> result =
        map_bin<kMap>(Complex<L>{L::load(block[0]), L::load(block[1])}, {L::load(block[2]), L::load(block[3])}, row);
    result.re.store(block[0]);
    result.im.store(block[1]);
    for (int64_t i = 0; i < lanes; ++i) {
      bins[2 * (k + i)] = block[0][i];
      bins[2 * (k + i) + 1] = block[1][i];
    }
  }
}

void map_library_rows(const LibraryBinsParams& params, int64_t begin, int64_t end, void*) {
  for (int64_t r = begin; r < end; ++r) {
    const BinScalars row = scalars_of(params, r);
    double* bins = params.bins + 2 * params.count * r;
    const double* v = params.v == nullptr ? nullptr : params.v + 2 * params.count * r;
    with_map(params.kind, [&](auto kind) { map_library_row<decltype(kind)::value>(bins, v, params.count, row); });
    bins[1] = 0;
    if (params.last_is_real) {
      bins[2 * params.count - 1] = 0;
    }
  }
}

template <typename S>
void multibind_rows(const MultibindParams& params, int64_t begin, int64_t end, void* scratch) {
  if (!cpu_has_native_bins(params.dim)) {
    return fold_rows<S>(params, begin, end, scratch);
  }
  with_native_engine<S>(params.dim, scratch, [&](const auto& engine, int64_t used) {
    const auto product = engine.operand(scratch, used);
    const auto item = engine.operand(scratch, used);
    for (int64_t r = begin; r < end; ++r) {
      const S* vectors = static_cast<const S*>(params.vectors) + row_offset(params.map, 0, r);
      S* out = static_cast<S*>(params.out) + r * params.dim;
      if (!try_multibind_row(engine, vectors, params.items, params.item_stride, product, item, out)) {
        careful_multibind_row(engine, vectors, params.items, params.item_stride, product, item, out);
      }
    }
  });
}

template <typename S>
int64_t spectral_scratch(int64_t dim) {
  return row_spectrum_scratch<S>(dim, 2);
}

template <typename S>
int64_t multibind_scratch(int64_t dim) {
  return cpu_has_native_bins(dim) ? native_scratch_bytes<S>(dim, 2) : scratch_bytes<S>(dim, 3, 1);
}

}  // namespace

template <typename S>
void add_spectral_maps(HrrKernels& kernels) {
  kernels.spectral_scratch = spectral_scratch<S>;
  kernels.spectral_map = spectral_map_rows<S>;
  kernels.multibind_scratch = multibind_scratch<S>;
  kernels.multibind = multibind_rows<S>;
  kernels.chirp_transform = chirp_transform;
  kernels.map_library_bins = map_library_rows;
}
template void add_spectral_maps<float>(HrrKernels&);
template void add_spectral_maps<double>(HrrKernels&);
template void add_spectral_maps<Half>(HrrKernels&);
template void add_spectral_maps<BFloat16>(HrrKernels&);

HRR_ISA_END
}  // namespace torch_hrr::kernels
