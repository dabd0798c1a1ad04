// Weighted sums of rows on the CPU; compiled once per instruction set.
#include "kernels/hrr/superposition.h"

#include "kernels/hrr/finish.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

constexpr int kItemsPerSweep = 8;

// Sixteen lanes serve the half types' conversion; the wide types use the machine's own width.
template <typename S>
constexpr int kRowLanes = sizeof(S) == 2 ? kConvertBlock : kVectorBytes / static_cast<int>(sizeof(S));

template <typename S>
KERNEL_HOST_DEVICE Simd<compute_t<S>, kRowLanes<S>> load_lanes(const S* source) {
  if constexpr (sizeof(S) == 2) {
    Bits16 bits;
    __builtin_memcpy(&bits, source, sizeof(bits));
    return widen(S{}, bits);
  } else {
    return Simd<S, kRowLanes<S>>::load(source);
  }
}

template <typename S>
KERNEL_HOST_DEVICE compute_t<S> load_one(const S* source) {
  compute_t<S> value;
  widen_row<S>(source, 1, &value);
  return value;
}

// sum += ((w_0 x_0 + w_1 x_1) + ...) over kItems vectors: a sweep's partial sum keeps the rounding of long sums low.
template <int kItems, typename S>
KERNEL_HOST_DEVICE void sweep(const S* vectors, int64_t stride, const compute_t<S>* weights, int64_t dim,
                              compute_t<S>* sum) {
  using T = compute_t<S>;
  constexpr int W = kRowLanes<S>;
  using V = Simd<T, W>;
  V factor[kItems];
#pragma GCC unroll 8
  for (int k = 0; k < kItems; ++k) {
    factor[k] = V::broadcast(weights[k]);
  }
  int64_t i = 0;
  for (; i + W <= dim; i += W) {
    V partial = factor[0] * load_lanes<S>(vectors + i);
#pragma GCC unroll 8
    for (int k = 1; k < kItems; ++k) {
      partial = multiply_add(factor[k], load_lanes<S>(vectors + k * stride + i), partial);
    }
    (V::load(sum + i) + partial).store(sum + i);
  }
  for (; i < dim; ++i) {
    T partial = weights[0] * load_one<S>(vectors + i);
    for (int k = 1; k < kItems; ++k) {
      partial = multiply_add(weights[k], load_one<S>(vectors + k * stride + i), partial);
    }
    sum[i] += partial;
  }
}

template <typename S>
struct Group {
  const S* vectors;
  const S* weights;
  int64_t items;
  int64_t stride;
  int64_t stride_weights;

  compute_t<S> weight(int64_t k) const {
    return weights == nullptr ? compute_t<S>{1} : load_one<S>(weights + k * stride_weights);
  }
};

template <typename S>
void sum_group(const Group<S>& group, int64_t dim, compute_t<S>* sum) {
  using T = compute_t<S>;
  __builtin_memset(static_cast<void*>(sum), 0, static_cast<size_t>(dim) * sizeof(T));
  T weights[kItemsPerSweep];
  int64_t k = 0;
  for (; k + kItemsPerSweep <= group.items; k += kItemsPerSweep) {
    for (int i = 0; i < kItemsPerSweep; ++i) {
      weights[i] = group.weight(k + i);
    }
    sweep<kItemsPerSweep, S>(group.vectors + k * group.stride, group.stride, weights, dim, sum);
  }
  for (; k < group.items; ++k) {
    weights[0] = group.weight(k);
    sweep<1, S>(group.vectors + k * group.stride, group.stride, weights, dim, sum);
  }
}

// The sum from items scaled by exact powers of two, each by its own; NaN or infinity in a group gives a NaN row.
template <typename S>
void scaled_group(const Group<S>& group, int64_t dim, bool normalize, double eps, compute_t<S>* sum, compute_t<S>* row,
                  S* out) {
  using T = compute_t<S>;
  const auto load_row = [&](int64_t k) {
    widen_row<S>(group.vectors + k * group.stride, dim, row);
    return largest_magnitude(row, dim, 0);
  };
  // The exponent that brings the largest item into range; smaller ones keep their distance from it.
  constexpr int kNone = std::numeric_limits<int>::max();
  int exponent = kNone;
  for (int64_t k = 0; k < group.items; ++k) {
    const T weight = group.weight(k);
    const double largest = load_row(k);
    const double magnitude = largest_magnitude(&weight, 1, 0);
    if (!is_finite(largest) || !is_finite(magnitude)) {
      return fill_nan(out, dim);
    }
    if (largest != 0 && magnitude != 0) {
      const int total = unit_exponent(largest) + unit_exponent(magnitude);
      exponent = exponent < total ? exponent : total;
    }
  }
  exponent = exponent == kNone ? 0 : exponent;
  __builtin_memset(static_cast<void*>(sum), 0, static_cast<size_t>(dim) * sizeof(T));
  for (int64_t k = 0; k < group.items; ++k) {
    const int own = unit_exponent(load_row(k));
    const T weight = static_cast<T>(scale_by_power(static_cast<double>(group.weight(k)), exponent - own));
    scale_row(row, dim, own);
    for (int64_t i = 0; i < dim; ++i) {
      sum[i] = multiply_add(weight, row[i], sum[i]);
    }
  }
  finish_scaled_row<S, kRowLanes<S>>(sum, dim, exponent, normalize, eps, out);
}

template <typename S>
int64_t row_bytes(int64_t dim) {
  return (dim * static_cast<int64_t>(sizeof(compute_t<S>)) + 63) / 64 * 64;
}

template <typename S>
int64_t superpose_scratch(const SuperpositionParams& params) {
  return 2 * row_bytes<S>(params.dim);
}

template <typename S>
void superpose_rows(const SuperpositionParams& params, int64_t begin, int64_t end, void* scratch) {
  using T = compute_t<S>;
  T* sum = static_cast<T*>(scratch);
  T* row = reinterpret_cast<T*>(static_cast<char*>(scratch) + row_bytes<S>(params.dim));
  const S* weights = static_cast<const S*>(params.weights);
  for (int64_t r = begin; r < end; ++r) {
    const Group<S> group{operand_row<S>(params.vectors, params.map, 0, r),
                         weights == nullptr ? nullptr : weights + row_offset(params.map, 1, r), params.items,
                         params.item_stride_vectors, params.item_stride_weights};
    S* out = result_row<S>(params.out, r, params.dim);
    sum_group(group, params.dim, sum);
    if (!try_finish_row<S, kRowLanes<S>>(sum, params.dim, params.normalize, params.eps, out)) {
      scaled_group(group, params.dim, params.normalize, params.eps, sum, row, out);
    }
  }
}

template <typename S>
constexpr RowKernel<SuperpositionParams> kSuperposition = {
    [](const SuperpositionParams& params) { return params.dim * (params.items > 0 ? params.items : 1); },
    superpose_scratch<S>, superpose_rows<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<SuperpositionParams>, kSuperposition)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
