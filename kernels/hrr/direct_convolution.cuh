// The direct O(D^2) sums for rows of at most 16 elements: bind, unbind, records and their gradients.
//
// A row is held by 2^ceil(log2 D) neighbouring lanes, one element each, and every sum runs in double in ascending order
// of m. Products of float32 rows cannot leave the range of double, so only double rows are ever scaled.
#pragma once

#include "kernels/hrr/row_io.cuh"

namespace torch_hrr::kernels {

constexpr int kDirectThreads = 128;

KERNEL_HOST_DEVICE int direct_lanes(int64_t dim) {
  int lanes = 1;
  while (lanes < dim) {
    lanes *= 2;
  }
  return lanes;
}

inline int64_t direct_rows_per_block(int64_t dim, int threads) {
  return threads / direct_lanes(dim);
}

// The lanes of one row; `value` is element `lane` of a row, 0 from dim on.
struct LaneRow {
  int lane;
  int lanes;
  int dim;
  bool pending;  // exists and is still to be stored

  KERNEL_DEVICE bool holds_element() const {
    return lane < dim;
  }

  KERNEL_DEVICE double element(double value, int n) const {
    return shuffle(value, lane_index() - lane + n);
  }

  KERNEL_DEVICE double sum(double value) const {
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
      value = value + shuffle_xor(value, mask);
    }
    return value;
  }

  KERNEL_DEVICE double largest(double value) const {
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
      const double other = shuffle_xor(value, mask);
      value = value < other ? other : value;
    }
    return value;
  }

  KERNEL_DEVICE bool any(bool predicate) const {
    return largest(predicate ? 1.0 : 0.0) > 0;
  }

  // of max |x|, infinite if an element is NaN or infinite
  KERNEL_DEVICE MeasuredRow measure(double value) const {
    const double magnitude = largest(is_finite(value) ? ::fabs(value) : kInfinity<double>);
    return {scale_exponent(magnitude), is_finite(magnitude), magnitude == 0};
  }

  template <typename T>
  KERNEL_DEVICE double load(StoredInput<T> row) const {
    return pending && holds_element() ? static_cast<double>(row[lane]) : 0.0;
  }

  // convolution: sum_m a[m] b[(n-m) mod D]; correlation: sum_m a[(n+m) mod D] b[m]
  KERNEL_DEVICE double product(Product kind, double a, double b) const {
    const int n = holds_element() ? lane : 0;
    double total = 0;
    for (int m = 0; m < dim; ++m) {
      const int other =
          kind == Product::kConvolution ? (n >= m ? n - m : n - m + dim) : (n + m < dim ? n + m : n + m - dim);
      const double fixed = element(kind == Product::kConvolution ? a : b, m);
      const double moving = element(kind == Product::kConvolution ? b : a, other);
      total = multiply_add(fixed, moving, total);
    }
    return holds_element() ? total : 0.0;
  }

  // Stores value 2^exponent, or NaN where the inputs are not finite.
  template <typename T>
  KERNEL_DEVICE void store(double value, int exponent, bool finite, StoredOutput<T> row) {
    if (pending && holds_element()) {
      // Through the compute type: a half type rounds from float everywhere.
      const T rounded = finite ? static_cast<T>(ScaleFactors<double>(exponent).times(value)) : kNan<T>;
      row.visit([&](auto* elements) {
        using S = std::remove_reference_t<decltype(*elements)>;
        elements[lane] = static_cast<S>(rounded);
      });
    }
    pending = false;
  }
};

KERNEL_DEVICE LaneRow lane_row(int64_t dim, int64_t rows, int64_t& index) {
  const int lanes = direct_lanes(dim);
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * block_threads() + thread_rank();
  index = thread / lanes;
  const bool exists = index < rows;
  index = exists ? index : 0;
  return {static_cast<int>(thread % lanes), lanes, static_cast<int>(dim), exists};
}

// The items of one output row; T is the compute type of the rows, whatever the sums run in.
template <typename T>
struct DirectItems {
  StoredInput<T> a;
  StoredInput<T> b;
  StoredInput<T> weights;
  int64_t stride_a;
  int64_t stride_b;
  int64_t stride_weights;
  int64_t count;

  KERNEL_DEVICE DirectItems(const BindSuperposeParams& params, Storage storage, int64_t r)
      : a(stored_input<T>(params.a, storage) + placed_row(params.map, 0, r)),
        b(stored_input<T>(params.b, storage) + placed_row(params.map, 1, r)),
        weights(stored_input<T>(params.weights, storage)),
        stride_a(params.item_stride_a),
        stride_b(params.item_stride_b),
        stride_weights(params.item_stride_weights),
        count(params.items) {
    if (weights.exists()) {
      weights = weights + placed_row(params.map, 2, r);
    }
  }

  KERNEL_DEVICE double load_a(const LaneRow& row, int64_t k) const {
    return row.load(a + k * stride_a);
  }
  KERNEL_DEVICE double load_b(const LaneRow& row, int64_t k) const {
    return row.load(b + k * stride_b);
  }
  KERNEL_DEVICE double weight(int64_t k) const {
    return weights.exists() ? static_cast<double>(weights[k * stride_weights]) : 1.0;
  }

  // As ProductRow::measure.
  KERNEL_DEVICE MeasuredRow measure(const LaneRow& row) const {
    MeasuredRow sum{0, true, true};
    for (int64_t k = 0; k < count; ++k) {
      const MeasuredRow item_a = row.measure(load_a(row, k));
      const MeasuredRow item_b = row.measure(load_b(row, k));
      add_measured_item(item_a, item_b, weight(k), sum);
    }
    return sum;
  }

  // Notes which operands of a weighed item are not zero in this lane.
  KERNEL_DEVICE double sum_of_products(const LaneRow& row, Product product, bool scaled, int exponent, bool& nonzero_a,
                                       bool& nonzero_b) const {
    double sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      double item_a = load_a(row, k);
      double item_b = load_b(row, k);
      double item_weight = weight(k);
      if (scaled) {
        const MeasuredRow of_a = row.measure(item_a);
        const MeasuredRow of_b = row.measure(item_b);
        item_a *= exact_power<double>(-of_a.exponent);
        item_b *= exact_power<double>(-of_b.exponent);
        item_weight = scaled_weight(of_a, of_b, item_weight, exponent);
      }
      nonzero_a = nonzero_a || (item_weight != 0 && item_a != 0);
      nonzero_b = nonzero_b || (item_weight != 0 && item_b != 0);
      sum = multiply_add(item_weight, row.product(product, item_a, item_b), sum);
    }
    return sum;
  }
};

template <typename T>
__global__ void __launch_bounds__(kDirectThreads)
    direct_product_kernel(BindSuperposeParams params, Product product, Storage storage) {
  int64_t r = 0;
  LaneRow row = lane_row(params.dim, params.rows, r);
  const DirectItems<T> items(params, storage, r);
  const auto out = stored_output<T>(params.out, storage) + r * params.dim;
#pragma unroll 1
  for (bool scaled = false;; scaled = true) {
    int exponent = 0;
    bool finite = true;
    if (scaled) {
      const MeasuredRow inputs = items.measure(row);
      exponent = inputs.exponent;
      finite = inputs.finite;
    }
    bool nonzero_a = false;
    bool nonzero_b = false;
    double sum = items.sum_of_products(row, product, scaled, exponent, nonzero_a, nonzero_b);
    bool good = is_finite(sum);
    bool vanished = false;
    if (params.normalize) {
      const double squared = row.sum(sum * sum);
      const NormalizingScale<double> scale(squared, exponent, params.eps);
      good = safe_squared_norm(squared);
      vanished = squared == 0;
      sum *= scale.factor;
      exponent = scale.exponent;
    }
    bool repeat = !scaled && warp_any(row.pending && !good);
    if (repeat) {
      const bool zero_a = !row.any(nonzero_a);
      const bool zero_b = !row.any(nonzero_b);
      good = !row.any(!good) || (vanished && (zero_a || zero_b));
      repeat = warp_any(row.pending && !good);
    }
    if (good || scaled) {
      row.store(sum, exponent, finite, out);
    }
    if (!repeat) {
      break;
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kDirectThreads) direct_backward_kernel(BindBackwardParams params, Storage storage) {
  int64_t r = 0;
  LaneRow row = lane_row(params.dim, params.rows, r);
  LaneRow other = row;  // the state of grad_b
  double grad = row.load(stored_input<T>(params.grad, storage) + placed_row(params.map, 0, r));
  double a = row.load(stored_input<T>(params.a, storage) + placed_row(params.map, 1, r));
  double b = row.load(stored_input<T>(params.b, storage) + placed_row(params.map, 2, r));
  const bool convolution = params.product == Product::kConvolution;
  MeasuredRow of_grad;
  MeasuredRow of_a;
  MeasuredRow of_b;
#pragma unroll 1
  for (bool scaled = false;; scaled = true) {
    double upstream = grad;
    double factor = 1;
    int out_exponent_a = of_grad.exponent + of_b.exponent;
    int out_exponent_b = of_grad.exponent + of_a.exponent;
    bool good = true;
    bool finite = of_grad.finite;
    if (params.normalize) {
      const double c = row.product(Product::kConvolution, a, b);
      const double squared = row.sum(c * c);
      const double dot = row.sum(c * grad);
      const NormalizingScale<double> scale(squared, of_a.exponent + of_b.exponent, params.eps);
      upstream = multiply_add(scale.above_eps ? -(dot / squared) : 0.0, c, grad);
      factor = gradient_factor(scale, squared, params.eps);
      out_exponent_a = of_grad.exponent - of_a.exponent + scale.exponent;
      out_exponent_b = of_grad.exponent - of_b.exponent + scale.exponent;
      good = safe_squared_norm(squared);
      if (warp_any(squared == 0)) {
        // What rows of zeros give is zero as it stands.
        const bool zero_grad = row.measure(grad).zero;
        const bool zero_a = row.measure(a).zero;
        const bool zero_b = row.measure(b).zero;
        good = good || (squared == 0 && (zero_grad || (zero_a && zero_b)));
      }
      finite = of_grad.finite && of_a.finite && of_b.finite;
    }
    const double product_a =
        row.product(convolution ? Product::kCorrelation : Product::kConvolution, upstream, b) * factor;
    const double product_b =
        row.product(Product::kCorrelation, convolution ? upstream : a, convolution ? a : upstream) * factor;
    const bool repeat_a = !scaled && row.any(row.pending && !(good && is_finite(product_a)));
    const bool repeat_b = !scaled && row.any(other.pending && !(good && is_finite(product_b)));
    const auto grad_a = stored_output<T>(params.grad_a, storage);
    const auto grad_b = stored_output<T>(params.grad_b, storage);
    if (!repeat_a && grad_a.exists()) {
      row.store(product_a, out_exponent_a, finite && of_b.finite, grad_a + r * params.dim);
    }
    if (!repeat_b && grad_b.exists()) {
      other.store(product_b, out_exponent_b, finite && of_a.finite, grad_b + r * params.dim);
    }
    if (!warp_any((repeat_a && grad_a.exists()) || (repeat_b && grad_b.exists()))) {
      break;
    }
    of_grad = row.measure(grad);
    of_a = row.measure(a);
    of_b = row.measure(b);
    grad *= exact_power<double>(-of_grad.exponent);
    a *= exact_power<double>(-of_a.exponent);
    b *= exact_power<double>(-of_b.exponent);
  }
}

}  // namespace torch_hrr::kernels
