// A row of any length that mixed_fft.cuh transforms, in shared memory by all threads of a block; what a row offers
// stands in fft_row.cuh.
//
// A row of even length lies there as D/2 points or their spectrum, or split into its own bins A_k in the places of that
// spectrum, with A_0 + i A_{D/2} in the first; one of odd length as D points or its bins with their mirror images. Each
// buffer holds a row.
#pragma once

#include "kernels/fft/mixed_fft.cuh"
#include "kernels/hrr/bin_pairs.h"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/row_io.cuh"

namespace torch_hrr::kernels {

// a b, or a conj(b)
template <typename T>
KERNEL_DEVICE Complex<T> product_of_bins(Product product, Complex<T> a, Complex<T> b) {
  return product == Product::kConvolution ? multiply(a, b) : multiply_conjugate(a, b);
}

template <typename T>
struct MixedRow {
  using Real = T;
  using Point = TwiddlePoint<T>;
  struct Spectrum {
    int buffer;
  };

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

  KERNEL_DEVICE Point& at(Spectrum s, int place) const {
    return shared[s.buffer * stride + mixed_place<T>(place, mask)];
  }
  KERNEL_DEVICE Complex<T> point(Spectrum s, int place) const {
    const Point p = at(s, place);
    return {p.re, p.im};
  }
  KERNEL_DEVICE void set(Spectrum s, int place, Complex<T> value) const {
    at(s, place) = {value.re, value.im};
  }

  KERNEL_DEVICE static uint32_t larger(uint32_t largest, Complex<T> z) {
    const uint32_t magnitude = magnitude_bits(z);
    return largest < magnitude ? magnitude : largest;
  }
  KERNEL_DEVICE static constexpr Spectrum spectrum(int buffer) {
    return {buffer};
  }
  KERNEL_DEVICE double share() const {
    return 1.0 / points;
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
  KERNEL_DEVICE void set_bin(Spectrum s, int place, Complex<T> bin) const {
    set(s, place, bin);
    if (!even) {
      set(s, mixed_mirror(plan, place), {bin.re, -bin.im});
    }
  }

  // Scales a buffer near 1 by the bits of its largest number, unless it is near enough as it stands; a barrier comes
  // first.
  KERNEL_DEVICE MeasuredRow scale_to_range(Spectrum s, uint32_t largest) const {
    const MeasuredRow measured = measured_row<T>(block_max(largest, reinterpret_cast<uint32_t*>(partials)));
    if (measured.exponent != 0) {
      scale(s, exact_power<T>(-measured.exponent));
    }
    return measured;
  }

  KERNEL_DEVICE void scale(Spectrum s, T factor) const {
    for_each_point([&](int n) {
      const Complex<T> z = point(s, n);
      set(s, n, {z.re * factor, z.im * factor});
    });
  }

  KERNEL_DEVICE_STEP MeasuredRow load(StoredInput<T> row, Spectrum s) const {
    uint32_t largest = 0;
    const auto put = [&](int n, Complex<T> z) {
      set(s, n, z);
      largest = larger(largest, z);
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
    const MeasuredRow measured = scale_to_range(s, largest);
    mixed_transform<false, T>(plan, s.buffer * stride);
    return measured;
  }

  // Barriers come first and last.
  KERNEL_DEVICE_STEP void split(Spectrum s) const {
    block_sync();
    if (even) {
      for_each_pair([&](int place, int mirror) {
        const Complex<T> z = point(s, place);
        const Point w = table.halves[place];
        const Pair<T> bins = bins_of_pair<T>({z, point(s, mirror)}, {w.re, w.im}, T{0.5});
        set(s, mirror, bins.mirror);
        set(s, place, place == 0 ? Complex<T>{z.re + z.im, z.re - z.im} : bins.k);
      });
    }
    block_sync();
  }
  KERNEL_DEVICE_STEP void merge(Spectrum s) const {
    block_sync();
    if (even) {
      for_each_pair([&](int place, int mirror) {
        const Complex<T> bin = point(s, place);
        const Point w = table.halves[place];
        const Pair<T> z = pair_of_bins<T>({bin, point(s, mirror)}, {w.re, w.im}, T{0.5});
        set(s, mirror, z.mirror);
        set(s, place, place == 0 ? Complex<T>{(bin.re + bin.im) * T{0.5}, (bin.re - bin.im) * T{0.5}} : z.k);
      });
    }
    block_sync();
  }

  KERNEL_DEVICE_STEP void store(Spectrum s, T factor, int64_t exponent, bool finite, StoredOutput<T> out) const {
    mixed_transform<true, T>(plan, s.buffer * stride);
    const ScaleFactors<T> power(exponent, finite);
    const auto stored = [&](T x) { return power.times(x * factor); };
    out.visit([&](auto* elements) {
      using S = std::remove_reference_t<decltype(*elements)>;
      const bool aligned = even && is_run_aligned<S, 2>(elements);
      for_each_point([&](int n) {
        const Complex<T> z = point(s, n);
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

  KERNEL_DEVICE_STEP MeasuredRow load_packed(StoredInput<T> packed, Spectrum s) const {
    uint32_t largest = 0;
    block_sync();
    packed.visit([&](const auto* elements) {
      for_each_bin([&](int k, int place) {
        const Complex<T> z{static_cast<T>(elements[packed_real(k)]), static_cast<T>(elements[packed_imaginary(k)])};
        set_bin(s, place, z);
        largest = larger(largest, z);
      });
      if (thread_rank() == 0) {
        const Complex<T> ends{static_cast<T>(elements[0]), even ? static_cast<T>(elements[dim - 1]) : T{0}};
        set(s, 0, ends);
        largest = larger(largest, ends);
      }
    });
    return scale_to_range(s, largest);
  }

  KERNEL_DEVICE_STEP void store_packed(Spectrum s, int64_t exponent, bool finite, StoredOutput<T> out) const {
    const ScaleFactors<T> power(exponent, finite);
    out.visit([&](auto* elements) {
      using S = std::remove_reference_t<decltype(*elements)>;
      const auto stored = [&](T x) { return static_cast<S>(power.times(x)); };
      for_each_bin([&](int k, int place) {
        const Complex<T> z = point(s, place);
        elements[packed_real(k)] = stored(z.re);
        elements[packed_imaginary(k)] = stored(z.im);
      });
      if (thread_rank() == 0) {
        const Complex<T> ends = point(s, 0);
        elements[0] = stored(ends.re);
        if (even) {
          elements[dim - 1] = stored(ends.im);
        }
      }
    });
  }

  // emit(place, value) for the product of two spectra of points, place by place; it may write to either.
  template <typename Emit>
  KERNEL_DEVICE void for_each_product(Product product, Spectrum x, Spectrum y, const Emit& emit) const {
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
  KERNEL_DEVICE void multiply(Product product, Spectrum x, Spectrum y, Spectrum target) const {
    for_each_product(product, x, y, [&](int n, Complex<T> z) { set(target, n, z); });
  }
  KERNEL_DEVICE void clear(Spectrum s) const {
    for_each_point([&](int n) { set(s, n, {T{0}, T{0}}); });
  }
  KERNEL_DEVICE void accumulate(Spectrum x, Spectrum y, T weight, T kept, Spectrum s) const {
    for_each_product(Product::kConvolution, x, y, [&](int n, Complex<T> z) {
      const Complex<T> total = point(s, n);
      set(s, n, {multiply_add(weight, z.re, total.re * kept), multiply_add(weight, z.im, total.im * kept)});
    });
  }

  // The inner product of the rows of two spectra of points; a barrier comes first.
  KERNEL_DEVICE T inner_product_of(Spectrum x, Spectrum y) const {
    T sum = 0;
    block_sync();
    for_each_point([&](int n) {
      const Complex<T> of_x = point(x, n);
      const Complex<T> of_y = point(y, n);
      sum = multiply_add(of_x.re, of_y.re, multiply_add(of_x.im, of_y.im, sum));
    });
    return block_sum(sum, partials) / static_cast<T>(points);
  }
  KERNEL_DEVICE T squared_norm(Spectrum s) const {
    return inner_product_of(s, s);
  }

  KERNEL_DEVICE void store_product(Spectrum s, Product, T factor, int exponent, bool finite, bool normalize, double eps,
                                   StoredOutput<T> out) const {
    factor *= static_cast<T>(share());
    if (normalize) {
      const NormalizingScale<T> scale(squared_norm(s), exponent, eps);
      factor *= scale.factor;
      exponent = scale.exponent;
    }
    store(s, factor, exponent, finite, out);
  }

  template <typename Map>
  KERNEL_DEVICE void map_bins(Spectrum s, Spectrum v, bool directed, const Map& map) const {
    const auto direction = [&](int place) { return directed ? point(v, place) : Complex<T>{T{0}, T{0}}; };
    const auto map_at = [&](int place) { set_bin(s, place, map(point(s, place), direction(place))); };
    if (even) {
      for_each_point([&](int place) {
        if (place > 0) {
          map_at(place);
        }
      });
    } else {
      for_each_pair([&](int place, int mirror) {
        if (place != mirror) {
          map_at(place);
        }
      });
    }
    if (thread_rank() == 0) {
      const Complex<T> ends = point(s, 0);
      const Complex<T> of_ends = direction(0);
      const T first = map({ends.re, T{0}}, {of_ends.re, T{0}}).re;
      const T last = even ? map({ends.im, T{0}}, {of_ends.im, T{0}}).re : T{0};
      set(s, 0, {first, last});
    }
  }

  KERNEL_DEVICE void set_identity(Spectrum s) const {
    for_each_point([&](int n) { set(s, n, {T{1}, even && n == 0 ? T{1} : T{0}}); });
  }
  KERNEL_DEVICE void multiply_bins(Spectrum x, Spectrum y) const {
    for_each_point([&](int n) {
      const Complex<T> of_x = point(x, n);
      const Complex<T> of_y = point(y, n);
      const bool ends = even && n == 0;
      set(x, n, ends ? Complex<T>{of_x.re * of_y.re, of_x.im * of_y.im} : torch_hrr::kernels::multiply(of_x, of_y));
    });
  }
};

}  // namespace torch_hrr::kernels
