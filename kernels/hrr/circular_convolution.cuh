// Kernels of bind, unbind, bind_normalize and bind_superpose.
//
// Every row transforms both operands, shared or not: rows run beside each other here, so a spectrum made once would
// have to travel through memory.
#pragma once

#include "kernels/hrr/fft_row.cuh"
#include "kernels/hrr/mixed_row.cuh"

namespace torch_hrr::kernels {

// Places for spectra: a single product takes the first operand's.
template <bool kManyItems>
constexpr int kProductBuffers = kManyItems ? 3 : 2;

// out[r] = sum_k w[r,k] (a[r,k] (*) b[r,k]) / max(norm2, eps). kManyItems: any number of items, convolution; else one,
// without a weight.
template <bool kManyItems, typename Row>
KERNEL_DEVICE void sum_of_products(const Row& row, const BindSuperposeParams& params, Product product,
                                   Storage storage) {
  using T = typename Row::Real;
  const StoredInput<T> a = stored_input<T>(params.a, storage) + placed_row(params.map, 0, row.r);
  const StoredInput<T> b = stored_input<T>(params.b, storage) + placed_row(params.map, 1, row.r);
  auto of_a = row.spectrum(0);
  auto of_b = row.spectrum(1);
  const auto store = [&](auto& sum, int exponent, bool finite) {
    row.store_product(sum, product, T{1}, exponent, finite, params.normalize, params.eps,
                      stored_output<T>(params.out, storage) + row.r * row.dim);
  };
  if constexpr (!kManyItems) {
    const MeasuredRow measured_a = row.load(a, of_a);
    const MeasuredRow measured_b = row.load(b, of_b);
    row.multiply(product, of_a, of_b, of_a);
    store(of_a, measured_a.exponent + measured_b.exponent, measured_a.finite && measured_b.finite);
  } else {
    StoredInput<T> weights = stored_input<T>(params.weights, storage);
    if (weights.exists()) {
      weights = weights + placed_row(params.map, 2, row.r);
    }
    auto sum = row.spectrum(2);
    row.clear(sum);
    MeasuredRow measured{0, true, true};
#pragma unroll 1
    for (int64_t k = 0; k < params.items; ++k) {
      const MeasuredRow measured_a = row.load(a + k * params.item_stride_a, of_a);
      const MeasuredRow measured_b = row.load(b + k * params.item_stride_b, of_b);
      const T weight = weights.exists() ? weights[k * params.item_stride_weights] : T{1};
      const MeasuredRow before = measured;
      add_measured_item(measured_a, measured_b, weight, measured);
      const T kept = before.zero || before.exponent == measured.exponent
                         ? T{1}
                         : static_cast<T>(::ldexp(T{1}, before.exponent - measured.exponent));
      row.accumulate(of_a, of_b, scaled_weight(measured_a, measured_b, weight, measured.exponent), kept, sum);
    }
    store(sum, measured.exponent, measured.finite);
  }
}

// Blocks that a multiprocessor is to hold, 0 for the compiler's choice: here it would spill to make room for a seventh.
template <typename T, int kLog2, bool kManyItems>
constexpr int kProductBlocks = sizeof(T) == 4 && kLog2 == 10 && !kManyItems ? 6 : 0;

template <typename T, int kLog2, bool kManyItems>
__global__ void __launch_bounds__(kBlockThreads<kLog2>, kProductBlocks<T, kLog2, kManyItems>)
    product_kernel(BindSuperposeParams params, Product product, Storage storage, const TwiddlePoint<T>* twiddles) {
  sum_of_products<kManyItems>(FftRow<T, kLog2>(twiddles, params.rows, params.dim), params, product, storage);
}

template <typename T, bool kManyItems>
__global__ void __launch_bounds__(kMixedThreads<T>)
    mixed_product_kernel(BindSuperposeParams params, Product product, Storage storage, const MixedPlan* plan) {
  sum_of_products<kManyItems>(MixedRow<T>(plan, kProductBuffers<kManyItems>), params, product, storage);
}

}  // namespace torch_hrr::kernels
