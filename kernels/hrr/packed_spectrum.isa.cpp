// Packed spectra on the CPU; compiled once per instruction set.
#include "kernels/hrr/packed_spectrum.h"

#include "kernels/hrr/in_register_spectrum.h"
#include "kernels/hrr/packed_rows.h"
#include "kernels/hrr/row_groups.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

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
    engine.inverse(z, T{1} / static_cast<T>(engine.points()), row);
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
  engine.put(-exponent, out);
  return true;
}

template <typename S, typename Engine>
struct PackedSpectrumRows {
  static constexpr int kRows = Engine::kRows;

  const Engine& engine;
  const PackedSpectrumParams& params;
  typename Engine::Operand z;

  PackedSpectrumRows(const Engine& the_engine, const PackedSpectrumParams& the_params, void* scratch, int64_t& used)
      : engine(the_engine), params(the_params), z(engine.operand(scratch, used)) {}

  uint32_t group(int64_t r, int64_t count) const {
    const S* rows[kRows];
    rows_of(params.map, 0, params.in, r, count, rows);
    S* const out = result_row<S>(params.out, r, params.dim);
    if constexpr (kRows == 1) {
      return transform_row(engine, rows[0], params.inverse, false, 0, z, out) ? 0 : 1;
    } else if (!params.inverse) {
      engine.load(rows, z);
      return engine.store_packed(z, rows[kRows - 1] + params.dim, out, count);
    } else {
      const uint32_t unsafe = engine.load_packed(rows, z);
      return unsafe | finish_exactly(engine, z, out, count, params.dim);
    }
  }
  void scaled(int64_t r) const {
    const S* const in = operand_row<S>(params.in, params.map, 0, r);
    S* const out = result_row<S>(params.out, r, params.dim);
    int exponent = 0;
    if (row_exponent(engine, in, exponent)) {
      transform_row(engine, in, params.inverse, true, exponent, z, out);
    } else {
      fill_nan(out, params.dim);
    }
  }
};

template <typename S, typename Lanes>
void packed_spectrum_groups(const PackedSpectrumParams& params, int64_t begin, int64_t end, void* scratch) {
  lane_rows<PackedSpectrumRows, Engines::kBins, S, Lanes>(params, begin, end, scratch);
}
template <typename S>
void single_packed_spectrum_rows(const PackedSpectrumParams& params, int64_t begin, int64_t end, void* scratch) {
  single_rows<PackedSpectrumRows, Engines::kBins, S>(params, begin, end, scratch);
}

// Up to 4 rows that are left go by vectors of 4: they would leave most lanes of a longer one empty.
template <typename S>
void packed_spectrum_lanes(const PackedSpectrumParams& params, int64_t begin, int64_t end, void* scratch) {
  constexpr int kFew = 4;
  constexpr int W = LaneRows<S>::W;
  const int64_t left = (end - begin) % W;
  const int64_t wide_end = W > kFew && left <= kFew ? end - left : end;
  if (begin < wide_end) {
    packed_spectrum_groups<S, LaneRows<S>>(params, begin, wide_end, scratch);
  }
  if (wide_end < end) {
    packed_spectrum_groups<S, LaneRows<S, kFew>>(params, wide_end, end, scratch);
  }
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
    S* const out = result_row<S>(params.out, r, kDim);
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
  for_groups<kRows>(begin, end, group,
                    [&](int64_t r, int64_t) { single_packed_spectrum_rows<S>(params, r, r + 1, scratch); });
}
#endif

template <typename S>
void packed_spectrum_rows(const PackedSpectrumParams& params, int64_t begin, int64_t end, void* scratch) {
  const RowGroup group = params.plan.group;
#if defined(__AVX512F__)
  if constexpr (sizeof(compute_t<S>) == sizeof(float)) {
    switch (group == RowGroup::kRegisters ? in_register_radix(params.dim) : 0) {
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
  const auto rows = group == RowGroup::kMatrixLanes ? packed_spectrum_groups<S, MatrixLaneRows<S>>
                    : group == RowGroup::kLanes     ? packed_spectrum_lanes<S>
                                                    : single_packed_spectrum_rows<S>;
  rows(params, begin, end, scratch);
}

template <typename S, typename Engine>
struct SpectrumBindRows {
  using Operand = typename Engine::Operand;
  static constexpr int kRows = Engine::kRows;

  const Engine& engine;
  const SpectrumBindParams& params;
  Operand z;
  Operand factors;  // of rows side by side

  SpectrumBindRows(const Engine& the_engine, const SpectrumBindParams& the_params, void* scratch, int64_t& used)
      : engine(the_engine),
        params(the_params),
        z(engine.operand(scratch, used)),
        factors(kRows > 1 ? engine.operand(scratch, used) : z) {}

  // z, the spectrum of a row times a power of two, by the packed spectrum of another times 2^exponent
  void multiply(const S* packed, int exponent) const {
    constexpr int W = Engine::kWidth;
    const auto* numbers = staged_row(packed, params.dim, exponent, engine.stage);
    if (params.product == Product::kConvolution) {
      multiply_packed<Product::kConvolution, W>(engine.plan, z, numbers);
    } else {
      multiply_packed<Product::kCorrelation, W>(engine.plan, z, numbers);
    }
  }
  uint32_t group(int64_t r, int64_t count) const {
    const S* a[kRows];
    const S* packed[kRows];
    rows_of(params.map, 0, params.a, r, count, a);
    rows_of(params.map, 1, params.spectrum, r, count, packed);
    engine.load(a, z);
    if constexpr (kRows == 1) {
      multiply(packed[0], 0);
    } else {
      engine.load_packed(packed, factors);
      multiply_spectra<false>(engine.spectra(), params.product, z, factors, z);
    }
    return finish_exactly(engine, z, result_row<S>(params.out, r, params.dim), count, params.dim);
  }
  void scaled(int64_t r) const {
    const S* const a = operand_row<S>(params.a, params.map, 0, r);
    const S* const packed = operand_row<S>(params.spectrum, params.map, 1, r);
    S* const out = result_row<S>(params.out, r, params.dim);
    int exponent_a = 0;
    int exponent_b = 0;
    const bool finite = row_exponent(engine, a, exponent_a);
    if (!row_exponent(engine, packed, exponent_b) || !finite) {
      return fill_nan(out, params.dim);
    }
    engine.load(a, exponent_a, z);
    multiply(packed, exponent_b);
    finish_scaled_row<S, Engine::kWidth>(engine.row_of(params.product, z), params.dim, exponent_a + exponent_b, false,
                                         0, out);
  }
};

template <typename S>
constexpr RowKernel<PackedSpectrumParams> kPackedSpectrum = {
    [](const PackedSpectrumParams& params) { return params.dim; },
    [](const PackedSpectrumParams& params) {
      return group_bytes<S>(params.plan.group, params.dim, 1) + bins_scratch_bytes<S>(params.plan, params.dim, 1);
    },
    packed_spectrum_rows<S>};
template <typename S>
constexpr RowKernel<SpectrumBindParams> kBindSpectrum = {
    [](const SpectrumBindParams& params) { return params.dim; },
    [](const SpectrumBindParams& params) {
      return group_bytes<S>(params.plan.group, params.dim, 2) + native_scratch_bytes<S>(params.plan, params.dim, 1);
    },
    rows_by_plan<SpectrumBindRows, Engines::kNative, true, S, SpectrumBindParams>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<PackedSpectrumParams>, kPackedSpectrum)
KERNEL_REGISTER_BY_STORAGE(RowKernel<SpectrumBindParams>, kBindSpectrum)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
