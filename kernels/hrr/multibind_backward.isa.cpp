// Gradients of the product of many rows on the CPU; compiled once per instruction set.
//
// With the prefixes P_k = a_0 conv ... conv a_{k-1} and the suffixes S_k = g corr a_{K-1} corr ... corr a_{k+1} of a
// row's factors, dL/da_k = S_k corr P_k: 2 K + 1 transforms where spectra are the rows' own, and no division, so that
// bins may be 0.
#include "kernels/hrr/bind_superpose_row.h"
#include "kernels/hrr/lane_rows.h"
#include "kernels/hrr/spectral_map.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// One row of at least two factors.
template <typename S>
struct MultibindBackwardRow {
  const S* grad;
  const S* vectors;
  S* out;
  int64_t items;
  int64_t stride;

  const S* factor(int64_t k) const {
    return vectors + k * stride;
  }
};

template <typename Engine>
struct MultibindBackwardBuffers {
  using Operand = typename Engine::Operand;

  Operand* factors;
  Operand* prefixes;  // P_k; P_0 is the delta, which nothing is multiplied by, and P_1 the first factor
  // What stands here stands for it 2^-exponent.
  int64_t* factor_exponents;
  int64_t* prefix_exponents;
  Operand suffix, spare;

  MultibindBackwardBuffers(const Engine& engine, int64_t items, void* scratch, int64_t& used)
      : factors(aligned<Operand>(scratch, used, items)),
        prefixes(aligned<Operand>(scratch, used, items)),
        factor_exponents(aligned<int64_t>(scratch, used, items)),
        prefix_exponents(aligned<int64_t>(scratch, used, items)),
        suffix(engine.operand(scratch, used)),
        spare(engine.operand(scratch, used)) {
    for (int64_t k = 0; k < items; ++k) {
      factors[k] = engine.operand(scratch, used);
    }
    prefixes[1] = factors[0];
    for (int64_t k = 2; k < items; ++k) {
      prefixes[k] = engine.operand(scratch, used);
    }
  }
  static int64_t arrays_bytes(int64_t items) {
    return 2 * items * static_cast<int64_t>(sizeof(Split<double>) + sizeof(int64_t)) + 4 * 64;
  }
};

// dst <- x (*) y, brought near 1 where `scaled` by a power of two that is added to the exponent; else false if it
// leaves the safe range.
template <Product kProduct, typename Engine>
bool multiply_in_range(const Engine& engine, typename Engine::Operand x, typename Engine::Operand y, bool scaled,
                       typename Engine::Operand dst, int64_t& exponent) {
  using T = typename Engine::T;
  constexpr int W = Engine::kWidth;
  if constexpr (kNativeSpectrum<Engine>) {
    const T squared = multiply_spectra<kProduct, true, T, W>(engine.plan, x, y, dst);
    if (!scaled) {
      return safe_squared_norm(squared);
    }
    const int shift = unit_exponent(static_cast<double>(squared)) / 2;
    scale_row(dst.re, engine.numbers(), shift);
    scale_row(dst.im, engine.numbers(), shift);
    exponent += shift;
  } else {
    engine.clear(dst);
    engine.accumulate(kProduct, x, y, T{1}, dst);
    T* row = engine.finish(kProduct, dst);
    if (!scaled && !safe_squared_norm(dot<W>(row, row, engine.dim))) {
      return false;
    }
    if (scaled) {
      const int shift = unit_exponent(largest_magnitude(row, engine.dim, 0));
      scale_row(row, engine.dim, shift);
      exponent += shift;
    }
    engine.load_reals(row, dst);
  }
  return true;
}

// out = the row of a spectrum, which is overwritten, times 2^exponent; false if it leaves the range unless `scaled`.
template <typename S, typename Engine>
bool store_gradient(const Engine& engine, typename Engine::Operand spectrum, bool scaled, int64_t exponent, S* out) {
  using T = compute_t<S>;
  if constexpr (kNativeSpectrum<Engine>) {
    if (!scaled) {
      return try_finish_spectrum(engine, spectrum, T{0}, false, 0, out);
    }
  }
  T* row = engine.finish(Product::kCorrelation, spectrum);
  rescale_row(row, engine.dim, exponent);
  if (!scaled && !all_finite(row, engine.dim)) {
    return false;
  }
  narrow_row<S>(row, engine.dim, T{1}, out);
  return true;
}

template <typename S, typename Engine>
bool has_safe_norm(const Engine& engine, const S* row) {
  const auto* reals = staged_row(row, engine.dim, 0, engine.stage);
  return safe_squared_norm(dot<Engine::kWidth>(reals, reals, engine.dim));
}

constexpr int64_t kEveryFactor = -1;

// The gradients with respect to all factors or to one; with `scaled` all that is multiplied is brought near 1 by powers
// of two, else false if something leaves the safe range.
template <typename S, typename Engine>
bool multibind_gradients(const Engine& engine, const MultibindBackwardRow<S>& row,
                         MultibindBackwardBuffers<Engine>& buffers, bool scaled, int64_t wanted) {
  if (!scaled && !(has_safe_norm(engine, row.grad) && has_safe_norm(engine, row.factor(0)))) {
    return false;
  }
  const auto load = [&](const S* source, typename Engine::Operand target) {
    int exponent = 0;
    if (scaled) {
      row_exponent(engine, source, exponent);
    }
    engine.load(source, exponent, target);
    return static_cast<int64_t>(exponent);
  };
  for (int64_t k = 0; k < row.items; ++k) {
    buffers.factor_exponents[k] = load(row.factor(k), buffers.factors[k]);
    if (k == 1) {
      buffers.prefix_exponents[1] = buffers.factor_exponents[0];
    } else if (k > 1) {
      int64_t& exponent = buffers.prefix_exponents[k];
      exponent = buffers.prefix_exponents[k - 1] + buffers.factor_exponents[k - 1];
      if (!multiply_in_range<Product::kConvolution>(engine, buffers.prefixes[k - 1], buffers.factors[k - 1], scaled,
                                                    buffers.prefixes[k], exponent)) {
        return false;
      }
    }
  }
  typename Engine::Operand suffix = buffers.suffix;
  typename Engine::Operand spare = buffers.spare;
  int64_t suffix_exponent = load(row.grad, suffix);
  for (int64_t k = row.items - 1; k > 0; --k) {
    if (wanted == kEveryFactor || wanted == k) {
      if constexpr (kNativeSpectrum<Engine>) {
        multiply_spectra<Product::kCorrelation, false, compute_t<S>, Engine::kWidth>(engine.plan, suffix,
                                                                                     buffers.prefixes[k], spare);
      } else {
        engine.clear(spare);
        engine.accumulate(Product::kCorrelation, suffix, buffers.prefixes[k], compute_t<S>{1}, spare);
      }
      if (!store_gradient(engine, spare, scaled, -suffix_exponent - buffers.prefix_exponents[k],
                          row.out + k * engine.dim)) {
        return false;
      }
    }
    suffix_exponent += buffers.factor_exponents[k];
    if (!multiply_in_range<Product::kCorrelation>(engine, suffix, buffers.factors[k], scaled, spare, suffix_exponent)) {
      return false;
    }
    const typename Engine::Operand used = suffix;
    suffix = spare;
    spare = used;
  }
  return (wanted != kEveryFactor && wanted != 0) || store_gradient(engine, suffix, scaled, -suffix_exponent, row.out);
}

// A factor that is not finite reaches the gradients of the others, a gradient that is not finite all of them.
template <typename S, typename Engine>
void scaled_multibind_gradients(const Engine& engine, const MultibindBackwardRow<S>& row,
                                MultibindBackwardBuffers<Engine>& buffers) {
  const double grad = largest_in(engine, row.grad, 0);
  int64_t wanted = kEveryFactor;
  bool none = !is_finite(grad);
  for (int64_t k = 0; k < row.items; ++k) {
    if (!is_finite(largest_in(engine, row.factor(k), 0))) {
      none = none || wanted != kEveryFactor;
      wanted = k;
    }
  }
  for (int64_t k = 0; k < row.items; ++k) {
    S* out = row.out + k * engine.dim;
    if (none || (wanted != kEveryFactor && wanted != k)) {
      fill_nan(out, engine.dim);
    } else if (grad == 0) {
      __builtin_memset(static_cast<void*>(out), 0, static_cast<size_t>(engine.dim) * sizeof(S));
    }
  }
  if (!none && grad != 0) {
    multibind_gradients(engine, row, buffers, true, wanted);
  }
}

template <typename S>
void single_multibind_backward_rows(const MultibindBackwardParams& params, int64_t begin, int64_t end, void* scratch) {
  with_engine<S>(params.dim, scratch, [&](const auto& engine, int64_t used) {
    MultibindBackwardBuffers<std::remove_cvref_t<decltype(engine)>> buffers(engine, params.items, scratch, used);
    for (int64_t r = begin; r < end; ++r) {
      const MultibindBackwardRow<S> row{static_cast<const S*>(params.grad) + row_offset(params.map, 0, r),
                                        static_cast<const S*>(params.vectors) + row_offset(params.map, 1, r),
                                        static_cast<S*>(params.out) + r * params.items * params.dim, params.items,
                                        params.item_stride};
      if (!multibind_gradients(engine, row, buffers, false, kEveryFactor)) {
        scaled_multibind_gradients(engine, row, buffers);
      }
    }
  });
}

// K D up to which rows go side by side: they keep W times the spectra, which must fit the second-level cache.
constexpr int64_t kMaxLaneElements = int64_t{1} << 14;

bool goes_in_lanes(const MultibindBackwardParams& params) {
  return has_lanes(params.dim) && params.items <= kMaxLaneElements / params.dim;
}
// The factors, the prefixes from P_2 on, the suffix and what is stored.
int lane_operands(const MultibindBackwardParams& params) {
  return static_cast<int>(2 * params.items);
}

template <typename S>
void multibind_backward_lanes(const MultibindBackwardParams& params, int64_t begin, int64_t end, void* scratch) {
  using Lanes = LaneRows<S>;
  using Vectors = typename Lanes::Vectors;
  constexpr int W = Lanes::W;
  const int64_t items = params.items;
  int64_t used = 0;
  const Lanes lanes(params.dim, scratch, used);
  // All vectors, `step` numbers apart.
  const Vectors first = lanes.vectors(scratch, used);
  const Vectors second = lanes.vectors(scratch, used);
  const int64_t step = second.re - first.re;
  for (int64_t k = 2; k < lane_operands(params); ++k) {
    lanes.vectors(scratch, used);
  }
  const auto place = [&](int64_t k) { return Vectors{first.re + k * step, first.im + k * step}; };
  const auto factor = place;
  const auto prefix = [&](int64_t k) { return k == 1 ? factor(0) : place(items + k - 2); };
  const Vectors suffix = place(2 * items - 2);
  const Vectors spare = place(2 * items - 1);
  const auto group = [&](int64_t r, int64_t count) {
    const S* rows[W];
    lanes.load(params.map, 1, params.vectors, r, count, rows, factor(0));
    uint32_t beyond = unsafe_lanes(lanes.squared(factor(0)));
    for (int64_t k = 1; k < items; ++k) {
      for (const S*& row : rows) {
        row += params.item_stride;
      }
      lanes.load(rows, factor(k));
      if (k > 1) {
        beyond |=
            unsafe_lanes(lanes.template multiply<Product::kConvolution, true>(prefix(k - 1), factor(k - 1), prefix(k)));
      }
    }
    lanes.load(params.map, 0, params.grad, r, count, rows, suffix);
    beyond |= unsafe_lanes(lanes.squared(suffix));
    // Every lane's gradient with respect to factor k.
    const auto store = [&](Vectors gradient, int64_t k) {
      S* const out = static_cast<S*>(params.out) + (r * items + k) * params.dim;
      beyond |= lanes.finish(gradient, out, count, items * params.dim);
    };
    for (int64_t k = items - 1; k > 0; --k) {
      lanes.template multiply<Product::kCorrelation, false>(suffix, prefix(k), spare);
      store(spare, k);
      beyond |= unsafe_lanes(lanes.template multiply<Product::kCorrelation, true>(suffix, factor(k), suffix));
    }
    store(suffix, 0);
    return beyond;
  };
  for_groups<W>(begin, end, group, [&](int64_t r, int64_t) {
    single_multibind_backward_rows<S>(params, r, r + 1,
                                      Lanes::scratch_behind(params.dim, lane_operands(params), scratch));
  });
}

template <typename S>
void multibind_backward_rows(const MultibindBackwardParams& params, int64_t begin, int64_t end, void* scratch) {
  const auto rows = goes_in_lanes(params) ? multibind_backward_lanes<S> : single_multibind_backward_rows<S>;
  rows(params, begin, end, scratch);
}

template <typename S>
int64_t multibind_backward_scratch(const MultibindBackwardParams& params) {
  return (goes_in_lanes(params) ? LaneRows<S>::scratch_bytes(params.dim, lane_operands(params)) : 0) +
         scratch_bytes<S>(params.dim, static_cast<int>(2 * params.items), 0) +
         MultibindBackwardBuffers<DirectEngine<S>>::arrays_bytes(params.items);
}

template <typename S>
constexpr RowKernel<MultibindBackwardParams> kMultibindBackward = {
    [](const MultibindBackwardParams& params) { return 2 * params.dim * params.items; }, multibind_backward_scratch<S>,
    multibind_backward_rows<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<MultibindBackwardParams>, kMultibindBackward)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
