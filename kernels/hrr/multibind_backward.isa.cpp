// Gradients of the product of many rows on the CPU; compiled once per instruction set.
//
// With the prefixes P_k = a_0 conv ... conv a_{k-1} and the suffixes S_k = g corr a_{K-1} corr ... corr a_{k+1} of a
// row's factors, dL/da_k = S_k corr P_k: 2 K + 1 transforms and no division, so that bins may be 0.
#include "kernels/hrr/lane_rows.h"
#include "kernels/hrr/row_spectrum.h"
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

template <typename Spectrum>
struct MultibindBackwardBuffers {
  using Operand = typename Spectrum::Operand;

  Operand* factors;
  Operand* prefixes;  // P_k; P_0 is the delta, which nothing is multiplied by, and P_1 the first factor
  // What stands here stands for it 2^-exponent.
  int64_t* factor_exponents;
  int64_t* prefix_exponents;
  Operand suffix, spare;

  MultibindBackwardBuffers(const Spectrum& spectrum, int64_t items, void* scratch, int64_t& used)
      : factors(aligned<Operand>(scratch, used, items)),
        prefixes(aligned<Operand>(scratch, used, items)),
        factor_exponents(aligned<int64_t>(scratch, used, items)),
        prefix_exponents(aligned<int64_t>(scratch, used, items)),
        suffix(spectrum.operand(scratch, used)),
        spare(spectrum.operand(scratch, used)) {
    for (int64_t k = 0; k < items; ++k) {
      factors[k] = spectrum.operand(scratch, used);
    }
    prefixes[1] = factors[0];
    for (int64_t k = 2; k < items; ++k) {
      prefixes[k] = spectrum.operand(scratch, used);
    }
  }
};

int64_t arrays_bytes(int64_t items) {
  return 2 * items * static_cast<int64_t>(sizeof(Split<double>) + sizeof(int64_t)) + 4 * 64;
}

constexpr int64_t kEveryFactor = -1;

// The gradients with respect to all factors or to one; with `scaled` all that is multiplied is brought near 1 by powers
// of two, else false if something leaves the safe range. What is stored needs no check: a suffix and a prefix within
// that range have a finite product.
template <typename S, typename Spectrum>
bool multibind_gradients(const Spectrum& spectrum, const MultibindBackwardRow<S>& row,
                         MultibindBackwardBuffers<Spectrum>& buffers, bool scaled, int64_t wanted) {
  using Operand = typename Spectrum::Operand;
  const int64_t last = spectrum.last_bin();
  // False for a row that is not scaled but out of range.
  const auto load = [&](const S* source, Operand target, int64_t& exponent) {
    int of_row = 0;
    if (scaled) {
      row_exponent(spectrum, source, of_row);
    }
    exponent = of_row;
    return safe_squared_norm(spectrum.load(source, of_row, target)) || scaled;
  };
  const Operand suffix = buffers.suffix;
  int64_t suffix_exponent = 0;
  if (!load(row.grad, suffix, suffix_exponent)) {
    return false;
  }
  for (int64_t k = 0; k < row.items; ++k) {
    const bool safe = load(row.factor(k), buffers.factors[k], buffers.factor_exponents[k]);
    if (k == 0 && !safe) {
      return false;
    }
    if (k == 1) {
      buffers.prefix_exponents[1] = buffers.factor_exponents[0];
    } else if (k > 1) {
      const Operand prefix = buffers.prefixes[k];
      int64_t& exponent = buffers.prefix_exponents[k];
      exponent = buffers.prefix_exponents[k - 1] + buffers.factor_exponents[k - 1];
      const auto product =
          multiply_bins<Product::kConvolution>(buffers.prefixes[k - 1], buffers.factors[k - 1], last, prefix);
      if (!keep_in_range(prefix, last, product, scaled, exponent)) {
        return false;
      }
    }
  }
  for (int64_t k = row.items - 1; k > 0; --k) {
    if (wanted == kEveryFactor || wanted == k) {
      multiply_bins<Product::kCorrelation>(suffix, buffers.prefixes[k], last, buffers.spare);
      store_bins(spectrum, buffers.spare, -suffix_exponent - buffers.prefix_exponents[k], row.out + k * spectrum.dim);
    }
    suffix_exponent += buffers.factor_exponents[k];
    const auto product = multiply_bins<Product::kCorrelation>(suffix, buffers.factors[k], last, suffix);
    if (!keep_in_range(suffix, last, product, scaled, suffix_exponent)) {
      return false;
    }
  }
  if (wanted == kEveryFactor || wanted == 0) {
    store_bins(spectrum, suffix, -suffix_exponent, row.out);
  }
  return true;
}

// A factor that is not finite reaches the gradients of the others, a gradient that is not finite all of them.
template <typename S, typename Spectrum>
void scaled_multibind_gradients(const Spectrum& spectrum, const MultibindBackwardRow<S>& row,
                                MultibindBackwardBuffers<Spectrum>& buffers) {
  const double grad = largest_in(spectrum, row.grad, 0);
  int64_t wanted = kEveryFactor;
  bool none = !is_finite(grad);
  for (int64_t k = 0; k < row.items; ++k) {
    if (!is_finite(largest_in(spectrum, row.factor(k), 0))) {
      none = none || wanted != kEveryFactor;
      wanted = k;
    }
  }
  for (int64_t k = 0; k < row.items; ++k) {
    S* out = row.out + k * spectrum.dim;
    if (none || (wanted != kEveryFactor && wanted != k)) {
      fill_nan(out, spectrum.dim);
    } else if (grad == 0) {
      __builtin_memset(static_cast<void*>(out), 0, static_cast<size_t>(spectrum.dim) * sizeof(S));
    }
  }
  if (!none && grad != 0) {
    multibind_gradients(spectrum, row, buffers, true, wanted);
  }
}

template <typename S>
void single_multibind_backward_rows(const MultibindBackwardParams& params, int64_t begin, int64_t end, void* scratch) {
  with_spectrum_engine<S>(params.plan, params.dim, scratch, [&](const auto& engine, int64_t used) {
    const auto& spectrum = spectrum_of(engine);
    MultibindBackwardBuffers<std::remove_cvref_t<decltype(spectrum)>> buffers(spectrum, params.items, scratch, used);
    for (int64_t r = begin; r < end; ++r) {
      const MultibindBackwardRow<S> row{static_cast<const S*>(params.grad) + row_offset(params.map, 0, r),
                                        static_cast<const S*>(params.vectors) + row_offset(params.map, 1, r),
                                        static_cast<S*>(params.out) + r * params.items * params.dim, params.items,
                                        params.item_stride};
      if (!multibind_gradients(spectrum, row, buffers, false, kEveryFactor)) {
        scaled_multibind_gradients(spectrum, row, buffers);
      }
    }
  });
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
    lanes.to_bins(factor(0));
    for (int64_t k = 1; k < items; ++k) {
      for (const S*& row : rows) {
        row += params.item_stride;
      }
      lanes.load(rows, factor(k));
      lanes.to_bins(factor(k));
      if (k > 1) {
        beyond |=
            unsafe_lanes(lanes.template multiply_bins<Product::kConvolution>(prefix(k - 1), factor(k - 1), prefix(k)));
      }
    }
    lanes.load(params.map, 0, params.grad, r, count, rows, suffix);
    beyond |= unsafe_lanes(lanes.squared(suffix));
    lanes.to_bins(suffix);
    // Every lane's gradient with respect to factor k.
    const auto store = [&](Vectors gradient, int64_t k) {
      S* const out = static_cast<S*>(params.out) + (r * items + k) * params.dim;
      lanes.from_bins(gradient);
      beyond |= lanes.finish(gradient, out, count, items * params.dim);
    };
    for (int64_t k = items - 1; k > 0; --k) {
      lanes.template multiply_bins<Product::kCorrelation>(suffix, prefix(k), spare);
      store(spare, k);
      beyond |= unsafe_lanes(lanes.template multiply_bins<Product::kCorrelation>(suffix, factor(k), suffix));
    }
    store(suffix, 0);
    return beyond;
  };
  for_groups<W>(begin, end, group, [&](int64_t r, int64_t) {
    single_multibind_backward_rows<S>(params, r, r + 1,
                                      scratch_behind<Lanes>(params.dim, lane_operands(params), scratch));
  });
}

template <typename S>
void multibind_backward_rows(const MultibindBackwardParams& params, int64_t begin, int64_t end, void* scratch) {
  const auto rows =
      params.plan.group == RowGroup::kLanes ? multibind_backward_lanes<S> : single_multibind_backward_rows<S>;
  rows(params, begin, end, scratch);
}

template <typename S>
int64_t multibind_backward_scratch(const MultibindBackwardParams& params) {
  return lane_bytes<S>(params.plan.group, params.dim, lane_operands(params)) +
         row_spectrum_scratch<S>(params.plan, params.dim, static_cast<int>(2 * params.items)) +
         arrays_bytes(params.items);
}

template <typename S>
constexpr RowKernel<MultibindBackwardParams> kMultibindBackward = {
    [](const MultibindBackwardParams& params) { return 2 * params.dim * params.items; }, multibind_backward_scratch<S>,
    multibind_backward_rows<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<MultibindBackwardParams>, kMultibindBackward)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
