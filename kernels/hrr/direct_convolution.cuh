// The direct O(D^2) sums for rows of at most 16 elements: bind, unbind, records and their gradients.
//
// A row is held by 2^ceil(log2 D) neighbouring lanes, one element each, and every sum runs in double in ascending order
// of m. Products of float32 rows cannot leave the range of double, so only double rows are ever scaled.
#pragma once

#include "kernels/hrr/row_io.cuh"

namespace torch_hrr::kernels {

constexpr int kDirectThreads = 128;

HRR_HOST_DEVICE int direct_lanes(int64_t dim) {
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

  HRR_DEVICE bool holds_element() const {
    return lane < dim;
  }

  HRR_DEVICE double element(double value, int n) const {
    return shuffle(value, lane_index() - lane + n);
  }

  HRR_DEVICE double sum(double value) const {
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
      value = value + shuffle_xor(value, mask);
    }
    return value;
  }

  HRR_DEVICE double largest(double value) const {
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
      const double other = shuffle_xor(value, mask);
      value = value < other ? other : value;
    }
    return value;
  }

  HRR_DEVICE bool any(bool predicate) const {
    return largest(predicate ? 1.0 : 0.0) > 0;
  }

  // max |x|, infinite if an element is NaN or infinite
  HRR_DEVICE double magnitude(double value) const {
    return largest(is_finite(value) ? ::fabs(value) : kInfinity<double>);
  }

  template <typename S>
  HRR_DEVICE double load(const S* row) const {
    return pending && holds_element() ? static_cast<double>(row[lane]) : 0.0;
  }

  // convolution: sum_m a[m] b[(n-m) mod D]; correlation: sum_m a[(n+m) mod D] b[m]
  HRR_DEVICE double product(Product kind, double a, double b) const {
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
  template <typename S>
  HRR_DEVICE void store(double value, int exponent, bool finite, S* row) {
    if (pending && holds_element()) {
      const PowerOfTwo<double> power = exponent == 0 ? PowerOfTwo<double>() : PowerOfTwo<double>(exponent);
      // Through the compute type: a half type rounds from float everywhere.
      using T = compute_t<S>;
      row[lane] = static_cast<S>(finite ? static_cast<T>(value * power.first * power.second) : kNan<T>);
    }
    pending = false;
  }
};

HRR_DEVICE LaneRow lane_row(int64_t dim, int64_t rows, int64_t& index) {
  const int lanes = direct_lanes(dim);
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * block_threads() + thread_rank();
  index = thread / lanes;
  const bool exists = index < rows;
  index = exists ? index : 0;
  return {static_cast<int>(thread % lanes), lanes, static_cast<int>(dim), exists};
}

template <typename S>
__global__ void __launch_bounds__(kDirectThreads) direct_product_kernel(RecordParams params, Product product) {
  int64_t r = 0;
  LaneRow row = lane_row(params.dim, params.rows, r);
  const S* const a = static_cast<const S*>(params.a) + placed_row(params.map, 0, r);
  const S* const b = static_cast<const S*>(params.b) + placed_row(params.map, 1, r);
  const S* weights = static_cast<const S*>(params.weights);
  weights = weights == nullptr ? nullptr : weights + placed_row(params.map, 2, r);
  S* const out = static_cast<S*>(params.out) + r * params.dim;
  for (bool scaled = false;; scaled = true) {
    int exponent = 0;
    bool finite = true;
    bool any = false;
    double sum = 0;
    // The scaled attempt measures all items before it sums them.
    for (int pass = scaled ? 0 : 1; pass < 2; ++pass) {
      for (int64_t k = 0; k < params.items; ++k) {
        double item_a = row.load(a + k * params.item_stride_a);
        double item_b = row.load(b + k * params.item_stride_b);
        double weight = weights == nullptr ? 1.0 : static_cast<double>(weights[k * params.item_stride_weights]);
        if (scaled) {
          const double largest_a = row.magnitude(item_a);
          const double largest_b = row.magnitude(item_b);
          const int exponent_a = scale_exponent(largest_a);
          const int exponent_b = scale_exponent(largest_b);
          if (pass == 0) {
            finite = finite && is_finite(largest_a) && is_finite(largest_b) && is_finite(weight);
            if (finite && largest_a != 0 && largest_b != 0 && weight != 0) {
              const int item_exponent = exponent_a + exponent_b + ::ilogb(weight);
              exponent = any && exponent > item_exponent ? exponent : item_exponent;
              any = true;
            }
            continue;
          }
          item_a *= power_of_two<double>(-exponent_a);
          item_b *= power_of_two<double>(-exponent_b);
          // The exponent does not bound the weight of an item that is zero.
          weight = largest_a == 0 || largest_b == 0 ? 0 : ::ldexp(weight, exponent_a + exponent_b - exponent);
        }
        sum = multiply_add(weight, row.product(product, item_a, item_b), sum);
      }
    }
    bool good = is_finite(sum);
    if (params.normalize) {
      const double squared = row.sum(sum * sum);
      const NormalizingScale<double> scale(squared, exponent, params.eps);
      good = safe_squared_norm(squared);
      sum *= scale.factor;
      exponent = scale.exponent;
    }
    const bool repeat = !scaled && row.any(row.pending && !good);
    if (!repeat) {
      row.store(sum, exponent, finite, out);
    }
    if (!warp_any(repeat)) {
      break;
    }
  }
}

template <typename S>
__global__ void __launch_bounds__(kDirectThreads) direct_backward_kernel(BindingBackwardParams params) {
  int64_t r = 0;
  LaneRow row = lane_row(params.dim, params.rows, r);
  LaneRow other = row;  // the state of grad_b
  double grad = row.load(static_cast<const S*>(params.grad) + placed_row(params.map, 0, r));
  double a = row.load(static_cast<const S*>(params.a) + placed_row(params.map, 1, r));
  double b = row.load(static_cast<const S*>(params.b) + placed_row(params.map, 2, r));
  S* const grad_a = static_cast<S*>(params.grad_a);
  S* const grad_b = static_cast<S*>(params.grad_b);
  const bool convolution = params.product == Product::kConvolution;
  int exponent_grad = 0;
  int exponent_a = 0;
  int exponent_b = 0;
  bool finite_grad = true;
  bool finite_a = true;
  bool finite_b = true;
  for (bool scaled = false;; scaled = true) {
    if (scaled) {
      const double largest_grad = row.magnitude(grad);
      const double largest_a = row.magnitude(a);
      const double largest_b = row.magnitude(b);
      finite_grad = is_finite(largest_grad);
      finite_a = is_finite(largest_a);
      finite_b = is_finite(largest_b);
      exponent_grad = scale_exponent(largest_grad);
      exponent_a = scale_exponent(largest_a);
      exponent_b = scale_exponent(largest_b);
      grad *= power_of_two<double>(-exponent_grad);
      a *= power_of_two<double>(-exponent_a);
      b *= power_of_two<double>(-exponent_b);
    }
    double upstream = grad;
    double factor = 1;
    int out_exponent_a = exponent_grad + exponent_b;
    int out_exponent_b = exponent_grad + exponent_a;
    bool good = true;
    bool finite = finite_grad;
    if (params.normalize) {
      const double c = row.product(Product::kConvolution, a, b);
      const double squared = row.sum(c * c);
      const double dot = row.sum(c * grad);
      const NormalizingScale<double> scale(squared, exponent_a + exponent_b, params.eps);
      upstream = multiply_add(scale.above_eps ? -(dot / squared) : 0.0, c, grad);
      factor = scale.factor;
      out_exponent_a = exponent_grad - exponent_a + scale.exponent;
      out_exponent_b = exponent_grad - exponent_b + scale.exponent;
      good = safe_squared_norm(squared);
      finite = finite_grad && finite_a && finite_b;
    }
    const double product_a =
        row.product(convolution ? Product::kCorrelation : Product::kConvolution, upstream, b) * factor;
    const double product_b =
        row.product(Product::kCorrelation, convolution ? upstream : a, convolution ? a : upstream) * factor;
    const bool repeat_a = !scaled && row.any(row.pending && !(good && is_finite(product_a)));
    const bool repeat_b = !scaled && row.any(other.pending && !(good && is_finite(product_b)));
    if (!repeat_a && grad_a != nullptr) {
      row.store(product_a, out_exponent_a, finite && finite_b, grad_a + r * params.dim);
    }
    if (!repeat_b && grad_b != nullptr) {
      other.store(product_b, out_exponent_b, finite && finite_a, grad_b + r * params.dim);
    }
    if (!warp_any((repeat_a && grad_a != nullptr) || (repeat_b && grad_b != nullptr))) {
      break;
    }
  }
}

}  // namespace torch_hrr::kernels
