// Rows beyond the kernels, by at::fft_rfft and at::fft_irfft.
#include "csrc/hrr/library_fft.h"

#include "csrc/hrr/execute.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/types.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/all.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/fft_rfft.h>
#include <ATen/ops/frexp.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ldexp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

// Part of MKL, which libtorch_cpu contains and exports; null in builds of torch without it.
extern "C" int MKL_Set_Num_Threads_Local(int threads) __attribute__((weak));

namespace torch_hrr::hrr {
namespace {

using at::Tensor;

// sum_k w_k A_k B_k (conj B_k for correlation), transformed back: [rows, D] of [rows, K, D]
Tensor product_rows(const Tensor& a, const Tensor& b, const Tensor& weights, kernels::Product product) {
  Tensor sum;
  for (int64_t k = 0; k < a.size(1); ++k) {
    const Tensor spectrum_b = at::fft_rfft(b.select(1, k));
    Tensor term =
        at::fft_rfft(a.select(1, k)).mul(product == kernels::Product::kCorrelation ? spectrum_b.conj() : spectrum_b);
    if (weights.defined()) {
      term = term.mul(weights.select(1, k).unsqueeze(-1));
    }
    sum = sum.defined() ? sum.add_(term) : term;
  }
  return at::fft_irfft(sum, a.size(2));
}

// The exponents that bring magnitudes into [1/2, 1).
Tensor unit_exponents(const Tensor& largest) {
  return std::get<1>(at::frexp(largest)).neg();
}

// x 2^exponent, in two steps because one factor may not be representable; far exponents saturate, with 0 left 0.
Tensor scaled(const Tensor& x, const Tensor& exponents) {
  const int64_t limit = x.scalar_type() == at::kDouble ? 2044 : 252;
  const Tensor clamped = exponents.clamp(-limit, limit);
  const Tensor first = clamped.div(2, "floor");
  return at::ldexp(at::ldexp(x, first), clamped - first);
}

// All rows with inputs scaled by exact powers of two and NaN rows where an input is not finite; no synchronisation.
Tensor scaled_rows(const Tensor& a, const Tensor& b, const Tensor& weights, kernels::Product product, bool normalize,
                   double eps) {
  const Tensor largest_a = a.abs().amax({1, 2});
  const Tensor largest_b = b.abs().amax({1, 2});
  Tensor finite = at::isfinite(largest_a).logical_and(at::isfinite(largest_b));
  const Tensor exponents_a = unit_exponents(largest_a);
  const Tensor exponents_b = unit_exponents(largest_b);
  Tensor exponents = exponents_a + exponents_b;
  Tensor scaled_weights;
  if (weights.defined()) {
    const Tensor largest = weights.abs().amax({1});
    const Tensor exponents_weights = unit_exponents(largest);
    finite = finite.logical_and(at::isfinite(largest));
    scaled_weights = scaled(weights, exponents_weights.unsqueeze(-1));
    exponents = exponents + exponents_weights;
  }
  const auto per_item = [](const Tensor& x) { return x.unsqueeze(-1).unsqueeze(-1); };
  Tensor c = product_rows(scaled(a, per_item(exponents_a)), scaled(b, per_item(exponents_b)), scaled_weights, product);
  exponents = exponents.unsqueeze(-1);
  if (normalize) {
    const Tensor shift = unit_exponents(c.abs().amax({1}, /*keepdim=*/true));
    c = scaled(c, shift);
    exponents = exponents + shift;
    const Tensor norm = at::linalg_vector_norm(c, 2, {1}, /*keepdim=*/true);
    const Tensor regular = scaled(norm.to(at::kDouble), exponents.neg()) > eps;
    c = at::where(regular, c / norm, (scaled(c.to(at::kDouble), exponents.neg()) / eps).to(c.scalar_type()));
  } else {
    c = scaled(c, exponents.neg());
  }
  return at::where(finite.unsqueeze(-1), c, std::numeric_limits<double>::quiet_NaN());
}

// One row as it stands; undefined if it leaves the range. Reads a number back, so for the CPU alone.
Tensor try_row(const Tensor& a, const Tensor& b, const Tensor& weights, kernels::Product product, bool normalize,
               double eps) {
  const Tensor c = product_rows(a, b, weights, product);
  const double norm = at::linalg_vector_norm(c).item<double>();
  if (!normalize) {
    return std::isfinite(norm) ? c : Tensor();
  }
  const int limit = c.scalar_type() == at::kDouble ? 450 : 30;
  const bool safe = norm >= std::ldexp(1.0, -limit) && norm <= std::ldexp(1.0, limit);
  return safe ? c.div(std::max(norm, eps)) : Tensor();
}

// The bins 0 .. D/2 of rows in double as [rows, D/2 + 1, 2], and their inverse.
Tensor bins_of(const Tensor& rows) {
  return at::view_as_real(at::fft_rfft(rows)).contiguous();
}
Tensor rows_of(const Tensor& bins, int64_t dim) {
  return at::fft_irfft(at::view_as_complex(bins), dim);
}

// A copy in double, so that a transform sees the same alignment whatever the layout.
Tensor wide_copy(const Tensor& x) {
  return x.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true).contiguous();
}

// norm2 of every row, summed in the order of its elements
Tensor row_norms(const Tensor& rows) {
  if (!rows.is_cpu()) {
    return at::linalg_vector_norm(rows, 2, {1});
  }
  const Tensor norms = at::empty({rows.size(0)}, at::kDouble);
  const double* x = rows.const_data_ptr<double>();
  for (int64_t r = 0; r < rows.size(0); ++r) {
    double sum = 0;
    for (int64_t n = 0; n < rows.size(1); ++n, ++x) {
      sum += *x * *x;
    }
    norms.mutable_data_ptr<double>()[r] = std::sqrt(sum);
  }
  return norms;
}

// Rows of library_spectral_map that begin with row r, whose exponent is the first of theirs; no synchronisation.
void map_rows(const Tensor& a, const Tensor& v, kernels::LibraryBinsParams params, int64_t r, const Tensor& out) {
  // Rows near 1 by exact powers of two, so that squares stay in range.
  const Tensor wide_a = wide_copy(a);
  Tensor finite = at::isfinite(wide_a).all(1, /*keepdim=*/true);
  const Tensor exponents = unit_exponents(wide_a.abs().amax({1}, /*keepdim=*/true));
  const Tensor rows = scaled(wide_a, exponents).contiguous();
  const Tensor scales = exponents.neg().to(at::kDouble);
  Tensor restored = exponents.mul(kernels::mapped_scale(params.kind, -1));
  if (kernels::divides_by_eps(params.kind) && params.eps > 0 && std::isfinite(params.eps)) {
    // scaled_eps's shift, for bins that stand for bin 2^-exponents
    restored = restored - exponents.mul(2).add(std::ilogb(params.eps) - kernels::kFarAboveBins).clamp_min(0);
  }
  const Tensor bins = bins_of(rows);
  Tensor directions;
  if (v.defined()) {
    const Tensor wide_v = wide_copy(v);
    finite = finite.logical_and(at::isfinite(wide_v).all(1, /*keepdim=*/true));
    const Tensor exponents_v = unit_exponents(wide_v.abs().amax({1}, /*keepdim=*/true));
    restored = restored - exponents_v;
    directions = bins_of(scaled(wide_v, exponents_v));
    params.v = directions.const_data_ptr<double>();
  }
  const Tensor norms = row_norms(rows);
  params.bins = bins.mutable_data_ptr<double>();
  params.norms = norms.const_data_ptr<double>();
  params.scales = scales.const_data_ptr<double>();
  params.exponents = params.exponents == nullptr ? nullptr : params.exponents + r;
  params.rows = a.size(0);
  execute(params, bins);
  const Tensor mapped = rows_of(bins, params.dim);
  out.copy_(at::where(finite, scaled(mapped, restored), std::numeric_limits<double>::quiet_NaN()));
}

// Between bins [rows, D/2 + 1, 2] and packed rows [rows, D]: the imaginary parts of the real bins are left out.
Tensor pack(const Tensor& bins, int64_t dim) {
  const Tensor parts = bins.flatten(1);
  return at::cat({parts.narrow(1, 0, 1), parts.narrow(1, 2, dim - 1)}, 1);
}
Tensor unpack(const Tensor& packed) {
  const int64_t dim = packed.size(1);
  const Tensor parts = at::zeros({packed.size(0), 2 * (dim / 2 + 1)}, packed.options());
  parts.narrow(1, 0, 1).copy_(packed.narrow(1, 0, 1));
  parts.narrow(1, 2, dim - 1).copy_(packed.narrow(1, 1, dim - 1));
  return parts.view({packed.size(0), -1, 2});
}

// Rows of library_packed_spectrum; no synchronisation.
void packed_rows(const Tensor& x, bool inverse, const Tensor& out) {
  const Tensor wide = wide_copy(x);
  const Tensor finite = at::isfinite(wide).all(1, /*keepdim=*/true);
  const Tensor exponents = unit_exponents(wide.abs().amax({1}, /*keepdim=*/true));
  const Tensor rows = scaled(wide, exponents).contiguous();
  const int64_t dim = x.size(1);
  const Tensor result = inverse ? rows_of(unpack(rows), dim) : pack(bins_of(rows), dim);
  out.copy_(at::where(finite, scaled(result, exponents.neg()), std::numeric_limits<double>::quiet_NaN()));
}

// While it lives, what this thread calls runs on it alone: torch's operators, which share elements among the threads of
// OpenMP, and MKL's transforms. Both numbers are this thread's own; no other thread and no setting of the process is
// touched.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()), before_in_mkl_(set_in_mkl(1)) {
    omp_set_num_threads(1);
  }
  ~OneThread() {
    omp_set_num_threads(before_);
    set_in_mkl(before_in_mkl_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  // The number before, 0 where none was set. Builds of torch without MKL transform on one thread anyway.
  static int set_in_mkl(int threads) {
    return MKL_Set_Num_Threads_Local != nullptr ? MKL_Set_Num_Threads_Local(threads) : 0;
  }

  int before_;
  int before_in_mkl_;
};

// Calls body(begin, count) for ranges of rows: on the CPU a row at a time and on one thread, since the library's bits
// depend on more rows and on the number of its threads, within parallel regions too on some processors.
template <typename Body>
void for_library_rows(const Tensor& out, const Body& body) {
  const int64_t rows = out.size(0);
  if (!out.is_cpu()) {
    return body(0, rows);
  }
  const OneThread one_thread;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (int64_t r = 0; r < rows; ++r) {
    body(r, 1);
  }
}

}  // namespace

void library_spectral_map(const Tensor& a, const Tensor& v, kernels::LibraryBinsParams params, const Tensor& out) {
  params.dim = a.size(1);
  params.count = params.dim / 2 + 1;
  params.last_is_real = params.dim % 2 == 0;
  params.roundoff = compute_epsilon(out.scalar_type());
  for_library_rows(out, [&](int64_t begin, int64_t count) {
    const auto some = [&](const Tensor& x) { return x.defined() ? x.narrow(0, begin, count) : x; };
    map_rows(some(a), some(v), params, begin, some(out));
  });
}

void library_packed_spectrum(const Tensor& x, bool inverse, const Tensor& out) {
  for_library_rows(out, [&](int64_t begin, int64_t count) {
    packed_rows(x.narrow(0, begin, count), inverse, out.narrow(0, begin, count));
  });
}

Tensor library_multibind(const Tensor& vectors) {
  Tensor product;
  Tensor finite;
  Tensor total;
  for (int64_t k = 0; k < vectors.size(-2); ++k) {
    const Tensor item = wide_copy(vectors.select(-2, k));
    const Tensor item_finite = at::isfinite(item).all(-1, /*keepdim=*/true);
    const Tensor exponents = unit_exponents(item.abs().amax({-1}, /*keepdim=*/true));
    const Tensor near = scaled(item, exponents);
    product = k == 0 ? near : torch_hrr::bind(product, near);
    finite = k == 0 ? item_finite : finite.logical_and(item_finite);
    const Tensor shift = unit_exponents(product.abs().amax({-1}, /*keepdim=*/true));
    product = scaled(product, shift);
    total = k == 0 ? exponents + shift : total + exponents + shift;
  }
  return at::where(finite, scaled(product, total.neg()), std::numeric_limits<double>::quiet_NaN());
}

void library_bind_superpose(const Tensor& a, const Tensor& b, const Tensor& weights, kernels::Product product,
                            bool normalize, double eps, const Tensor& out) {
  if (a.size(1) == 0) {
    out.fill_(normalize && eps == 0 ? std::numeric_limits<double>::quiet_NaN() : 0.0);
    return;
  }
  const at::ScalarType type = compute_type(out.scalar_type());
  for_library_rows(out, [&](int64_t begin, int64_t count) {
    const auto some = [&](const Tensor& x) { return x.defined() ? x.narrow(0, begin, count).to(type) : x; };
    Tensor c;
    if (out.is_cpu()) {
      c = try_row(some(a), some(b), some(weights), product, normalize, eps);
    }
    if (!c.defined()) {
      c = scaled_rows(some(a), some(b), some(weights), product, normalize, eps);
    }
    out.narrow(0, begin, count).copy_(c);
  });
}

}  // namespace torch_hrr::hrr
