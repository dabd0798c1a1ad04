// Packed spectra and products with them on the host: against the direct transform, the CPU kernels and each other; the
// four types, every length, rows that need scaling, rows that are not finite, blocks and schedules.
#include "tests/cuda_on_host/hrr_cpu_agreement.h"
#include "tests/cuda_on_host/hrr_maps.h"
#include "tests/cuda_on_host/hrr_problems.h"

#include <complex>

namespace torch_hrr::kernels {
namespace {

using namespace hrr_testing;

template <typename S, typename Params, typename Run>
std::vector<S> result_of(Params params, const Run& run) {
  auto out = poisoned<S>(static_cast<size_t>(params.rows * params.dim));
  params.out = out.data();
  run(params);
  return out;
}

template <typename S>
std::vector<S> on_host(const PackedSpectrumParams& params, const Schedule& schedule = {}, int threads = 0) {
  return result_of<S>(params, [&](const auto& p) { run_packed_spectrum_kernel<S>(p, schedule, threads); });
}
template <typename S>
std::vector<S> on_host(const SpectrumBindParams& params, const Schedule& schedule = {}, int threads = 0) {
  return result_of<S>(params, [&](const auto& p) { run_bind_spectrum_kernel<S>(p, schedule, threads); });
}
template <typename S>
std::vector<S> on_cpu(const PackedSpectrumParams& params) {
  return result_of<S>(params, [](const auto& p) { run_packed_spectrum<S>(p, 0, p.rows); });
}
template <typename S>
std::vector<S> on_cpu(const SpectrumBindParams& params) {
  return result_of<S>(params, [](const auto& p) { run_bind_spectrum<S>(p, 0, p.rows); });
}

template <typename S>
class PackedSpectra : public ::testing::Test {
 protected:
  // What hrr_launches_*.cpp compile.
  static std::vector<int64_t> dims() {
    return std::is_same_v<S, float> ? std::vector<int64_t>{32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}
                                    : std::vector<int64_t>{512, 1024};
  }

  // A row of ordinary numbers, one to scale up, one to scale down, zeros, and one that is not finite.
  static constexpr int64_t kRows = 5;
  static Rows<S> difficult_rows(int64_t dim, unsigned seed) {
    Rows<S> rows(kRows, dim, seed);
    const int shift = std::is_same_v<S, double> ? 900 : std::is_same_v<S, Half> ? 6 : 110;
    for (int64_t i = 0; i < dim; ++i) {
      rows.row(1)[i] = static_cast<S>(std::ldexp(static_cast<double>(rows.row(1)[i]), shift));
      rows.row(2)[i] = static_cast<S>(std::ldexp(static_cast<double>(rows.row(2)[i]), -shift));
    }
    std::fill_n(rows.row(3), dim, static_cast<S>(0));
    rows.row(4)[dim / 3] = static_cast<S>(std::numeric_limits<double>::quiet_NaN());
    return rows;
  }
};
TYPED_TEST_SUITE(PackedSpectra, StorageTypes);

// A_0, Re A_1, Im A_1, ..., A_M by the sums themselves.
Exact packed_oracle(const Exact& row) {
  constexpr long double kLongTurn = 6.283185307179586476925286766559L;
  const size_t dim = row.size();
  std::vector<std::complex<long double>> roots;
  for (size_t n = 0; n < dim; ++n) {
    roots.push_back(std::polar(1.0L, -kLongTurn * static_cast<long double>(n) / static_cast<long double>(dim)));
  }
  Exact packed;
  for (size_t k = 0; 2 * k <= dim; ++k) {
    std::complex<long double> bin = 0;
    for (size_t n = 0; n < dim; ++n) {
      bin += row[n] * roots[n * k % dim];
    }
    packed.push_back(bin.real());
    if (k > 0 && 2 * k < dim) {
      packed.push_back(bin.imag());
    }
  }
  return packed;
}

TYPED_TEST(PackedSpectra, AreTheBinsOfTheRow) {
  using S = TypeParam;
  const Rows<S> rows(2, 512, 61);
  const std::vector<S> packed = on_host<S>(packed_params(rows, 2, false));
  for (int64_t r = 0; r < 2; ++r) {
    EXPECT_TRUE(row_close(packed.data() + r * 512, packed_oracle(rows.exact(r)), kTolerance<S>));
  }
}

TYPED_TEST(PackedSpectra, AgreeWithTheCpuKernel) {
  using S = TypeParam;
  for (const int64_t dim : this->dims()) {
    const Rows<S> rows = this->difficult_rows(dim, 62);
    for (const bool inverse : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "dim " << dim << " inverse " << inverse);
      const PackedSpectrumParams params = packed_params(rows, this->kRows, inverse);
      expect_rows_agree(on_host<S>(params), on_cpu<S>(params), dim);
    }
  }
}

TYPED_TEST(PackedSpectra, ProductsAgreeWithTheCpuKernel) {
  using S = TypeParam;
  for (const int64_t dim : this->dims()) {
    const Rows<S> a = this->difficult_rows(dim, 63);
    Rows<S> spectra(this->kRows, dim, 64, std::sqrt(static_cast<double>(dim)));
    for (const Product product : {Product::kConvolution, Product::kCorrelation}) {
      SCOPED_TRACE(::testing::Message() << "dim " << dim << " product " << static_cast<int>(product));
      const SpectrumBindParams params = spectrum_bind_params(a, spectra.values.data(), this->kRows, product);
      expect_rows_agree(on_host<S>(params), on_cpu<S>(params), dim);
    }
    spectra.row(0)[1] = static_cast<S>(std::numeric_limits<double>::infinity());
    const SpectrumBindParams params =
        spectrum_bind_params(a, spectra.values.data(), this->kRows, Product::kConvolution);
    const std::vector<S> out = on_host<S>(params);
    EXPECT_TRUE(hrr_testing::all_nan(out.data(), dim));
    expect_rows_agree(out, on_cpu<S>(params), dim);
    // A row of the largest numbers, whose transform overflows, times a quarter of the delta vector's spectrum.
    Rows<S> largest(1, dim, 65);
    Rows<S> quarter(1, dim, 66);
    for (int64_t i = 0; i < dim; ++i) {
      largest.row(0)[i] = std::numeric_limits<S>::max();
      quarter.row(0)[i] = static_cast<S>(i == 0 || i % 2 == 1 ? 0.25 : 0);
    }
    const std::vector<S> scaled =
        on_host<S>(spectrum_bind_params(largest, quarter.values.data(), 1, Product::kConvolution));
    const double expected = static_cast<double>(std::numeric_limits<S>::max()) / 4;
    for (const S value : scaled) {
      ASSERT_NEAR(static_cast<double>(value) / expected, 1, 1e-2);
    }
  }
}

// Bound with the spectrum as with the row itself.
TEST(PackedSpectraOfFloat, ProductsAreThoseOfTheRows) {
  for (const int64_t dim : {32, 1024, 8192}) {
    const Rows<float> a(3, dim, 65);
    const Rows<float> b(3, dim, 66);
    Rows<float> spectra = b;
    spectra.values = on_host<float>(packed_params(b, 3, false));
    for (const Product product : {Product::kConvolution, Product::kCorrelation}) {
      expect_rows_agree(on_host<float>(spectrum_bind_params(a, spectra.values.data(), 3, product)),
                        bound(a, b, product), dim);
    }
  }
}

TYPED_TEST(PackedSpectra, BlocksSchedulesAndNeighboursGiveTheSameBits) {
  using S = TypeParam;
  constexpr int64_t kDim = 512;
  const Rows<S> rows = this->difficult_rows(kDim, 67);
  const Rows<S> spectra(this->kRows, kDim, 68);
  const auto same = [](const std::vector<S>& x, const std::vector<S>& y) {
    return std::memcmp(x.data(), y.data(), x.size() * sizeof(S)) == 0;
  };
  const PackedSpectrumParams forward = packed_params(rows, this->kRows, false);
  const PackedSpectrumParams back = packed_params(spectra, this->kRows, true);
  const SpectrumBindParams product =
      spectrum_bind_params(rows, spectra.values.data(), this->kRows, Product::kConvolution);
  const auto expect_same = [&](const auto& params) {
    const std::vector<S> expected = on_host<S>(params);
    for (const int threads : {32, 64, 128}) {
      for (const Schedule& schedule : all_schedules(1)) {
        EXPECT_TRUE(same(on_host<S>(params, schedule, threads), expected));
      }
    }
    auto alone = params;
    alone.rows = 1;
    EXPECT_TRUE(same(on_host<S>(alone), {expected.begin(), expected.begin() + kDim}));
  };
  expect_same(forward);
  expect_same(back);
  expect_same(product);
}

TEST(PackedSpectraLaunches, RefuseOtherLengthsAndLaunchNothingForNoRows) {
  for (const int64_t dim : {8, 96, 16384}) {
    PackedSpectrumParams transform;
    transform.rows = 1;
    transform.dim = dim;
    EXPECT_THROW(run_packed_spectrum_kernel<float>(transform), std::runtime_error);
    SpectrumBindParams product;
    product.rows = 1;
    product.dim = dim;
    EXPECT_THROW(run_bind_spectrum_kernel<float>(product), std::runtime_error);
  }
  EXPECT_NO_THROW(run_packed_spectrum_kernel<float>(PackedSpectrumParams{}));
  EXPECT_NO_THROW(run_bind_spectrum_kernel<float>(SpectrumBindParams{}));
}

}  // namespace
}  // namespace torch_hrr::kernels
