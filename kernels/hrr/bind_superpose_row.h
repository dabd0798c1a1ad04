// One output row of bind, unbind and bind_superpose: first as it stands, then, if it leaves the range, with scaling.
#pragma once

#include "kernels/hrr/engine_dispatch.h"
#include "kernels/hrr/prefetch.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// One output row: items pairs of vectors and, if weights is set, their weights.
template <typename S>
struct BindSuperposeRow {
  const S* a;
  const S* b;
  const S* weights;
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

// max |x| over a row of storage type, through the engine's staging row
template <typename S, typename Engine>
double largest_in(const Engine& engine, const S* row, double largest) {
  widen_row<S>(row, engine.dim, engine.stage);
  return largest_magnitude(engine.stage, engine.dim, largest);
}

// The exponent that brings a row's largest element near 1; false if an element is not finite.
template <typename S, typename Engine>
bool row_exponent(const Engine& engine, const S* row, int& exponent) {
  const double largest = largest_in(engine, row, 0);
  exponent = unit_exponent(largest);
  return is_finite(largest);
}

// Exponents of one item's parts; a zero part makes the item zero, and its exponents say nothing.
struct ItemExponents {
  int a = 0;
  int b = 0;
  int weight = 0;
  bool finite = true;
  bool zero = false;
};

template <typename S, typename Engine>
ItemExponents item_exponents(const Engine& engine, const BindSuperposeRow<S>& row, int64_t k) {
  const compute_t<S> weight = row.weight(k);
  const double a = largest_in(engine, row.a + k * row.stride_a, 0);
  const double b = largest_in(engine, row.b + k * row.stride_b, 0);
  const double w = largest_magnitude(&weight, 1, 0);
  return {unit_exponent(a), unit_exponent(b), unit_exponent(w), is_finite(a) && is_finite(b) && is_finite(w),
          a == 0 || b == 0 || w == 0};
}

// The row from items scaled by exact powers of two, each by its own: for rows whose plain computation leaves the range
// of the compute type, or that hold NaN or infinity (a NaN row).
template <typename S, typename Engine>
void scaled_row(const Engine& engine, const BindSuperposeRow<S>& row, typename Engine::Operand a,
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
  engine.clear(sum);
  for (int64_t k = 0; k < row.items; ++k) {
    const ItemExponents item = item_exponents(engine, row, k);
    if (item.zero) {
      continue;
    }
    engine.load(row.a + k * row.stride_a, item.a, a);
    engine.load(row.b + k * row.stride_b, item.b, b);
    const T weight = static_cast<T>(scale_by_power(static_cast<double>(row.weight(k)), exponent - item.a - item.b));
    engine.accumulate(row.product, a, b, weight, sum);
  }
  exponent = exponent == std::numeric_limits<int>::max() ? 0 : exponent;
  finish_scaled_row<S, Engine::kWidth>(engine.finish(row.product, sum), engine.dim, exponent, row.normalize, row.eps,
                                       out);
}

// The K vectors of one side of a record: transformed as they are needed into one operand or, where every row has the
// same ones, beforehand into K of them. Either way the numbers are the same.
template <typename S, typename Engine>
struct BindSuperposeSide {
  using Operand = typename Engine::Operand;
  Operand current;
  Operand* shared = nullptr;

  void share(const Engine& engine, const S* items, int64_t stride, int64_t count, Operand* memory) {
    shared = memory;
    for (int64_t k = 0; k < count; ++k) {
      engine.load(items + k * stride, 0, shared[k]);
    }
  }
  Operand at(const Engine& engine, const S* items, int64_t stride, int64_t k) const {
    if (shared != nullptr) {
      return shared[k];
    }
    engine.load(items + k * stride, 0, current);
    return current;
  }
};

template <typename S, typename Engine>
bool try_bind_superpose_row(const Engine& engine, const BindSuperposeRow<S>& row, const BindSuperposeSide<S, Engine>& a,
                            const BindSuperposeSide<S, Engine>& b, typename Engine::Operand sum, S* out) {
  using T = compute_t<S>;
  engine.clear(sum);
  for (int64_t k = 0; k < row.items; ++k) {
    const auto item_a = a.at(engine, row.a, row.stride_a, k);
    const auto item_b = b.at(engine, row.b, row.stride_b, k);
    engine.accumulate(row.product, item_a, item_b, row.weight(k), sum);
  }
  if constexpr (kNativeSpectrum<Engine>) {
    const T squared = row.normalize ? squared_norm<T, Engine::kWidth>(engine.plan, sum) : T{0};
    return try_finish_spectrum(engine, sum, squared, row.normalize, row.eps, out);
  } else {
    return try_finish_row<S, Engine::kWidth>(engine.finish(row.product, sum), engine.dim, row.normalize, row.eps, out);
  }
}

// The operands of the row after this one, to be brought into the cache meanwhile; null where that does not pay.
template <typename S>
struct NextRow {
  const S* a = nullptr;
  const S* b = nullptr;
};

// The spectra of a product's operands, and whose they are: rows that follow each other with the same operand, as those
// of one role or one codebook do, transform it once.
template <typename S, typename Engine>
struct BoundOperands {
  typename Engine::Operand a;
  typename Engine::Operand b;
  bool keep_a;  // the next row has this one's a, so that the product is left in b
  const S* row_a = nullptr;
  const S* row_b = nullptr;

  void load(const Engine& engine, const BindSuperposeRow<S>& row, const NextRow<S>& next) {
    if (row.a != row_a) {
      engine.load(row.a, 0, a);
    }
    prefetch_row(next.a, engine.dim);
    if (row.b != row_b) {
      engine.load(row.b, 0, b);
    }
    prefetch_row(next.b, engine.dim);
    row_a = keep_a ? row.a : nullptr;
    row_b = keep_a ? nullptr : row.b;
  }
  void forget() {
    row_a = nullptr;
    row_b = nullptr;
  }
};

template <Product kProduct, typename S, typename Engine>
bool try_bind_row(const Engine& engine, const BindSuperposeRow<S>& row, const NextRow<S>& next,
                  BoundOperands<S, Engine>& operands, S* out) {
  using T = compute_t<S>;
  constexpr int W = Engine::kWidth;
  operands.load(engine, row, next);
  const auto a = operands.a;
  const auto b = operands.b;
  const auto c = operands.keep_a ? b : a;
  if constexpr (kNativeSpectrum<Engine>) {
    const T squared = row.normalize ? multiply_spectra<kProduct, true, T, W>(engine.plan, a, b, c)
                                    : multiply_spectra<kProduct, false, T, W>(engine.plan, a, b, c);
    return try_finish_spectrum(engine, c, squared, row.normalize, row.eps, out);
  } else {
    multiply_spectra<kProduct, false, T, W>(engine.plan, a, b, c);
    return try_finish_row<S, W>(engine.finish(kProduct, c), engine.dim, row.normalize, row.eps, out);
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
