// Products of many rows on the CPU; compiled once per instruction set.
#include "kernels/hrr/lane_rows.h"
#include "kernels/hrr/row_spectrum.h"
#include "kernels/hrr/spectral_map.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// The product of a row's factors; with `scaled` every factor and product is brought near 1 by powers of two, else
// false, with nothing written, if a product leaves the safe range.
template <typename S, typename Spectrum>
bool multibind_row(const Spectrum& spectrum, const S* vectors, int64_t items, int64_t stride, bool scaled,
                   typename Spectrum::Operand product, typename Spectrum::Operand item, S* out) {
  const int64_t last = spectrum.last_bin();
  // The product so far stands for product 2^-total.
  int64_t total = 0;
  for (int64_t k = 0; k < items; ++k) {
    int exponent = 0;
    if (scaled) {
      row_exponent(spectrum, vectors + k * stride, exponent);
    }
    total += exponent;
    auto squared = spectrum.load(vectors + k * stride, exponent, k == 0 ? product : item);
    if (k > 0) {
      squared = multiply_bins<Product::kConvolution>(product, item, last, product);
    }
    if (!keep_in_range(product, last, squared, scaled, total)) {
      return false;
    }
  }
  store_bins(spectrum, product, -total, out);
  return true;
}

template <typename S, typename Spectrum>
bool all_finite_rows(const Spectrum& spectrum, const S* vectors, int64_t items, int64_t stride) {
  for (int64_t k = 0; k < items; ++k) {
    if (!is_finite(largest_in(spectrum, vectors + k * stride, 0))) {
      return false;
    }
  }
  return true;
}

template <typename S>
void single_multibind_rows(const MultibindParams& params, int64_t begin, int64_t end, void* scratch) {
  with_spectrum_engine<S>(params.plan, params.dim, scratch, [&](const auto& engine, int64_t used) {
    const auto& spectrum = spectrum_of(engine);
    const auto product = spectrum.operand(scratch, used);
    const auto item = spectrum.operand(scratch, used);
    for (int64_t r = begin; r < end; ++r) {
      const S* vectors = static_cast<const S*>(params.vectors) + row_offset(params.map, 0, r);
      S* out = static_cast<S*>(params.out) + r * params.dim;
      if (multibind_row(spectrum, vectors, params.items, params.item_stride, false, product, item, out)) {
        continue;
      }
      if (all_finite_rows(spectrum, vectors, params.items, params.item_stride)) {
        multibind_row(spectrum, vectors, params.items, params.item_stride, true, product, item, out);
      } else {
        fill_nan(out, params.dim);
      }
    }
  });
}

template <typename S>
void multibind_lanes(const MultibindParams& params, int64_t begin, int64_t end, void* scratch) {
  using Lanes = LaneRows<S>;
  constexpr int W = Lanes::W;
  int64_t used = 0;
  const Lanes lanes(params.dim, scratch, used);
  const auto product = lanes.vectors(scratch, used);
  const auto item = lanes.vectors(scratch, used);
  const auto group = [&](int64_t r, int64_t count) {
    const S* rows[W];
    lanes.load(params.map, 0, params.vectors, r, count, rows, product);
    uint32_t unsafe = unsafe_lanes(lanes.squared(product));
    lanes.to_bins(product);
    for (int64_t k = 1; k < params.items; ++k) {
      for (const S*& row : rows) {
        row += params.item_stride;
      }
      lanes.load(rows, item);
      lanes.to_bins(item);
      unsafe |= unsafe_lanes(lanes.template multiply_bins<Product::kConvolution>(product, item, product));
    }
    lanes.from_bins(product);
    lanes.finish(product, static_cast<S*>(params.out) + r * params.dim, count);
    return unsafe;
  };
  for_groups<W>(begin, end, group, [&](int64_t r, int64_t) {
    single_multibind_rows<S>(params, r, r + 1, scratch_behind<Lanes>(params.dim, 2, scratch));
  });
}

template <typename S>
void multibind_rows(const MultibindParams& params, int64_t begin, int64_t end, void* scratch) {
  const auto rows = params.plan.group == RowGroup::kLanes ? multibind_lanes<S> : single_multibind_rows<S>;
  rows(params, begin, end, scratch);
}

template <typename S>
int64_t multibind_scratch(const MultibindParams& params) {
  return lane_bytes<S>(params.plan.group, params.dim, 2) + row_spectrum_scratch<S>(params.plan, params.dim, 2);
}

template <typename S>
constexpr RowKernel<MultibindParams> kMultibind = {
    [](const MultibindParams& params) { return params.dim * params.items; }, multibind_scratch<S>, multibind_rows<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<MultibindParams>, kMultibind)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
