// Products of rows that leave the range of their type, from rows scaled by powers of two.
#pragma once

#include "kernels/hrr/engine.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// max |x| over a row of storage type, through the engine's stage
template <typename S, typename Engine>
double largest_in(const Engine& engine, const S* row) {
  widen_row<S>(row, engine.dim, engine.stage);
  return largest_magnitude(engine.stage, engine.dim, 0);
}

// The exponent that brings a row's largest element near 1; false if an element is not finite.
template <typename S, typename Engine>
bool row_exponent(const Engine& engine, const S* row, int& exponent) {
  const double largest = largest_in(engine, row);
  exponent = unit_exponent(largest);
  return is_finite(largest);
}

// One row of a product, or of a sum of weighted ones.
template <typename S>
struct ProductRow {
  const S* a;
  const S* b;
  const S* weights;  // null for ones
  int64_t items;
  int64_t stride_a;
  int64_t stride_b;
  int64_t stride_weights;
  Product product;
  bool normalize;
  double eps;

  compute_t<S> weight(int64_t k) const {
    compute_t<S> value = 1;
    if (weights != nullptr) {
      widen_row<S>(weights + k * stride_weights, 1, &value);
    }
    return value;
  }
};

// Exponents of one item's parts; a zero part makes the item zero, and its exponents say nothing.
struct ItemExponents {
  int a = 0;
  int b = 0;
  int weight = 0;
  bool finite = true;
  bool zero = false;
};

template <typename S, typename Engine>
ItemExponents item_exponents(const Engine& engine, const ProductRow<S>& row, int64_t k) {
  const compute_t<S> weight = row.weight(k);
  const double a = largest_in(engine, row.a + k * row.stride_a);
  const double b = largest_in(engine, row.b + k * row.stride_b);
  const double w = largest_magnitude(&weight, 1, 0);
  return {unit_exponent(a), unit_exponent(b), unit_exponent(w), is_finite(a) && is_finite(b) && is_finite(w),
          a == 0 || b == 0 || w == 0};
}

// The row from items each scaled by a power of two: for rows that leave the range of the compute type as they stand, or
// that hold NaN or infinity (a NaN row).
template <typename S, typename Engine>
void scaled_product(const Engine& engine, const ProductRow<S>& row, typename Engine::Operand a,
                    typename Engine::Operand b, typename Engine::Operand sum, S* out) {
  using T = compute_t<S>;
  // The exponent that brings the largest item's product into range; smaller ones keep their distance from it.
  int exponent = std::numeric_limits<int>::max();
  for (int64_t k = 0; k < row.items; ++k) {
    const ItemExponents item = item_exponents(engine, row, k);
    if (!item.finite) {
      return fill_nan(out, engine.dim);
    }
    const int total = item.a + item.b + item.weight;
    exponent = item.zero || exponent < total ? exponent : total;
  }
  clear_spectra(engine.spectra(), sum);
  for (int64_t k = 0; k < row.items; ++k) {
    const ItemExponents item = item_exponents(engine, row, k);
    if (item.zero) {
      continue;
    }
    engine.load(row.a + k * row.stride_a, item.a, a);
    engine.load(row.b + k * row.stride_b, item.b, b);
    const T weight = static_cast<T>(scale_by_power(static_cast<double>(row.weight(k)), exponent - item.a - item.b));
    accumulate_spectra(engine.spectra(), row.product, a, b, weight, sum);
  }
  exponent = exponent == std::numeric_limits<int>::max() ? 0 : exponent;
  finish_scaled_row<S, Engine::kWidth>(engine.row_of(row.product, sum), engine.dim, exponent, row.normalize, row.eps,
                                       out);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
