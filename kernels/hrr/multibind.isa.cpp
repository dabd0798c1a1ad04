// Products of many rows on the CPU; compiled once per instruction set.
#include "kernels/hrr/row_groups.h"
#include "kernels/hrr/spectral_map.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

template <typename S, typename Engine>
struct MultibindRows {
  using Spectrum = BinsOf<Engine>;
  using Operand = typename Spectrum::Operand;
  using Sum = typename Spectrum::Sum;
  static constexpr int kRows = Spectrum::kRows;

  const Spectrum spectrum;
  const MultibindParams& params;
  Operand product;
  Operand item;

  MultibindRows(const Engine& engine, const MultibindParams& the_params, void* scratch, int64_t& used)
      : spectrum(bins_of(engine)),
        params(the_params),
        product(spectrum.operand(scratch, used)),
        item(spectrum.operand(scratch, used)) {}

  // The product of a row's factors: load(k, z) gives the bins of one and the sum of their squares, keep(sum) is false
  // where that of the product so far has left the range and no row is left to go on with.
  template <typename Load, typename Keep>
  bool multiply(const Load& load, const Keep& keep) const {
    for (int64_t k = 0; k < params.items; ++k) {
      Sum squared = load(k, k == 0 ? product : item);
      if (k > 0) {
        squared = multiply_bins<Product::kConvolution>(spectrum, product, item, product);
      }
      if (!keep(squared)) {
        return false;
      }
    }
    return true;
  }

  uint32_t group(int64_t r, int64_t count) const {
    const S* rows[kRows];
    rows_of(params.map, 0, params.vectors, r, count, rows);
    uint32_t unsafe = 0;
    const auto load = [&](int64_t k, Operand bins) {
      for (const S*& row : rows) {
        row += k > 0 ? params.item_stride : 0;
      }
      return load_bins(spectrum, rows, bins);
    };
    const auto keep = [&](const Sum& squared) {
      unsafe |= unsafe_rows(squared);
      return kRows > 1 || unsafe == 0;
    };
    if (!multiply(load, keep)) {
      return unsafe;
    }
    return unsafe | store_rows(spectrum, product, result_row<S>(params.out, r, params.dim), count, params.dim);
  }

  // Every factor and product is brought near 1 by powers of two.
  void scaled(int64_t r) const {
    const S* const vectors = operand_row<S>(params.vectors, params.map, 0, r);
    S* const out = result_row<S>(params.out, r, params.dim);
    for (int64_t k = 0; k < params.items; ++k) {
      if (!is_finite(largest_in(spectrum, vectors + k * params.item_stride))) {
        return fill_nan(out, params.dim);
      }
    }
    // The product so far stands for product 2^-total.
    int64_t total = 0;
    const auto load = [&](int64_t k, Operand bins) {
      const S* const row = vectors + k * params.item_stride;
      int exponent = 0;
      row_exponent(spectrum, row, exponent);
      total += exponent;
      return spectrum.load(row, exponent, bins);
    };
    multiply(load, [&](const Sum& squared) {
      bring_near_1(spectrum, product, squared, total);
      return true;
    });
    store_bins(spectrum, product, -total, out);
  }
};

template <typename S>
int64_t multibind_scratch(const MultibindParams& params) {
  return lane_bytes<S>(params.plan.group, params.dim, 2) + bins_scratch_bytes<S>(params.plan, params.dim, 2);
}

template <typename S>
constexpr RowKernel<MultibindParams> kMultibind = {
    [](const MultibindParams& params) { return params.dim * params.items; }, multibind_scratch<S>,
    rows_by_plan<MultibindRows, Engines::kBins, false, S, MultibindParams>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<MultibindParams>, kMultibind)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
