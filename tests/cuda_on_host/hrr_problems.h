// Operands, parameters and exact results of each HRR family, for tests that vary one of them at a time.
#pragma once

#include <tuple>

#include "tests/cuda_on_host/hrr_testing.h"

namespace torch_hrr::kernels::hrr_testing {

constexpr double kEps = 1e-12;

// Contiguous rows of a and b, paired.
template <typename S>
BindParams binding_params(const Rows<S>& a, const Rows<S>& b, std::vector<S>& out, int64_t rows,
                          Product product = Product::kConvolution, bool normalize = false, double eps = kEps) {
  BindParams params;
  params.a = a.values.data();
  params.b = b.values.data();
  params.out = out.data();
  params.rows = rows;
  params.dim = a.dim;
  params.map = contiguous_rows(rows, a.dim);
  params.product = product;
  params.normalize = normalize;
  params.eps = eps;
  return params;
}

template <typename S>
std::vector<S> bound(const Rows<S>& a, const Rows<S>& b, Product product = Product::kConvolution,
                     bool normalize = false, double eps = kEps, const Schedule& schedule = {}) {
  const int64_t rows = static_cast<int64_t>(a.values.size()) / a.dim;
  auto out = poisoned<S>(a.values.size());
  run_binding<S>(binding_params(a, b, out, rows, product, normalize, eps), schedule);
  return out;
}

// Rows of K terms with K weights each.
template <typename S>
struct Weighting {
  int64_t rows;
  int64_t items;
  Rows<S> weights;
  bool weighted = true;
  bool normalize;
  double eps = kEps;

  Weighting(int64_t rows_, int64_t items_, unsigned seed, bool normalize_)
      : rows(rows_), items(items_), weights(rows_ * items_, 1, seed), normalize(normalize_) {}

  // Parameters that BindSuperposeParams and SuperpositionParams share; `operand` places the weights.
  template <typename Params>
  Params params_of(int64_t dim, int operand, std::vector<S>& out) const {
    Params params;
    params.weights = weighted ? weights.values.data() : nullptr;
    params.out = out.data();
    params.rows = rows;
    params.items = items;
    params.dim = dim;
    params.map = contiguous_rows(rows, items * dim);
    params.map.strides[operand][0] = items;
    params.item_stride_weights = 1;
    params.normalize = normalize;
    params.eps = eps;
    return params;
  }

  // sum_k w[r,k] term(r K + k), normalised where asked for
  template <typename Term>
  Exact weighted_sum(int64_t r, int64_t dim, const Term& term) const {
    Exact sum(static_cast<size_t>(dim));
    for (int64_t k = r * items; k < (r + 1) * items; ++k) {
      const long double weight = weighted ? static_cast<double>(weights.values[static_cast<size_t>(k)]) : 1.0;
      const Exact x = term(k);
      for (size_t n = 0; n < sum.size(); ++n) {
        sum[n] += weight * x[n];
      }
    }
    return normalize ? oracle_normalized(sum, eps) : sum;
  }
};

template <typename S>
struct Records : Weighting<S> {
  int64_t dim;
  Rows<S> a;
  Rows<S> b;

  Records(int64_t rows, int64_t items, int64_t dim_, unsigned seed)
      : Weighting<S>(rows, items, seed + 2, false),
        dim(dim_),
        a(rows * items, dim_, seed),
        b(rows * items, dim_, seed + 1) {}

  BindSuperposeParams params(std::vector<S>& out) const {
    auto result = this->template params_of<BindSuperposeParams>(dim, 2, out);
    result.a = a.values.data();
    result.b = b.values.data();
    result.item_stride_a = dim;
    result.item_stride_b = dim;
    return result;
  }

  std::vector<S> run(const Schedule& schedule = {}) const {
    auto out = poisoned<S>(static_cast<size_t>(this->rows * dim));
    run_bind_superpose<S>(params(out), schedule);
    return out;
  }

  Exact expected(int64_t r) const {
    return this->weighted_sum(r, dim,
                              [&](int64_t k) { return oracle_product(Product::kConvolution, a.exact(k), b.exact(k)); });
  }
};

template <typename S>
struct Superposition : Weighting<S> {
  int64_t dim;
  Rows<S> vectors;

  Superposition(int64_t rows, int64_t items, int64_t dim_, unsigned seed)
      : Weighting<S>(rows, items, seed + 1, true), dim(dim_), vectors(rows * items, dim_, seed) {}

  SuperpositionParams params(std::vector<S>& out) const {
    auto result = this->template params_of<SuperpositionParams>(dim, 1, out);
    result.vectors = vectors.values.data();
    result.item_stride_vectors = dim;
    return result;
  }

  std::vector<S> run(const Schedule& schedule = {}, int64_t max_blocks = kMaxGridX) const {
    auto out = poisoned<S>(static_cast<size_t>(this->rows * dim));
    run_superposition<S>(params(out), schedule, max_blocks);
    return out;
  }

  Exact expected(int64_t r) const {
    return this->weighted_sum(r, dim, [&](int64_t k) { return vectors.exact(k); });
  }
};

// Upstream gradients and operands of a product, and what its gradients come to.
template <typename S>
struct Gradients {
  int64_t rows;
  int64_t dim;
  Rows<S> grad;
  Rows<S> a;
  Rows<S> b;
  Product product = Product::kConvolution;
  bool normalize = false;
  double eps = kEps;
  std::vector<S> grad_a;
  std::vector<S> grad_b;

  Gradients(int64_t rows_, int64_t dim_, unsigned seed)
      : rows(rows_), dim(dim_), grad(rows_, dim_, seed), a(rows_, dim_, seed + 1), b(rows_, dim_, seed + 2) {}

  BindBackwardParams params() {
    grad_a = poisoned<S>(static_cast<size_t>(rows * dim));
    grad_b = grad_a;
    BindBackwardParams result;
    result.grad = grad.values.data();
    result.a = a.values.data();
    result.b = b.values.data();
    result.grad_a = grad_a.data();
    result.grad_b = grad_b.data();
    result.rows = rows;
    result.dim = dim;
    result.map = contiguous_rows(rows, dim);
    result.product = product;
    result.normalize = normalize;
    result.eps = eps;
    return result;
  }

  void run(const Schedule& schedule = {}, int threads = 0) {
    run_backward<S>(params(), schedule, threads);
  }

  // The expected gradients of row r with respect to a and b, and the norm of g before c is projected out of it: at
  // D = 1 nothing is left.
  std::tuple<Exact, Exact, long double> expected(int64_t r) const {
    Exact g = grad.exact(r);
    long double upstream = 0;
    const Exact x = a.exact(r);
    const Exact y = b.exact(r);
    if (normalize) {
      const Exact c = oracle_product(Product::kConvolution, x, y);
      const long double norm = std::sqrt(dot(c, c));
      if (norm >= eps) {
        const long double projection = dot(c, g) / norm / norm;
        upstream = std::sqrt(dot(g, g)) / norm;
        for (size_t i = 0; i < g.size(); ++i) {
          g[i] = (g[i] - projection * c[i]) / norm;
        }
      } else {
        g = scaled(g, norm == 0 ? 0 : 1 / static_cast<long double>(eps));
      }
    }
    if (product == Product::kConvolution) {
      return {oracle_product(Product::kCorrelation, g, y), oracle_product(Product::kCorrelation, g, x), upstream};
    }
    return {oracle_product(Product::kConvolution, g, y), oracle_product(Product::kCorrelation, x, g), upstream};
  }

  void check(int64_t r, double tolerance) const {
    const auto [da, db, upstream] = expected(r);
    const long double scale_a = dim == 1 ? upstream * std::abs(b.exact(r)[0]) : 0;
    const long double scale_b = dim == 1 ? upstream * std::abs(a.exact(r)[0]) : 0;
    EXPECT_TRUE(row_close(grad_a.data() + r * dim, da, tolerance, scale_a)) << dim << " row " << r;
    EXPECT_TRUE(row_close(grad_b.data() + r * dim, db, tolerance, scale_b)) << dim << " row " << r;
  }
};

// The products that have gradients.
struct Form {
  Product product;
  bool normalize;
};
constexpr Form kForms[] = {
    {Product::kConvolution, false}, {Product::kCorrelation, false}, {Product::kConvolution, true}};

}  // namespace torch_hrr::kernels::hrr_testing
