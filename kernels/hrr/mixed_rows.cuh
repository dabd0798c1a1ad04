// Kernels of HRR operators for rows of any length that mixed_fft.cuh transforms: a block a row.
//
// A row of even length lies in shared memory as D/2 points or their spectrum, or split into its own bins A_k in the
// places of that spectrum, with A_0 + i A_{D/2} in the first; one of odd length as D points or its bins with their
// mirror images. Each buffer holds a row. A row is measured when it is loaded and scaled by a power of two where it is
// far from 1, so that no result needs a second round.
#pragma once

#include "kernels/fft/mixed_fft.cuh"
#include "kernels/hrr/bin_pairs.h"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/row_io.cuh"
#include "kernels/hrr/spectral_map.cuh"

namespace torch_hrr::kernels {

// a b, or a conj(b)
template <typename T>
KERNEL_DEVICE Complex<T> product_of_bins(Product product, Complex<T> a, Complex<T> b) {
  return product == Product::kConvolution ? multiply(a, b) : multiply_conjugate(a, b);
}

// Rows whose largest element is within 2^+-12 are not scaled: 2^14 of them have products whose squares float holds.
constexpr int kNearExponent = 12;

template <typename T>
struct MixedRow {
  using Point = TwiddlePoint<T>;

  const MixedPlan* plan;
  MixedTable<T> table;
  int64_t r;
  int dim;
  int points;
  bool even;
  int mask;
  int stride;  // from a buffer to the next
  Point* shared;
  T* partials;

  KERNEL_DEVICE MixedRow(const MixedPlan* plan_, int buffers)
      : plan(plan_),
        table(plan_),
        r(blockIdx.x),
        dim(plan_->dim),
        points(plan_->points),
        even(dim % 2 == 0),
        mask(mixed_mask<T>(plan_)),
        stride(mixed_buffer_points<T>(points)),
        shared(dynamic_shared<Point>()),
        partials(reinterpret_cast<T*>(shared + buffers * stride)) {}

  KERNEL_DEVICE Point& at(int buffer, int place) const {
    return shared[buffer * stride + mixed_place<T>(place, mask)];
  }
  KERNEL_DEVICE Complex<T> point(int buffer, int place) const {
    const Point p = at(buffer, place);
    return {p.re, p.im};
  }
  KERNEL_DEVICE void set(int buffer, int place, Complex<T> value) const {
    at(buffer, place) = {value.re, value.im};
  }

  // visit(place) for every point of a buffer, the same thread's each time
  template <typename Visit>
  KERNEL_DEVICE void for_each_point(const Visit& visit) const {
#pragma unroll 1
    for (int n = thread_rank(); n < points; n += block_threads()) {
      visit(n);
    }
  }

  // visit(place, mirror_place) once for every pair of mirror images, of which bins 0 and N/2 are their own
  template <typename Visit>
  KERNEL_DEVICE void for_each_pair(const Visit& visit) const {
    for_each_point([&](int place) {
      const int mirror = mixed_mirror(plan, place);
      if (place <= mirror) {
        visit(place, mirror);
      }
    });
  }

  // visit(k, place) for every bin 0 < k < D/2
  template <typename Visit>
  KERNEL_DEVICE void for_each_bin(const Visit& visit) const {
#pragma unroll 1
    for (int k = 1 + thread_rank(); 2 * k < dim; k += block_threads()) {
      visit(k, table.positions[k]);
    }
  }
  KERNEL_DEVICE void set_bin(int buffer, int place, Complex<T> bin) const {
    set(buffer, place, bin);
    if (!even) {
      set(buffer, mixed_mirror(plan, place), {bin.re, -bin.im});
    }
  }

  // Scales a buffer by the power of two that brings `largest` of it near 1, unless it is near enough as it stands; a
  // barrier comes first.
  KERNEL_DEVICE MeasuredRow scale_to_range(int buffer, T largest) const {
    largest = block_reduce(largest, partials, [](T a, T b) { return a < b ? b : a; });
    const int exponent = scale_exponent(largest);
    const bool is_near = -kNearExponent <= exponent && exponent <= kNearExponent;
    const MeasuredRow measured{is_near ? 0 : exponent, is_finite(largest), largest == T{0}};
    if (measured.exponent != 0) {
      scale(buffer, exact_power<T>(-measured.exponent));
    }
    return measured;
  }

  KERNEL_DEVICE void scale(int buffer, T factor) const {
    for_each_point([&](int n) {
      const Complex<T> z = point(buffer, n);
      set(buffer, n, {z.re * factor, z.im * factor});
    });
  }

  KERNEL_DEVICE static T larger(T largest, T x) {
    const T magnitude = ::fabs(x);
    return !is_finite(magnitude) ? kInfinity<T> : largest < magnitude ? magnitude : largest;
  }

  // Loads a row and transforms row 2^-exponent.
  KERNEL_DEVICE_STEP MeasuredRow load(int buffer, StoredInput<T> row) const {
    T largest = 0;
    const auto put = [&](int n, Complex<T> z) {
      set(buffer, n, z);
      largest = larger(larger(largest, z.re), z.im);
    };
    block_sync();
    row.visit([&](const auto* elements) {
      using S = std::remove_cvref_t<decltype(*elements)>;
      if (!even) {
        for_each_point([&](int n) { put(n, {static_cast<T>(elements[n]), T{0}}); });
      } else if (is_run_aligned<S, 2>(elements)) {
        for_each_point([&](int n) {
          const auto run = *reinterpret_cast<const ElementRun<S, 2>*>(elements + 2 * n);
          put(n, {static_cast<T>(run.elements[0]), static_cast<T>(run.elements[1])});
        });
      } else {
        for_each_point([&](int n) { put(n, {static_cast<T>(elements[2 * n]), static_cast<T>(elements[2 * n + 1])}); });
      }
    });
    const MeasuredRow measured = scale_to_range(buffer, largest);
    mixed_transform<false, T>(plan, buffer * stride);
    return measured;
  }

  // From the spectrum of the points to the row's own bins, and back. Barriers come first and last.
  KERNEL_DEVICE_STEP void split(int buffer) const {
    block_sync();
    if (even) {
      for_each_pair([&](int place, int mirror) {
        const Complex<T> z = point(buffer, place);
        const Point w = table.halves[place];
        const Pair<T> bins = bins_of_pair<T>({z, point(buffer, mirror)}, {w.re, w.im}, T{0.5});
        set(buffer, mirror, bins.mirror);
        set(buffer, place, place == 0 ? Complex<T>{z.re + z.im, z.re - z.im} : bins.k);
      });
    }
    block_sync();
  }
  KERNEL_DEVICE_STEP void merge(int buffer) const {
    block_sync();
    if (even) {
      for_each_pair([&](int place, int mirror) {
        const Complex<T> bin = point(buffer, place);
        const Point w = table.halves[place];
        const Pair<T> z = pair_of_bins<T>({bin, point(buffer, mirror)}, {w.re, w.im}, T{0.5});
        set(buffer, mirror, z.mirror);
        set(buffer, place, place == 0 ? Complex<T>{(bin.re + bin.im) * T{0.5}, (bin.re - bin.im) * T{0.5}} : z.k);
      });
    }
    block_sync();
  }

  // out = the row of this spectrum of points times factor N 2^exponent, or NaN if it is not finite.
  KERNEL_DEVICE_STEP void store(int buffer, T factor, int64_t exponent, bool finite, StoredOutput<T> out) const {
    mixed_transform<true, T>(plan, buffer * stride);
    const ScaleFactors<T> power(exponent);
    const auto stored = [&](T x) { return finite ? power.times(x * factor) : kNan<T>; };
    out.visit([&](auto* elements) {
      using S = std::remove_reference_t<decltype(*elements)>;
      const bool aligned = even && is_run_aligned<S, 2>(elements);
      for_each_point([&](int n) {
        const Complex<T> z = point(buffer, n);
        if (!even) {
          elements[n] = static_cast<S>(stored(z.re));
          return;
        }
        const ElementRun<S, 2> run{{static_cast<S>(stored(z.re)), static_cast<S>(stored(z.im))}};
        if (aligned) {
          *reinterpret_cast<ElementRun<S, 2>*>(elements + 2 * n) = run;
        } else {
          elements[2 * n] = run.elements[0];
          elements[2 * n + 1] = run.elements[1];
        }
      });
    });
  }

  // The bins of packed spectrum 2^-exponent.
  KERNEL_DEVICE_STEP MeasuredRow load_packed(int buffer, StoredInput<T> packed) const {
    T largest = 0;
    block_sync();
    packed.visit([&](const auto* elements) {
      for_each_bin([&](int k, int place) {
        const Complex<T> z{static_cast<T>(elements[packed_real(k)]), static_cast<T>(elements[packed_imaginary(k)])};
        set_bin(buffer, place, z);
        largest = larger(larger(largest, z.re), z.im);
      });
      if (thread_rank() == 0) {
        const Complex<T> ends{static_cast<T>(elements[0]), even ? static_cast<T>(elements[dim - 1]) : T{0}};
        set(buffer, 0, ends);
        largest = larger(larger(largest, ends.re), ends.im);
      }
    });
    return scale_to_range(buffer, largest);
  }

  // out = the packed spectrum of these bins times 2^exponent, or NaN if it is not finite.
  KERNEL_DEVICE_STEP void store_packed(int buffer, int64_t exponent, bool finite, StoredOutput<T> out) const {
    const ScaleFactors<T> power(exponent);
    out.visit([&](auto* elements) {
      using S = std::remove_reference_t<decltype(*elements)>;
      const auto stored = [&](T x) { return static_cast<S>(finite ? power.times(x) : kNan<T>); };
      for_each_bin([&](int k, int place) {
        const Complex<T> z = point(buffer, place);
        elements[packed_real(k)] = stored(z.re);
        elements[packed_imaginary(k)] = stored(z.im);
      });
      if (thread_rank() == 0) {
        const Complex<T> ends = point(buffer, 0);
        elements[0] = stored(ends.re);
        if (even) {
          elements[dim - 1] = stored(ends.im);
        }
      }
    });
  }

  // emit(place, value) for the product of two spectra of points, place by place; it may write to either.
  template <typename Emit>
  KERNEL_DEVICE void multiply_rows(Product product, int x, int y, const Emit& emit) const {
    if (!even) {
      for_each_point([&](int n) { emit(n, product_of_bins(product, point(x, n), point(y, n))); });
      return;
    }
    for_each_pair([&](int place, int mirror) {
      const Point w = table.halves[place];
      // u = (1 + w^2) / 4 for w = e^{-i t}: w cos(t) / 2
      const Complex<T> u{T{0.5} * w.re * w.re, T{0.5} * w.re * w.im};
      const Pair<T> of_x{point(x, place), point(x, mirror)};
      const Pair<T> of_y{point(y, place), point(y, mirror)};
      const Pair<T> z =
          product == Product::kConvolution ? convolve_pair<T>(of_x, of_y, u) : correlate_pair<T>(of_x, of_y, u);
      emit(place, z.k);
      if (mirror != place) {
        emit(mirror, z.mirror);
      }
    });
  }

  // The inner product of the rows of two spectra of points; a barrier comes first.
  KERNEL_DEVICE T inner_product_of(int x, int y) const {
    T sum = 0;
    block_sync();
    for_each_point([&](int n) {
      const Complex<T> of_x = point(x, n);
      const Complex<T> of_y = point(y, n);
      sum = multiply_add(of_x.re, of_y.re, multiply_add(of_x.im, of_y.im, sum));
    });
    return block_sum(sum, partials) / static_cast<T>(points);
  }

  KERNEL_DEVICE T share() const {
    return T{1} / static_cast<T>(points);
  }
};

// Buffers of a sum of products: of one product the first operand's takes it.
constexpr KERNEL_HOST_DEVICE int mixed_product_buffers(int64_t items) {
  return items == 1 ? 2 : 3;
}

// out[r] = sum_k w[r,k] (a[r,k] (*) b[r,k]) / max(norm2, eps)
template <typename T>
__global__ void __launch_bounds__(kMixedThreads<T>)
    mixed_product_kernel(BindSuperposeParams params, Product product, Storage storage, const MixedPlan* plan) {
  const MixedRow<T> row(plan, mixed_product_buffers(params.items));
  const int target = params.items == 1 ? 0 : 2;
  const StoredInput<T> a = stored_input<T>(params.a, storage) + placed_row(params.map, 0, row.r);
  const StoredInput<T> b = stored_input<T>(params.b, storage) + placed_row(params.map, 1, row.r);
  if (target != 0) {
    row.for_each_point([&](int n) { row.set(target, n, {T{0}, T{0}}); });
  }
  MeasuredRow sum{0, true, true};
#pragma unroll 1
  for (int64_t k = 0; k < params.items; ++k) {
    const MeasuredRow of_a = row.load(0, a + k * params.item_stride_a);
    const MeasuredRow of_b = row.load(1, b + k * params.item_stride_b);
    T weight = 1;
    if (params.weights != nullptr) {
      weight =
          (stored_input<T>(params.weights, storage) + placed_row(params.map, 2, row.r))[k * params.item_stride_weights];
    }
    const int before = sum.exponent;
    const bool first = sum.zero;
    add_measured_item(of_a, of_b, weight, sum);
    weight = scaled_weight(of_a, of_b, weight, sum.exponent);
    const T kept = first ? T{1} : static_cast<T>(::ldexp(T{1}, before - sum.exponent));
    row.multiply_rows(product, 0, 1, [&](int n, Complex<T> z) {
      const Complex<T> total = target == 0 ? Complex<T>{T{0}, T{0}} : row.point(target, n);
      row.set(target, n, {multiply_add(weight, z.re, total.re * kept), multiply_add(weight, z.im, total.im * kept)});
    });
  }
  T factor = row.share();
  int exponent = sum.exponent;
  if (params.normalize) {
    const NormalizingScale<T> scale(row.inner_product_of(target, target), exponent, params.eps);
    factor *= scale.factor;
    exponent = scale.exponent;
  }
  row.store(target, factor, exponent, sum.finite, stored_output<T>(params.out, storage) + row.r * row.dim);
}

// As product_backward_kernel; two buffers, so that operands are transformed again for their gradients.
template <typename T>
__global__ void __launch_bounds__(kMixedThreads<T>)
    mixed_backward_kernel(BindBackwardParams params, Storage storage, const MixedPlan* plan) {
  const MixedRow<T> row(plan, 2);
  // Placed where they are loaded: kept through the transforms, the addresses would cost registers.
  const auto operand_of = [&](const void* rows, int operand) {
    return stored_input<T>(rows, storage) + placed_row(params.map, operand, row.r);
  };
  T factor = row.share();
  int exponent = 0;  // beside those of the operands of a gradient
  MeasuredRow of_grad;
  if (params.normalize) {
    const MeasuredRow of_a = row.load(0, operand_of(params.a, 1));
    const MeasuredRow of_b = row.load(1, operand_of(params.b, 2));
    row.multiply_rows(Product::kConvolution, 0, 1, [&](int n, Complex<T> z) { row.set(0, n, z); });
    const T squared = row.inner_product_of(0, 0);
    const NormalizingScale<T> scale(squared, of_a.exponent + of_b.exponent, params.eps);
    of_grad = row.load(1, operand_of(params.grad, 0));
    const T projection = scale.above_eps ? row.inner_product_of(0, 1) / squared : T{0};
    row.for_each_point([&](int n) {
      const Complex<T> c = row.point(0, n);
      const Complex<T> g = row.point(1, n);
      row.set(0, n, {multiply_add(-projection, c.re, g.re), multiply_add(-projection, c.im, g.im)});
    });
    factor *= gradient_factor(scale, squared, params.eps);
    exponent = scale.exponent - of_a.exponent - of_b.exponent;
    of_grad.finite = of_grad.finite && of_a.finite && of_b.finite;
  } else {
    of_grad = row.load(0, operand_of(params.grad, 0));
  }
#pragma unroll 1
  for (int operand = 0; operand < 2; ++operand) {
    const bool of_b = operand == 1;
    void* const target = of_b ? params.grad_b : params.grad_a;
    if (target == nullptr) {
      continue;
    }
    const MeasuredRow other = row.load(1, of_b ? operand_of(params.a, 1) : operand_of(params.b, 2));
    // See circular_convolution_backward.cuh.
    const bool convolution = params.product == Product::kConvolution;
    const bool swapped = of_b && !convolution;
    row.multiply_rows(of_b || convolution ? Product::kCorrelation : Product::kConvolution, swapped ? 1 : 0,
                      swapped ? 0 : 1, [&](int n, Complex<T> z) { row.set(1, n, z); });
    row.store(1, factor, exponent + of_grad.exponent + other.exponent, of_grad.finite && other.finite,
              stored_output<T>(target, storage) + row.r * row.dim);
  }
}

// out[r] = the row whose bins are map(A, V); the direction V takes a second buffer.
template <typename T>
__global__ void __launch_bounds__(kMixedThreads<T>)
    mixed_map_kernel(SpectralMapParams params, Storage storage, const MixedPlan* plan) {
  constexpr double kEpsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  const bool directed = params.v != nullptr;
  const MixedRow<T> row(plan, directed ? 2 : 1);
  const MeasuredRow of_a = row.load(0, stored_input<T>(params.a, storage) + placed_row(params.map, 0, row.r));
  MeasuredRow of_v;
  if (directed) {
    of_v = row.load(1, stored_input<T>(params.v, storage) + placed_row(params.map, 1, row.r));
    row.split(1);
  }
  const double squared = static_cast<double>(row.inner_product_of(0, 0));
  row.split(0);
  const double exponent =
      params.exponents == nullptr ? params.exponent : params.exponents[placed_row(params.map, 2, row.r)];
  const RowMapping mapping =
      row_mapping(params.kind, squared, of_a.exponent, row.dim, kEpsilon, params.eps, exponent, params.order);
  // What the inverse transform multiplies by is divided out where bins may still be beyond T.
  const double share = 1.0 / row.points;
  const auto mapped = [&](Complex<T> bin, Complex<T> direction) {
    const Complex<double> result = map_bin_of(
        params.kind,
        Complex<double>{static_cast<double>(bin.re) * mapping.factor, static_cast<double>(bin.im) * mapping.factor},
        Complex<double>{static_cast<double>(direction.re), static_cast<double>(direction.im)}, mapping.scalars);
    return Complex<T>{static_cast<T>(result.re * share), static_cast<T>(result.im * share)};
  };
  const auto direction = [&](int place) { return directed ? row.point(1, place) : Complex<T>{T{0}, T{0}}; };
  const auto map_at = [&](int place) { row.set_bin(0, place, mapped(row.point(0, place), direction(place))); };
  if (row.even) {
    row.for_each_point([&](int place) {
      if (place > 0) {
        map_at(place);
      }
    });
  } else {
    row.for_each_pair([&](int place, int mirror) {
      if (place != mirror) {
        map_at(place);
      }
    });
  }
  if (thread_rank() == 0) {
    const Complex<T> ends = row.point(0, 0);
    const Complex<T> of_ends = direction(0);
    const T first = mapped({ends.re, T{0}}, {of_ends.re, T{0}}).re;
    const T last = row.even ? mapped({ends.im, T{0}}, {of_ends.im, T{0}}).re : T{0};
    row.set(0, 0, {first, last});
  }
  row.merge(0);
  row.store(0, T{1}, mapping.exponent + of_v.exponent, of_a.finite && of_v.finite,
            stored_output<T>(params.out, storage) + row.r * row.dim);
}

// out[r] = vectors[r,0] conv vectors[r,1] conv ..., of their own bins; the product is kept near 1.
template <typename T>
__global__ void __launch_bounds__(kMixedThreads<T>)
    mixed_multibind_kernel(MultibindParams params, Storage storage, const MixedPlan* plan) {
  const MixedRow<T> row(plan, 2);
  const StoredInput<T> vectors = stored_input<T>(params.vectors, storage) + placed_row(params.map, 0, row.r);
  int64_t total = 0;
  bool finite = true;
#pragma unroll 1
  for (int64_t k = 0; k < params.items; ++k) {
    const int buffer = k == 0 ? 0 : 1;
    const MeasuredRow measured = row.load(buffer, vectors + k * params.item_stride);
    row.split(buffer);
    total += measured.exponent;
    finite = finite && measured.finite;
    if (k > 0) {
      row.for_each_point([&](int n) {
        const Complex<T> x = row.point(0, n);
        const Complex<T> y = row.point(1, n);
        const bool ends = row.even && n == 0;
        row.set(0, n, ends ? Complex<T>{x.re * y.re, x.im * y.im} : product_of_bins(Product::kConvolution, x, y));
      });
      const int shift = scale_exponent(row.inner_product_of(0, 0)) / 2;
      row.scale(0, exact_power<T>(-shift));
      total += shift;
    }
  }
  row.merge(0);
  row.store(0, row.share(), total, finite, stored_output<T>(params.out, storage) + row.r * row.dim);
}

// out[r] = the packed spectrum of in[r], or the row whose packed spectrum in[r] is.
template <typename T>
__global__ void __launch_bounds__(kMixedThreads<T>)
    mixed_packed_kernel(PackedSpectrumParams params, Storage storage, const MixedPlan* plan) {
  const MixedRow<T> row(plan, 1);
  const StoredInput<T> in = stored_input<T>(params.in, storage) + placed_row(params.map, 0, row.r);
  const StoredOutput<T> out = stored_output<T>(params.out, storage) + row.r * row.dim;
  if (params.inverse) {
    const MeasuredRow measured = row.load_packed(0, in);
    row.merge(0);
    row.store(0, row.share(), measured.exponent, measured.finite, out);
  } else {
    const MeasuredRow measured = row.load(0, in);
    row.split(0);
    row.store_packed(0, measured.exponent, measured.finite, out);
  }
}

// out[r] = a[r] (*) b[r] for b given by its packed spectra.
template <typename T>
__global__ void __launch_bounds__(kMixedThreads<T>)
    mixed_bind_spectrum_kernel(SpectrumBindParams params, Storage storage, const MixedPlan* plan) {
  const MixedRow<T> row(plan, 2);
  const MeasuredRow of_a = row.load(0, stored_input<T>(params.a, storage) + placed_row(params.map, 0, row.r));
  const MeasuredRow of_b =
      row.load_packed(1, stored_input<T>(params.spectrum, storage) + placed_row(params.map, 1, row.r));
  row.merge(1);
  row.multiply_rows(params.product, 0, 1, [&](int n, Complex<T> z) { row.set(0, n, z); });
  row.store(0, row.share(), of_a.exponent + of_b.exponent, of_a.finite && of_b.finite,
            stored_output<T>(params.out, storage) + row.r * row.dim);
}

}  // namespace torch_hrr::kernels
