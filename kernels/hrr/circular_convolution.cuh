// Kernels of bind, unbind, bind_normalize and bind_superpose for rows that the native transforms reach.
//
// Every row transforms both operands, shared or not: rows run beside each other here, so a spectrum made once would
// have to travel through memory. A row whose result leaves the range of T goes through the same body a second time,
// from inputs scaled by powers of two.
#pragma once

#include "kernels/hrr/pair_products.cuh"
#include "kernels/hrr/row_io.cuh"

namespace torch_hrr::kernels {

// One output row: the weighted sum of the products of its items. kManyItems: any number of items, convolution; else
// one.
template <typename T, int kLog2, bool kManyItems>
struct ProductRow : ThreadRow<T, kLog2> {
  using Base = ThreadRow<T, kLog2>;
  using Base::dim;
  using Base::exists;
  using Base::fft;
  using Base::r;
  using Base::row_dim;
  using State = RowState;
  using typename Base::Fft;

  StoredInput<T> a;
  StoredInput<T> b;
  StoredInput<T> weights;
  StoredOutput<T> out;
  int64_t item_stride_a;
  int64_t item_stride_b;
  int64_t item_stride_weights;
  int64_t items;
  double eps;
  Product product;
  bool normalize;

  KERNEL_DEVICE ProductRow(const TwiddlePoint<T>* twiddles, int rank, const BindSuperposeParams& params,
                           Product product_, Storage storage)
      : Base(twiddles, params.rows, params.dim, rank),
        a(stored_input<T>(params.a, storage) + placed_row(params.map, 0, r)),
        b(stored_input<T>(params.b, storage) + placed_row(params.map, 1, r)),
        weights(stored_input<T>(params.weights, storage)),
        out(stored_output<T>(params.out, storage) + r * params.dim),
        item_stride_a(params.item_stride_a),
        item_stride_b(params.item_stride_b),
        item_stride_weights(params.item_stride_weights),
        items(params.items),
        eps(params.eps),
        product(product_),
        normalize(params.normalize) {
    if (weights.exists()) {
      weights = weights + placed_row(params.map, 2, r);
    }
  }

  KERNEL_DEVICE T weight(int64_t k) const {
    return weights.exists() ? weights[k * item_stride_weights] : T{1};
  }
  KERNEL_DEVICE MeasuredRow measure_a(int64_t k) const {
    return measure_row(fft, a + k * item_stride_a, row_dim);
  }
  KERNEL_DEVICE MeasuredRow measure_b(int64_t k) const {
    return measure_row(fft, b + k * item_stride_b, row_dim);
  }

  KERNEL_DEVICE MeasuredRow measure() const {
    MeasuredRow sum{0, true, true};
    for (int64_t k = 0; k < items; ++k) {
      const MeasuredRow item_a = measure_a(k);
      const MeasuredRow item_b = measure_b(k);
      add_measured_item(item_a, item_b, weight(k), sum);
    }
    return sum;
  }

  // The spectra of item k and its weight; where scaled, of inputs times powers of two, for a sum that stands for
  // sum 2^exponent. Notes which operands of a weighed item are not zero.
  KERNEL_DEVICE T load_item(int64_t k, bool scaled, int exponent, Complex<T> (&bins_a)[kPointsPerThread],
                            Complex<T> (&bins_b)[kPointsPerThread], bool& nonzero_a, bool& nonzero_b) const {
    MeasuredRow item_a;
    MeasuredRow item_b;
    T item_weight = weight(k);
    if (scaled) {
      item_a = measure_a(k);
      item_b = measure_b(k);
      item_weight = scaled_weight(item_a, item_b, item_weight, exponent);
    }
    load_row(fft, a + k * item_stride_a, row_dim, bins_a);
    scale_down(bins_a, item_a.exponent);
    nonzero_a = nonzero_a || (normalize && item_weight != T{0} && any_nonzero(bins_a));
    fft.forward(bins_a);
    load_row(fft, b + k * item_stride_b, row_dim, bins_b);
    scale_down(bins_b, item_b.exponent);
    nonzero_b = nonzero_b || (normalize && item_weight != T{0} && any_nonzero(bins_b));
    fft.forward(bins_b);
    return item_weight;
  }

  KERNEL_DEVICE void sum_of_products(bool scaled, int exponent, Complex<T> (&sum)[kPointsPerThread], bool& nonzero_a,
                                     bool& nonzero_b) const {
    Complex<T> bins[kPointsPerThread];
    if constexpr (kManyItems) {
      Complex<T> other[kPointsPerThread];
      for (int i = 0; i < kPointsPerThread; ++i) {
        sum[i] = {T{0}, T{0}};
      }
      for (int64_t k = 0; k < items; ++k) {
        const T item_weight = load_item(k, scaled, exponent, bins, other, nonzero_a, nonzero_b);
        AccumulatePairs<T> visit{bins, other, sum, item_weight};
        for_each_pair(fft, visit);
      }
    } else {
      load_item(0, scaled, exponent, bins, sum, nonzero_a, nonzero_b);
      multiply_bins(fft, product, bins, sum, sum);
    }
  }

  // True in the whole team if a row must go through this again.
  KERNEL_DEVICE bool run(bool scaled, State& state) const {
    constexpr T kInversePoints = T{1} / Fft::kPoints;
    const bool padded = dim != 2 * Fft::kPoints;
    int exponent = 0;
    if (scaled) {
      const MeasuredRow inputs = measure();
      exponent = inputs.exponent;
      this->store_nan_unless(inputs.finite, out, state.stored);
    }
    Complex<T> v[kPointsPerThread];
    T c[kPointsPerThread];
    bool nonzero_a = false;
    bool nonzero_b = false;
    sum_of_products(scaled, exponent, v, nonzero_a, nonzero_b);
    bool good = true;
    bool vanished = false;
    const auto normalizing_factor = [&](T squared) {
      const NormalizingScale<T> scale(squared, exponent, eps);
      good = safe_squared_norm(squared);
      vanished = squared == T{0};
      exponent = scale.exponent;
      return scale.factor;
    };
    T factor = kInversePoints;
    if (normalize && !padded) {
      // Parseval: norm2^2 of the row is sum |bin|^2 / M, known before the inverse.
      factor *= normalizing_factor(fft.row_sum(inner_product(v, v)) * kInversePoints);
    }
    scale_points(v, factor);
    fft.inverse(v);
    factor = 1;
    if (padded) {
      fold_row(fft, v, dim, product, c);
      if (normalize) {
        T squared = 0;
        for (int i = 0; i < kPointsPerThread; ++i) {
          squared = multiply_add(c[i], c[i], squared);
        }
        factor = normalizing_factor(fft.row_sum(squared));
      } else {
        good = all_finite(c);
      }
    } else if (!normalize) {
      good = all_finite(v);
    }
    bool repeat = !scaled && fft.team_any(exists() && !good);
    if (repeat) {
      // A row of zeros leaves the safe range, but its product is zero as it stands.
      const bool zero_a = !fft.row_any(nonzero_a);
      const bool zero_b = !fft.row_any(nonzero_b);
      good = !fft.row_any(!good) || (vanished && (zero_a || zero_b));
      repeat = fft.team_any(exists() && !good);
    }
    if (exists() && !state.stored && (good || scaled)) {
      if (padded) {
        store_folded(fft, c, dim, factor, exponent, out);
      } else {
        store_row(fft, v, exponent, out);
      }
      state.stored = true;
    }
    return repeat;
  }
};

// Blocks that a multiprocessor is to hold, 0 for the compiler's choice: here it would spill to make room for a seventh.
template <typename T, int kLog2, bool kManyItems>
constexpr int kProductBlocks = sizeof(T) == 4 && kLog2 == 10 && !kManyItems ? 6 : 0;

// out[r] = sum_k w[r,k] (a[r,k] (*) b[r,k]) / max(norm2, eps)
template <typename T, int kLog2, bool kManyItems>
__global__ void __launch_bounds__(kBlockThreads<kLog2>, kProductBlocks<T, kLog2, kManyItems>)
    product_kernel(BindSuperposeParams params, Product product, Storage storage, const TwiddlePoint<T>* twiddles) {
  run_row<ProductRow<T, kLog2, kManyItems>>(twiddles, params, product, storage);
}

}  // namespace torch_hrr::kernels
