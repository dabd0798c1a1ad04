// Kernels of bind, unbind, bind_normalize and bind_superpose for rows that the native transforms reach.
//
// Every row transforms both operands, shared or not: rows run beside each other here, so a spectrum made once would
// have to travel through memory.
#pragma once

#include "kernels/hrr/row_io.cuh"

namespace torch_hrr::kernels {

// One output row: the weighted sum of the products of its items. kRecord: any number of items, convolution; else one.
template <typename S, int kLog2, bool kRecord>
struct ProductRow {
  using T = compute_t<S>;
  using Fft = RowFft<T, kLog2>;

  Fft fft;
  const S* a;
  const S* b;
  const S* weights;
  S* out;
  int64_t item_stride_a;
  int64_t item_stride_b;
  int64_t item_stride_weights;
  int64_t items;
  double eps;
  int dim;
  int row_dim;  // dim, or 0 for a row beyond the last: its threads meet every barrier, read and store nothing
  Product product;
  bool normalize;
  bool pending;  // this row is still to be stored

  HRR_DEVICE T weight(int64_t k) const {
    return weights == nullptr ? T{1} : static_cast<T>(weights[k * item_stride_weights]);
  }
  HRR_DEVICE T magnitude_a(int64_t k) const {
    return row_magnitude(fft, a + k * item_stride_a, row_dim);
  }
  HRR_DEVICE T magnitude_b(int64_t k) const {
    return row_magnitude(fft, b + k * item_stride_b, row_dim);
  }

  // The largest of exponent(a_k) + exponent(b_k) + exponent(w_k) over items that are not zero; finite = the inputs are.
  HRR_DEVICE int measure(bool& finite) const {
    int exponent = 0;
    bool any = false;
    finite = true;
    for (int64_t k = 0; k < items; ++k) {
      const T largest_a = magnitude_a(k);
      const T largest_b = magnitude_b(k);
      const T largest_weight = ::fabs(weight(k));
      finite = finite && is_finite(largest_a) && is_finite(largest_b) && is_finite(largest_weight);
      if (finite && largest_a != T{0} && largest_b != T{0} && largest_weight != T{0}) {
        const int sum = scale_exponent(largest_a) + scale_exponent(largest_b) + ::ilogb(largest_weight);
        exponent = any && exponent > sum ? exponent : sum;
        any = true;
      }
    }
    return exponent;
  }

  // The spectra of item k and its weight; kScaled: from inputs times powers of two, for a sum that stands for
  // sum 2^exponent.
  template <bool kScaled>
  HRR_DEVICE T load_item(int64_t k, int exponent, Complex<T> (&bins_a)[kPointsPerThread],
                         Complex<T> (&bins_b)[kPointsPerThread]) const {
    T factor_a = 1;
    T factor_b = 1;
    T item_weight = weight(k);
    if constexpr (kScaled) {
      const T largest_a = magnitude_a(k);
      const T largest_b = magnitude_b(k);
      const int exponent_a = scale_exponent(largest_a);
      const int exponent_b = scale_exponent(largest_b);
      factor_a = power_of_two<T>(-exponent_a);
      factor_b = power_of_two<T>(-exponent_b);
      // The exponent does not bound the weight of an item that is zero.
      item_weight =
          largest_a == T{0} || largest_b == T{0} ? T{0} : ::ldexp(item_weight, exponent_a + exponent_b - exponent);
    }
    load_row(fft, a + k * item_stride_a, row_dim, factor_a, bins_a);
    fft.forward(bins_a);
    load_row(fft, b + k * item_stride_b, row_dim, factor_b, bins_b);
    fft.forward(bins_b);
    return item_weight;
  }

  template <bool kScaled>
  HRR_DEVICE void sum_of_products(int exponent, Complex<T> (&sum)[kPointsPerThread]) const {
    Complex<T> bins[kPointsPerThread];
    if constexpr (kRecord) {
      Complex<T> other[kPointsPerThread];
      for (int i = 0; i < kPointsPerThread; ++i) {
        sum[i] = {T{0}, T{0}};
      }
      for (int64_t k = 0; k < items; ++k) {
        const T item_weight = load_item<kScaled>(k, exponent, bins, other);
        AccumulatePairs<T> visit{bins, other, sum, item_weight};
        for_each_pair(fft, visit);
      }
    } else {
      load_item<kScaled>(0, exponent, bins, sum);
      multiply_bins(fft, product, bins, sum, sum);
    }
  }

  // Stores the row. Without kScaled, a row whose result left the range of T stays pending; true in the whole team if
  // there is one.
  template <bool kScaled>
  HRR_DEVICE bool run() {
    constexpr T kInversePoints = T{1} / Fft::kPoints;
    const bool padded = dim != 2 * Fft::kPoints;
    bool finite = true;
    int exponent = 0;
    if constexpr (kScaled) {
      exponent = measure(finite);
    }
    Complex<T> v[kPointsPerThread];
    T c[kPointsPerThread];
    sum_of_products<kScaled>(exponent, v);
    T factor = kInversePoints;
    bool good = true;
    if (normalize && !padded) {
      // Parseval: norm2^2 of the row is sum |bin|^2 / M, known before the inverse.
      const T squared = fft.row_sum(inner_product(v, v)) * kInversePoints;
      const NormalizingScale<T> scale(squared, exponent, eps);
      good = safe_squared_norm(squared);
      factor *= scale.factor;
      exponent = scale.exponent;
    }
    scale_bins(v, factor);
    fft.inverse(v);
    factor = 1;
    if (padded) {
      fold_row(fft, v, dim, product, c);
      if (normalize) {
        T squared = 0;
        for (int i = 0; i < kPointsPerThread; ++i) {
          squared = multiply_add(c[i], c[i], squared);
        }
        squared = fft.row_sum(squared);
        const NormalizingScale<T> scale(squared, exponent, eps);
        good = safe_squared_norm(squared);
        factor = scale.factor;
        exponent = scale.exponent;
      } else {
        good = all_finite(c);
      }
    } else if (!normalize) {
      good = all_finite(v);
    }
    bool repeat = false;
    if constexpr (!kScaled) {
      repeat = fft.team_any(pending && !good);
      if (repeat) {
        good = !fft.row_any(!good);
      }
    }
    if (pending && (good || kScaled)) {
      const PowerOfTwo<T> power = exponent == 0 ? PowerOfTwo<T>() : PowerOfTwo<T>(exponent);
      if (!finite) {
        store_nan(fft, dim, out);
      } else if (padded) {
        store_folded(fft, c, dim, factor, power, out);
      } else {
        store_row(fft, v, power, out);
      }
      pending = false;
    }
    return repeat;
  }
};

template <typename S, int kLog2, bool kRecord>
HRR_COLD void run_scaled(ProductRow<S, kLog2, kRecord> row) {
  row.template run<true>();
}

// out[r] = sum_k w[r,k] (a[r,k] (*) b[r,k]) / max(norm2, eps). Blocks cover all rows: no output that fits into memory
// needs more than a grid has.
template <typename S, int kLog2, bool kRecord>
__global__ void __launch_bounds__(kBlockThreads<kLog2>)
    product_kernel(RecordParams params, Product product, const TwiddlePoint<compute_t<S>>* twiddles) {
  using Row = ProductRow<S, kLog2, kRecord>;
  const typename Row::Fft fft(twiddles);
  const int64_t index = static_cast<int64_t>(blockIdx.x) * Row::Fft::rows_per_block() + fft.row;
  const bool exists = index < params.rows;
  const int64_t r = exists ? index : 0;
  const S* const weights = static_cast<const S*>(params.weights);
  const int dim = static_cast<int>(params.dim);
  Row row{fft,
          static_cast<const S*>(params.a) + placed_row(params.map, 0, r),
          static_cast<const S*>(params.b) + placed_row(params.map, 1, r),
          weights == nullptr ? nullptr : weights + placed_row(params.map, 2, r),
          static_cast<S*>(params.out) + r * params.dim,
          params.item_stride_a,
          params.item_stride_b,
          params.item_stride_weights,
          params.items,
          params.eps,
          dim,
          exists ? dim : 0,
          product,
          params.normalize,
          exists};
  if (row.template run<false>()) {
    run_scaled(row);
  }
}

}  // namespace torch_hrr::kernels
