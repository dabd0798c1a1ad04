// Products of many rows on the CPU; compiled once per instruction set.
#include "kernels/hrr/bind_superpose_row.h"
#include "kernels/hrr/lane_rows.h"
#include "kernels/hrr/spectral_map.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

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
void scaled_multibind_row(const Engine& engine, const S* vectors, int64_t items, int64_t stride,
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
    scale_row(product.re, engine.numbers(), shift);
    scale_row(product.im, engine.numbers(), shift);
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

template <typename S>
void single_multibind_rows(const MultibindParams& params, int64_t begin, int64_t end, void* scratch) {
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
        scaled_multibind_row(engine, vectors, params.items, params.item_stride, product, item, out);
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
    for (int64_t k = 1; k < params.items; ++k) {
      for (const S*& row : rows) {
        row += params.item_stride;
      }
      lanes.load(rows, item);
      unsafe |= unsafe_lanes(lanes.template multiply<Product::kConvolution, true>(product, item, product));
    }
    lanes.finish(product, static_cast<S*>(params.out) + r * params.dim, count);
    return unsafe;
  };
  for_groups<W>(begin, end, group, [&](int64_t r, int64_t) {
    single_multibind_rows<S>(params, r, r + 1, Lanes::scratch_behind(params.dim, 2, scratch));
  });
}

template <typename S>
void multibind_rows(const MultibindParams& params, int64_t begin, int64_t end, void* scratch) {
  const auto rows = has_lanes(params.dim) ? multibind_lanes<S> : single_multibind_rows<S>;
  rows(params, begin, end, scratch);
}

template <typename S>
int64_t multibind_scratch(const MultibindParams& params) {
  return LaneRows<S>::scratch_bytes(params.dim, 2) + (cpu_has_native_bins(params.dim)
                                                          ? native_scratch_bytes<S>(params.dim, 2)
                                                          : scratch_bytes<S>(params.dim, 3, 1));
}

template <typename S>
constexpr RowKernel<MultibindParams> kMultibind = {
    [](const MultibindParams& params) { return params.dim * params.items; }, multibind_scratch<S>, multibind_rows<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<MultibindParams>, kMultibind)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
