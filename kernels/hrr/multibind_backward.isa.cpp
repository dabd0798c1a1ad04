// Gradients of the product of many rows on the CPU; compiled once per instruction set.
//
// With the prefixes P_k = a_0 conv ... conv a_{k-1} and the suffixes S_k = g corr a_{K-1} corr ... corr a_{k+1} of a
// row's factors, dL/da_k = S_k corr P_k: 2 K + 1 transforms and no division, so that bins may be 0.
#include "kernels/hrr/row_groups.h"
#include "kernels/hrr/spectral_map.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

constexpr int64_t kEveryFactor = -1;

int64_t arrays_bytes(int64_t items) {
  return 2 * items * static_cast<int64_t>(sizeof(Split<double>) + sizeof(int64_t)) + 4 * 64;
}

// Rows of at least two factors.
template <typename S, typename Engine>
struct MultibindBackwardRows {
  using Spectrum = BinsOf<Engine>;
  using Operand = typename Spectrum::Operand;
  using Sum = typename Spectrum::Sum;
  static constexpr int kRows = Spectrum::kRows;

  const Spectrum spectrum;
  const MultibindBackwardParams& params;
  Operand* factors;
  Operand* prefixes;  // P_k; P_0 is the delta, which nothing is multiplied by, and P_1 the first factor
  // What stands here stands for it 2^-exponent.
  int64_t* factor_exponents;
  int64_t* prefix_exponents;
  Operand suffix, spare;

  MultibindBackwardRows(const Engine& engine, const MultibindBackwardParams& the_params, void* scratch, int64_t& used)
      : spectrum(bins_of(engine)),
        params(the_params),
        factors(aligned<Operand>(scratch, used, params.items)),
        prefixes(aligned<Operand>(scratch, used, params.items)),
        factor_exponents(aligned<int64_t>(scratch, used, params.items)),
        prefix_exponents(aligned<int64_t>(scratch, used, params.items)),
        suffix(spectrum.operand(scratch, used)),
        spare(spectrum.operand(scratch, used)) {
    for (int64_t k = 0; k < params.items; ++k) {
      factors[k] = spectrum.operand(scratch, used);
    }
    prefixes[1] = factors[0];
    for (int64_t k = 2; k < params.items; ++k) {
      prefixes[k] = spectrum.operand(scratch, used);
    }
  }

  // The gradients with respect to all factors or to one: load(k, z, exponent) gives the bins of factor k, of the
  // gradient where k = items, times 2^exponent, and the sum of their squares; keep(z, sum, exponent) is false where
  // these bins have left the range and no row is left to go on with; store(k, z, exponent) takes a gradient.
  template <typename Load, typename Keep, typename Store>
  bool differentiate(const Load& load, const Keep& keep, const Store& store, int64_t wanted) const {
    const int64_t items = params.items;
    int64_t suffix_exponent = 0;
    if (!keep(suffix, load(items, suffix, suffix_exponent), suffix_exponent)) {
      return false;
    }
    for (int64_t k = 0; k < items; ++k) {
      factor_exponents[k] = 0;
      const Sum squared = load(k, factors[k], factor_exponents[k]);
      if (k == 0 && !keep(factors[0], squared, factor_exponents[0])) {
        return false;
      }
      prefix_exponents[k] = k == 0 ? 0 : prefix_exponents[k - 1] + factor_exponents[k - 1];
      if (k > 1) {
        const Sum product =
            multiply_bins<Product::kConvolution>(spectrum, prefixes[k - 1], factors[k - 1], prefixes[k]);
        if (!keep(prefixes[k], product, prefix_exponents[k])) {
          return false;
        }
      }
    }
    const auto is_wanted = [&](int64_t k) { return wanted == kEveryFactor || wanted == k; };
    for (int64_t k = items - 1; k > 0; --k) {
      if (is_wanted(k)) {
        multiply_bins<Product::kCorrelation>(spectrum, suffix, prefixes[k], spare);
        store(k, spare, suffix_exponent + prefix_exponents[k]);
      }
      suffix_exponent += factor_exponents[k];
      if (!keep(suffix, multiply_bins<Product::kCorrelation>(spectrum, suffix, factors[k], suffix), suffix_exponent)) {
        return false;
      }
    }
    if (is_wanted(0)) {
      store(0, suffix, suffix_exponent);
    }
    return true;
  }

  // Of single rows what is stored needs no check: a suffix and a prefix within the safe range have a finite product.
  uint32_t group(int64_t r, int64_t count) const {
    const S* grads[kRows];
    const S* first[kRows];
    rows_of(params.map, 0, params.grad, r, count, grads);
    rows_of(params.map, 1, params.vectors, r, count, first);
    uint32_t beyond = 0;
    const auto load = [&](int64_t k, Operand bins, int64_t&) {
      const S* rows[kRows];
      for (int lane = 0; lane < kRows; ++lane) {
        rows[lane] = k == params.items ? grads[lane] : first[lane] + k * params.item_stride;
      }
      return load_bins(spectrum, rows, bins);
    };
    const auto keep = [&](Operand, const Sum& squared, int64_t&) {
      beyond |= unsafe_rows(squared);
      return kRows > 1 || beyond == 0;
    };
    const auto store = [&](int64_t k, Operand bins, int64_t) {
      S* const out = result_row<S>(params.out, r * params.items + k, params.dim);
      beyond |= store_rows(spectrum, bins, out, count, params.items * params.dim);
    };
    differentiate(load, keep, store, kEveryFactor);
    return beyond;
  }

  // All that is multiplied is brought near 1 by powers of two. A factor that is not finite reaches the gradients of the
  // others, a gradient that is not finite all of them.
  void scaled(int64_t r) const {
    const S* const grad = operand_row<S>(params.grad, params.map, 0, r);
    const S* const vectors = operand_row<S>(params.vectors, params.map, 1, r);
    const auto out = [&](int64_t k) { return result_row<S>(params.out, r * params.items + k, params.dim); };
    const double largest = largest_in(spectrum, grad);
    int64_t wanted = kEveryFactor;
    bool none = !is_finite(largest);
    for (int64_t k = 0; k < params.items; ++k) {
      if (!is_finite(largest_in(spectrum, vectors + k * params.item_stride))) {
        none = none || wanted != kEveryFactor;
        wanted = k;
      }
    }
    for (int64_t k = 0; k < params.items; ++k) {
      if (none || (wanted != kEveryFactor && wanted != k)) {
        fill_nan(out(k), params.dim);
      } else if (largest == 0) {
        __builtin_memset(static_cast<void*>(out(k)), 0, static_cast<size_t>(params.dim) * sizeof(S));
      }
    }
    if (none || largest == 0) {
      return;
    }
    const auto load = [&](int64_t k, Operand bins, int64_t& exponent) {
      const S* const row = k == params.items ? grad : vectors + k * params.item_stride;
      int of_row = 0;
      row_exponent(spectrum, row, of_row);
      exponent = of_row;
      return spectrum.load(row, of_row, bins);
    };
    const auto keep = [&](Operand bins, Sum squared, int64_t& exponent) {
      bring_near_1(spectrum, bins, squared, exponent);
      return true;
    };
    const auto store = [&](int64_t k, Operand bins, int64_t exponent) {
      store_bins(spectrum, bins, -exponent, out(k));
    };
    differentiate(load, keep, store, wanted);
  }
};

template <typename S>
int64_t multibind_backward_scratch(const MultibindBackwardParams& params) {
  // The factors, the prefixes from P_2 on, the suffix and what is stored.
  const int operands = static_cast<int>(2 * params.items);
  return lane_bytes<S>(params.plan.group, params.dim, operands) +
         bins_scratch_bytes<S>(params.plan, params.dim, operands) + 2 * arrays_bytes(params.items);
}

template <typename S>
constexpr RowKernel<MultibindBackwardParams> kMultibindBackward = {
    [](const MultibindBackwardParams& params) { return 2 * params.dim * params.items; }, multibind_backward_scratch<S>,
    rows_by_plan<MultibindBackwardRows, Engines::kBins, false, S, MultibindBackwardParams>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<MultibindBackwardParams>, kMultibindBackward)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
