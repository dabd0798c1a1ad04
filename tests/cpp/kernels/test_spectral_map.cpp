// Maps of a row's bins and products of many rows, against direct sums in long double.
#include "kernels/hrr/spectral_map.h"

#include <complex>

#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

using Bin = std::complex<long double>;
using Bins = std::vector<Bin>;

constexpr long double kTurn = 6.283185307179586476925286766559L;
// Rows side by side, half-length transforms on long and on short vectors, matrices, Bluestein's sum.
constexpr int64_t kDims[] = {32, 64, 80, 96, 160, 256, 400, 480, 512, 1024, 40,  72,  120, 1000, 1,
                             2,  3,  4,  5,  7,   16,  24,  75,  100, 101,  250, 257, 22,  34,   343};
constexpr SpectralMap kMaps[] = {
    SpectralMap::kInverse,         SpectralMap::kCutInverse,      SpectralMap::kUnitary,      SpectralMap::kPower,
    SpectralMap::kInverseBackward, SpectralMap::kUnitaryJacobian, SpectralMap::kPowerBackward};

Bins roots(int64_t dim, int sign) {
  Bins roots;
  for (int64_t k = 0; k < dim; ++k) {
    roots.push_back(std::polar(1.0L, sign * kTurn * static_cast<long double>(k) / static_cast<long double>(dim)));
  }
  return roots;
}

// A_k = sum_n a[n] e^{-2 pi i nk/D}, for all D bins
Bins bins_of(const std::vector<double>& row) {
  const auto dim = static_cast<int64_t>(row.size());
  const Bins w = roots(dim, -1);
  Bins bins(row.size());
  for (int64_t k = 0; k < dim; ++k) {
    for (int64_t n = 0; n < dim; ++n) {
      const long double element = row[static_cast<size_t>(n)];
      bins[static_cast<size_t>(k)] += element * w[static_cast<size_t>(n * k % dim)];
    }
  }
  return bins;
}

std::vector<double> row_of(const Bins& bins) {
  const auto dim = static_cast<int64_t>(bins.size());
  const Bins w = roots(dim, 1);
  std::vector<double> row;
  for (int64_t n = 0; n < dim; ++n) {
    Bin sum = 0;
    for (int64_t k = 0; k < dim; ++k) {
      sum += bins[static_cast<size_t>(k)] * w[static_cast<size_t>(n * k % dim)];
    }
    row.push_back(static_cast<double>(sum.real() / static_cast<long double>(dim)));
  }
  return row;
}

// One bin as the definitions have it; `real` where the row has no conjugate of it.
Bin mapped(const SpectralMapParams& p, Bin a, Bin v, long double exponent, long double empty_below, bool real) {
  const long double power = std::norm(a);
  const bool empty = std::abs(a) <= empty_below;
  const Bin ln(std::log(std::abs(a)), real ? (a.real() < 0 ? kTurn / 2 : 0) : std::arg(a));
  const auto part = [real](Bin z) { return real ? Bin(z.real()) : z; };
  switch (p.kind) {
    case SpectralMap::kInverse:
      return empty ? 0 : std::conj(a) / std::max(power, static_cast<long double>(p.eps));
    case SpectralMap::kCutInverse:
      return empty || power <= static_cast<long double>(p.eps) ? 0 : std::conj(a) / power;
    case SpectralMap::kUnitary:
      return empty ? 1 : a / std::abs(a);
    case SpectralMap::kPower:
      return empty ? 0 : part(std::exp(exponent * ln) * std::pow(ln, p.order));
    case SpectralMap::kInverseBackward:
      return empty                                      ? 0
             : power <= static_cast<long double>(p.eps) ? std::conj(v) / static_cast<long double>(p.eps)
                                                        : -std::conj(1.0L / (a * a)) * v;
    case SpectralMap::kUnitaryJacobian:
      return empty || real ? 0 : Bin(0, 1) * (a / std::abs(a)) * (v / a).imag();
    case SpectralMap::kPowerBackward:
      return empty ? 0 : exponent * std::conj(part(std::exp((exponent - 1) * ln))) * v;
  }
  return 0;
}

// Rows whose bins lie between about 0.3 and 2, with negative real bins in every other row.
template <typename S>
Buffer<S> tame_rows(int64_t rows, int64_t dim) {
  Buffer<S> values = random_values<S>(rows * dim, 81, 0.15 / std::sqrt(static_cast<double>(dim)));
  for (int64_t r = 0; r < rows; ++r) {
    S& first = values.data()[r * dim];
    first = from_double<S>(to_double(first) + (r % 2 == 0 ? 1 : -1));
  }
  return values;
}

template <typename S>
class SpectralMaps : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 3;

  static SpectralMapParams params_of(SpectralMap kind, int64_t dim, const S* a, const S* v, S* out) {
    SpectralMapParams params;
    params.a = a;
    params.v = takes_direction(kind) ? v : nullptr;
    params.out = out;
    params.rows = kRows;
    params.dim = dim;
    params.map = row_map(kRows, {dim, dim, 1});
    params.kind = kind;
    params.exponent = -1.3;
    return params;
  }

  // A row, its direction and their bins.
  struct Operands {
    Operands(const S* a, const S* v, int64_t dim)
        : row(row_at(a, dim)), bins(bins_of(row)), directions(bins_of(row_at(v, dim))) {}

    std::vector<double> row;
    Bins bins;
    Bins directions;
  };

  static std::vector<double> expected(const SpectralMapParams& params, const Operands& of, double exponent) {
    Bins bins = of.bins;
    const long double threshold = static_cast<long double>(std::numeric_limits<compute_t<S>>::epsilon()) *
                                  std::sqrt(static_cast<long double>(params.dim)) *
                                  static_cast<long double>(norm_of(of.row));
    for (size_t k = 0; k < bins.size(); ++k) {
      bins[k] = mapped(params, bins[k], of.directions[k], static_cast<long double>(exponent), threshold,
                       k == 0 || 2 * k == bins.size());
    }
    return row_of(bins);
  }

  // Bins of 0.3 magnify what the transform rounds.
  static constexpr double kTolerance = 20 * StorageTraits<S>::kTolerance;
};
TYPED_TEST_SUITE(SpectralMaps, StorageTypes);

constexpr bool reads_eps(SpectralMap map) {
  return divides_by_eps(map) || map == SpectralMap::kCutInverse;
}

TYPED_TEST(SpectralMaps, MatchTheirDefinitions) {
  using S = TypeParam;
  for (const int64_t dim : kDims) {
    const Buffer<S> a = tame_rows<S>(this->kRows, dim);
    const Buffer<S> v = random_values<S>(this->kRows * dim, 82);
    std::vector<typename TestFixture::Operands> rows;
    for (int64_t r = 0; r < this->kRows; ++r) {
      rows.emplace_back(a.data() + r * dim, v.data() + r * dim, dim);
    }
    for (const SpectralMap kind : kMaps) {
      for (const double eps : {0.0, 0.9}) {
        for (const int order : {0, 2}) {
          SCOPED_TRACE(::testing::Message() << "dim " << dim << " map " << static_cast<int>(kind) << " eps " << eps);
          if ((order > 0 && kind != SpectralMap::kPower) || (eps > 0 && !reads_eps(kind))) {
            continue;
          }
          Buffer<S> out(this->kRows * dim);
          SpectralMapParams params = this->params_of(kind, dim, a.data(), v.data(), out.data());
          params.eps = eps;
          params.order = order;
          run_spectral_map<S>(params, 0, this->kRows);
          for (int64_t r = 0; r < this->kRows; ++r) {
            EXPECT_TRUE(is_close(out.data() + r * dim,
                                 this->expected(params, rows[static_cast<size_t>(r)], params.exponent),
                                 this->kTolerance))
                << "row " << r;
          }
        }
      }
    }
  }
}

TYPED_TEST(SpectralMaps, EveryRowHasItsExponent) {
  using S = TypeParam;
  constexpr int64_t kDim = 96;
  const Buffer<S> a = tame_rows<S>(this->kRows, kDim);
  const double exponents[] = {2, 0.5, 0};
  Buffer<S> out(this->kRows * kDim);
  SpectralMapParams params = this->params_of(SpectralMap::kPower, kDim, a.data(), nullptr, out.data());
  params.exponents = exponents;
  run_spectral_map<S>(params, 0, this->kRows);
  for (int64_t r = 0; r < this->kRows; ++r) {
    const S* row = a.data() + r * kDim;
    EXPECT_TRUE(
        is_close(out.data() + r * kDim, this->expected(params, {row, row, kDim}, exponents[r]), this->kTolerance))
        << r;
  }
}

TYPED_TEST(SpectralMaps, EmptyBinsAndRowsAreMappedToZeroOrOne) {
  using S = TypeParam;
  for (const int64_t dim : {32, 75, 512}) {
    // A constant row has one bin; the row of zeros has none.
    Buffer<S> a(2 * dim);
    std::fill_n(a.data(), dim, from_double<S>(0.25));
    std::fill_n(a.data() + dim, dim, from_double<S>(0));
    for (const SpectralMap kind : {SpectralMap::kInverse, SpectralMap::kUnitary, SpectralMap::kPower}) {
      Buffer<S> out(2 * dim);
      SpectralMapParams params = this->params_of(kind, dim, a.data(), nullptr, out.data());
      params.rows = 2;
      run_spectral_map<S>(params, 0, 2);
      for (int64_t r = 0; r < 2; ++r) {
        const S* row = a.data() + r * dim;
        EXPECT_TRUE(is_close(out.data() + r * dim, this->expected(params, {row, row, dim}, params.exponent))) << dim;
      }
    }
  }
}

// Scaled rows: an inverse scales back exactly, a unitary row stays; far out the transforms need scaled inputs.
TYPED_TEST(SpectralMaps, MagnitudesDoNotMatter) {
  using S = TypeParam;
  const std::vector<int> shifts = std::is_same_v<S, double> ? std::vector<int>{-900, -40, 40, 900}
                                  : std::is_same_v<S, Half> ? std::vector<int>{-3, 3}
                                                            : std::vector<int>{-110, -20, 20, 110};
  for (const int64_t dim : {128, 120, 75}) {
    const Buffer<S> a = tame_rows<S>(this->kRows, dim);
    for (const int shift : shifts) {
      Buffer<S> moved(this->kRows * dim);
      for (int64_t i = 0; i < moved.size(); ++i) {
        moved.data()[i] = from_double<S>(std::ldexp(to_double(a.data()[i]), shift));
      }
      for (const SpectralMap kind : {SpectralMap::kInverse, SpectralMap::kUnitary}) {
        Buffer<S> plain(this->kRows * dim);
        Buffer<S> out(this->kRows * dim);
        run_spectral_map<S>(this->params_of(kind, dim, a.data(), nullptr, plain.data()), 0, this->kRows);
        run_spectral_map<S>(this->params_of(kind, dim, moved.data(), nullptr, out.data()), 0, this->kRows);
        for (int64_t r = 0; r < this->kRows; ++r) {
          std::vector<double> want = row_at(plain.data() + r * dim, dim);
          for (double& value : want) {
            value = std::ldexp(value, kind == SpectralMap::kInverse ? -shift : 0);
          }
          EXPECT_TRUE(is_close(out.data() + r * dim, want, this->kTolerance + StorageTraits<S>::kRounding)) << shift;
        }
      }
    }
  }
}

TYPED_TEST(SpectralMaps, ARowThatIsNotFiniteIsNanAndLeavesItsNeighbours) {
  using S = TypeParam;
  for (const int64_t dim : {64, 75, 480}) {
    const Buffer<S> v = random_values<S>(this->kRows * dim, 83);
    for (const SpectralMap kind : kMaps) {
      for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
        Buffer<S> a = tame_rows<S>(this->kRows, dim);
        Buffer<S> clean(this->kRows * dim);
        Buffer<S> out(this->kRows * dim);
        run_spectral_map<S>(this->params_of(kind, dim, a.data(), v.data(), clean.data()), 0, this->kRows);
        a.data()[dim + dim / 3] = from_double<S>(bad);
        run_spectral_map<S>(this->params_of(kind, dim, a.data(), v.data(), out.data()), 0, this->kRows);
        EXPECT_TRUE(all_nan(out.data() + dim, dim)) << static_cast<int>(kind);
        EXPECT_TRUE(same_bits(out.data(), clean.data(), dim));
        EXPECT_TRUE(same_bits(out.data() + 2 * dim, clean.data() + 2 * dim, dim));
      }
    }
  }
}

TYPED_TEST(SpectralMaps, ProductsOfManyRowsMatchTheFold) {
  using S = TypeParam;
  constexpr int64_t kBatch = 2;
  for (const int64_t dim : {1, 5, 16, 32, 75, 96, 100, 512, 101, 202}) {
    for (const int64_t items : {1, 2, 3, 7}) {
      const Buffer<S> vectors = random_values<S>(kBatch * items * dim, 84, 1 / std::sqrt(static_cast<double>(dim)));
      Buffer<S> out(kBatch * dim);
      MultibindParams params;
      params.vectors = vectors.data();
      params.out = out.data();
      params.rows = kBatch;
      params.items = items;
      params.dim = dim;
      params.map = row_map(kBatch, {items * dim});
      params.item_stride = dim;
      run_multibind<S>(params, 0, kBatch);
      for (int64_t r = 0; r < kBatch; ++r) {
        std::vector<double> product = row_at(vectors.data() + r * items * dim, dim);
        for (int64_t k = 1; k < items; ++k) {
          product = convolve(product, row_at(vectors.data() + (r * items + k) * dim, dim));
        }
        EXPECT_TRUE(is_close(out.data() + r * dim, product, static_cast<double>(items) * StorageTraits<S>::kTolerance))
            << "dim " << dim << " K " << items;
      }
    }
  }
}

// Products that leave the range on the way and come back.
TYPED_TEST(SpectralMaps, ProductsSurviveTheirFactors) {
  using S = TypeParam;
  constexpr int64_t kItems = 6;
  const int shift = std::is_same_v<S, double> ? 700 : std::is_same_v<S, Half> ? 4 : 90;
  for (const int64_t dim : {16, 64, 75, 101, 202}) {
    Buffer<S> vectors = tame_rows<S>(kItems, dim);
    std::vector<double> want;
    for (int64_t k = 0; k < kItems; ++k) {
      S* row = vectors.data() + k * dim;
      const std::vector<double> plain = row_at(row, dim);
      want = k == 0 ? plain : convolve(want, plain);
      for (int64_t i = 0; i < dim; ++i) {
        // Half types: what scaling rounds away is scaled back out of the expectation too.
        row[i] = from_double<S>(std::ldexp(to_double(row[i]), k < kItems / 2 ? shift : -shift));
      }
    }
    Buffer<S> out(dim);
    MultibindParams params;
    params.vectors = vectors.data();
    params.out = out.data();
    params.rows = 1;
    params.items = kItems;
    params.dim = dim;
    params.item_stride = dim;
    run_multibind<S>(params, 0, 1);
    EXPECT_TRUE(is_close(out.data(), want, std::is_same_v<S, Half> ? 2e-3 : 10 * StorageTraits<S>::kTolerance));
    vectors.data()[3 * dim + 5] = from_double<S>(NAN);
    run_multibind<S>(params, 0, 1);
    EXPECT_TRUE(all_nan(out.data(), dim));
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
