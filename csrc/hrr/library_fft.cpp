// Rows beyond the native transforms, by at::fft_rfft and at::fft_irfft.
#include "csrc/hrr/library_fft.h"

#include "csrc/hrr/execute.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/all.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/fft_irfft.h>
#include <ATen/ops/fft_rfft.h>
#include <ATen/ops/frexp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ldexp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "csrc/include/torch_hrr/torch_hrr.h"
#include "kernels/roots.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;

at::ScalarType compute_type(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

// sum_k w_k A_k B_k (conj B_k for correlation), transformed back: [rows, D] of [rows, K, D]
Tensor product_rows(const Tensor& a, const Tensor& b, const Tensor& weights, kernels::Product product) {
  Tensor sum;
  for (int64_t k = 0; k < a.size(1); ++k) {
    const Tensor spectrum_b = at::fft_rfft(b.select(1, k));
    Tensor term = at::fft_rfft(a.select(1, k))
                      .mul(product == kernels::Product::kCorrelation ? spectrum_b.conj() : spectrum_b);
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

// x 2^exponent, in two steps because one factor may not be representable
Tensor scaled(const Tensor& x, const Tensor& exponents) {
  const Tensor first = exponents.div(2, "floor");
  return at::ldexp(at::ldexp(x, first), exponents - first);
}

// All rows with inputs scaled by exact powers of two and NaN rows where an input is not finite; no synchronisation.
Tensor careful_rows(const Tensor& a, const Tensor& b, const Tensor& weights, kernels::Product product, bool normalize,
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

// Real transforms of any length D by Bluestein's sum, nk = (n^2 + k^2 - (k-n)^2)/2, which turns them into convolutions
// of length L >= 2D - 1 with the chirp e^{i pi m^2/D}: done by our own operators, so that bits depend on a row alone.
// The library's transforms differ with the number of threads at some lengths.
struct Chirp {
  int64_t dim;
  int64_t length;
  Tensor re, im;                   // e^{i pi n^2 / D}, n < D
  Tensor for_real, for_imaginary;  // [2, L]: what (p, q) is bound with for the parts of (p + i q) conv chirp

  explicit Chirp(int64_t the_dim) : dim(the_dim) {
    length = kernels::kMaxDirectDim;
    while (length < 2 * dim - 1) {
      length *= 2;
    }
    re = at::empty({dim}, at::kDouble);
    im = at::empty({dim}, at::kDouble);
    const Tensor wrapped_re = at::zeros({length}, at::kDouble);
    const Tensor wrapped_im = at::zeros({length}, at::kDouble);
    for (int64_t n = 0; n < dim; ++n) {
      const kernels::Complex<double> root = kernels::root_of_unity(n * n % (2 * dim), 2 * dim);
      re.mutable_data_ptr<double>()[n] = root.re;
      im.mutable_data_ptr<double>()[n] = -root.im;
      for (const int64_t lag : {n, (length - n) % length}) {
        wrapped_re.mutable_data_ptr<double>()[lag] = root.re;
        wrapped_im.mutable_data_ptr<double>()[lag] = -root.im;
      }
    }
    for_real = at::stack({wrapped_re, wrapped_im.neg()});
    for_imaginary = at::stack({wrapped_im, wrapped_re});
  }

  // (p + i q) conv chirp of rows [rows, n <= D], its first `count` elements
  std::pair<Tensor, Tensor> convolve(const Tensor& p, const Tensor& q, int64_t count) const {
    const Tensor rows = at::constant_pad_nd(at::stack({p, q}, -2), {0, length - p.size(-1)});
    return {torch_hrr::bind_superpose(rows, for_real).narrow(-1, 0, count),
            torch_hrr::bind_superpose(rows, for_imaginary).narrow(-1, 0, count)};
  }

  // X_k, k <= D/2, as [rows, D/2 + 1, 2]: conj(w_k) sum_n x_n conj(w_n) w_{k-n}
  Tensor forward(const Tensor& rows) const {
    const int64_t count = dim / 2 + 1;
    const auto [p, q] = convolve(rows * re, (rows * im).neg(), count);
    const Tensor c = re.narrow(0, 0, count);
    const Tensor s = im.narrow(0, 0, count);
    return at::stack({p * c + q * s, q * c - p * s}, -1);
  }

  // x_n = Re sum_k m_k X_k e^{2 pi i nk/D} / D over k <= D/2, m_k = 1 for the real bins and 2 for the others: the
  // conjugate of a forward sum.
  Tensor inverse(const Tensor& bins) const {
    const int64_t count = dim / 2 + 1;
    Tensor weights = at::full({count}, 2.0 / static_cast<double>(dim), at::kDouble);
    weights.select(0, 0).div_(2);
    if (dim % 2 == 0) {
      weights.select(0, count - 1).div_(2);
    }
    const Tensor c = re.narrow(0, 0, count) * weights;
    const Tensor s = im.narrow(0, 0, count) * weights;
    const Tensor x = bins.select(-1, 0);
    const Tensor y = bins.select(-1, 1);
    // conj(X_k w_k) = (x c - y s) - i (x s + y c)
    const auto [p, q] = convolve(x * c - y * s, (x * s + y * c).neg(), dim);
    return p * re + q * im;
  }
};

// The bins 0 .. D/2 of rows in double as [rows, D/2 + 1, 2], and the rows of bins: by a chirp or, without one, by the
// library.
Tensor bins_of(const Tensor& rows, const Chirp* chirp) {
  return (chirp != nullptr ? chirp->forward(rows) : at::view_as_real(at::fft_rfft(rows))).contiguous();
}
Tensor rows_of(const Tensor& bins, int64_t dim, const Chirp* chirp) {
  return chirp != nullptr ? chirp->inverse(bins) : at::fft_irfft(at::view_as_complex(bins), dim);
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

// Rows of library_spectral_map that begin with row r, whose exponent is the first of theirs; no synchronisation. With a
// chirp the transforms are its, else the library's.
void map_rows(const Tensor& a, const Tensor& v, kernels::LibraryBinsParams params, int64_t r, const Chirp* chirp,
              const Tensor& out) {
  // Rows near 1 by exact powers of two, so that squares stay in range.
  const Tensor wide_a = wide_copy(a);
  Tensor finite = at::isfinite(wide_a).all(1, /*keepdim=*/true);
  const Tensor exponents = unit_exponents(wide_a.abs().amax({1}, /*keepdim=*/true));
  const Tensor rows = scaled(wide_a, exponents).contiguous();
  const Tensor scales = exponents.neg().to(at::kDouble);
  Tensor restored = exponents.mul(kernels::mapped_scale(params.kind, -1));
  const Tensor bins = bins_of(rows, chirp);
  Tensor directions;
  if (v.defined()) {
    const Tensor wide_v = wide_copy(v);
    finite = finite.logical_and(at::isfinite(wide_v).all(1, /*keepdim=*/true));
    const Tensor exponents_v = unit_exponents(wide_v.abs().amax({1}, /*keepdim=*/true));
    restored = restored - exponents_v;
    directions = bins_of(scaled(wide_v, exponents_v), chirp);
    params.v = directions.const_data_ptr<double>();
  }
  const Tensor norms = row_norms(rows);
  params.bins = bins.mutable_data_ptr<double>();
  params.norms = norms.const_data_ptr<double>();
  params.scales = scales.const_data_ptr<double>();
  params.exponents = params.exponents == nullptr ? nullptr : params.exponents + r;
  params.rows = a.size(0);
  execute(params, bins);
  const Tensor mapped = rows_of(bins, params.dim, chirp);
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
void packed_rows(const Tensor& x, bool inverse, const Chirp* chirp, const Tensor& out) {
  const Tensor wide = wide_copy(x);
  const Tensor finite = at::isfinite(wide).all(1, /*keepdim=*/true);
  const Tensor exponents = unit_exponents(wide.abs().amax({1}, /*keepdim=*/true));
  const Tensor rows = scaled(wide, exponents).contiguous();
  const int64_t dim = x.size(1);
  const Tensor result = inverse ? rows_of(unpack(rows), dim, chirp) : pack(bins_of(rows, chirp), dim);
  out.copy_(at::where(finite, scaled(result, exponents.neg()), std::numeric_limits<double>::quiet_NaN()));
}

// Calls body(begin, count, chirp) for ranges of rows: on the CPU in chirps or, beyond them, a row at a time.
template <typename Body>
void for_library_rows(const Tensor& out, const Body& body) {
  const int64_t rows = out.size(0);
  const int64_t dim = out.size(1);
  if (!out.is_cpu()) {
    return body(0, rows, nullptr);
  }
  if (dim <= kernels::kMaxCpuPaddedDim) {
    const Chirp chirp(dim);
    // A bound on the memory of the padded rows.
    const int64_t step = std::max<int64_t>(1, (int64_t{1} << 22) / chirp.length);
    for (int64_t r = 0; r < rows; r += step) {
      body(r, std::min(step, rows - r), &chirp);
    }
    return;
  }
  // A single row would run outside a parallel region, where the library may use several threads and other bits; a range
  // of at least two keeps every row on one thread.
  at::parallel_for(0, std::max<int64_t>(rows, 2), 1, [&](int64_t begin, int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (int64_t r = begin; r < std::min(end, rows); ++r) {
      body(r, 1, nullptr);
    }
  });
}

} // namespace

void library_spectral_map(const Tensor& a, const Tensor& v, kernels::LibraryBinsParams params, const Tensor& out) {
  params.dim = a.size(1);
  params.count = params.dim / 2 + 1;
  params.last_is_real = params.dim % 2 == 0;
  params.epsilon = out.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                    : static_cast<double>(std::numeric_limits<float>::epsilon());
  for_library_rows(out, [&](int64_t begin, int64_t count, const Chirp* chirp) {
    const auto some = [&](const Tensor& x) { return x.defined() ? x.narrow(0, begin, count) : x; };
    map_rows(some(a), some(v), params, begin, chirp, some(out));
  });
}

void library_packed_spectrum(const Tensor& x, bool inverse, const Tensor& out) {
  for_library_rows(out, [&](int64_t begin, int64_t count, const Chirp* chirp) {
    packed_rows(x.narrow(0, begin, count), inverse, chirp, out.narrow(0, begin, count));
  });
}

void library_record(const Tensor& a, const Tensor& b, const Tensor& weights, kernels::Product product, bool normalize,
                    double eps, const Tensor& out) {
  const int64_t rows = out.size(0);
  if (a.size(1) == 0) {
    out.fill_(normalize && eps == 0 ? std::numeric_limits<double>::quiet_NaN() : 0.0);
    return;
  }
  const at::ScalarType type = compute_type(out.scalar_type());
  const auto typed = [&](const Tensor& x) { return x.defined() ? x.to(type) : x; };
  if (!out.is_cpu()) {
    out.copy_(careful_rows(typed(a), typed(b), typed(weights), product, normalize, eps));
    return;
  }
  // At least two rows, as above.
  at::parallel_for(0, std::max<int64_t>(rows, 2), 1, [&](int64_t begin, int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (int64_t r = begin; r < std::min(end, rows); ++r) {
      const auto row = [&](const Tensor& x) { return x.defined() ? typed(x.narrow(0, r, 1)) : x; };
      Tensor c = try_row(row(a), row(b), row(weights), product, normalize, eps);
      if (!c.defined()) {
        c = careful_rows(row(a), row(b), row(weights), product, normalize, eps);
      }
      out.narrow(0, r, 1).copy_(c);
    }
  });
}

} // namespace torch_hrr::hrr
