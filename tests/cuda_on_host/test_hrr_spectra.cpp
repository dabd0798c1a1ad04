// Maps of spectra and products of many rows on the host, against the CPU kernels: every map and length, the four types,
// rows that need scaling, rows that are not finite, layouts, blocks and schedules.
#include "tests/cuda_on_host/hrr_cpu_agreement.h"
#include "tests/cuda_on_host/hrr_maps.h"

namespace torch_hrr::kernels {
namespace {

using namespace hrr_testing;

template <typename S>
std::vector<S> mapped_on_host(SpectralMapParams params, const Schedule& schedule = {}, int threads = 0) {
  auto out = poisoned<S>(static_cast<size_t>(params.rows * params.dim));
  params.out = out.data();
  run_spectral_map_kernel<S>(params, schedule, threads);
  return out;
}

template <typename S>
void expect_map_agrees(SpectralMapParams params) {
  const std::vector<S> on_cuda = mapped_on_host<S>(params);
  auto on_cpu = poisoned<S>(on_cuda.size());
  params.out = on_cpu.data();
  run_spectral_map<S>(params, 0, params.rows);
  // Bins of 0.3 magnify what the transform rounds; the most that the tests see is 5.9.
  expect_rows_agree(on_cuda, on_cpu, params.dim, {}, 2 * kUlps);
}

template <typename S>
class Spectra : public ::testing::Test {
 protected:
  // What hrr_launches_*.cpp compile.
  static std::vector<int64_t> dims() {
    return std::is_same_v<S, float> ? std::vector<int64_t>{32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}
                                    : std::vector<int64_t>{512, 1024};
  }
};
TYPED_TEST_SUITE(Spectra, StorageTypes);

TYPED_TEST(Spectra, MapsAgreeWithTheCpuKernel) {
  using S = TypeParam;
  for (const int64_t dim : this->dims()) {
    const int64_t rows = dim > 1024 ? 1 : 3;
    const Rows<S> a = tame_rows<S>(rows, dim, 41);
    const Rows<S> v(rows, dim, 42);
    for (const SpectralMap kind : kMaps) {
      for (const double eps : {0.0, 0.9}) {
        SCOPED_TRACE(::testing::Message() << "dim " << dim << " map " << static_cast<int>(kind) << " eps " << eps);
        SpectralMapParams params = map_params(kind, a, v, rows);
        params.eps = eps;
        params.order = kind == SpectralMap::kPower && eps > 0 ? 2 : 0;
        expect_map_agrees<S>(params);
      }
    }
  }
}

TYPED_TEST(Spectra, EveryRowHasItsExponent) {
  using S = TypeParam;
  const Rows<S> a = tame_rows<S>(3, 512, 43);
  const double exponents[] = {2, 0.5, -0.25};
  SpectralMapParams params = map_params(SpectralMap::kPower, a, a, 3);
  params.exponents = exponents;
  params.map.strides[2][0] = 1;
  expect_map_agrees<S>(params);
}

TYPED_TEST(Spectra, EmptyRowsScaledRowsAndRowsThatAreNotFinite) {
  using S = TypeParam;
  constexpr int64_t kDim = 512;
  constexpr int64_t kRows = 6;
  Rows<S> a = tame_rows<S>(kRows, kDim, 44);
  const Rows<S> v(kRows, kDim, 45);
  const bool half = std::is_same_v<S, Half>;
  std::fill_n(a.row(0), kDim, static_cast<S>(0.25));
  std::fill_n(a.row(1), kDim, static_cast<S>(0));
  for (int64_t i = 0; i < kDim; ++i) {
    a.row(2)[i] = static_cast<S>(std::ldexp(static_cast<double>(a.row(2)[i]), half ? 3 : 100));
    a.row(3)[i] = static_cast<S>(std::ldexp(static_cast<double>(a.row(3)[i]), half ? -3 : -100));
  }
  a.row(4)[7] = static_cast<S>(std::numeric_limits<double>::infinity());
  for (const SpectralMap kind : {SpectralMap::kInverse, SpectralMap::kUnitary, SpectralMap::kPower}) {
    SCOPED_TRACE(::testing::Message() << "map " << static_cast<int>(kind));
    SpectralMapParams params = map_params(kind, a, v, kRows);
    params.exponent = 0.25;
    expect_map_agrees<S>(params);
    const std::vector<S> out = mapped_on_host<S>(params);
    EXPECT_TRUE(hrr_testing::all_nan(out.data() + 4 * kDim, kDim));
    // A neighbour's trouble does not touch a row's bits.
    SpectralMapParams alone = params;
    alone.rows = 1;
    alone.a = a.row(5);
    EXPECT_TRUE(hrr_testing::same_bits(out.data() + 5 * kDim, mapped_on_host<S>(alone).data(), kDim));
  }
}

// Directions of zeros or far from 1, and one that is not finite.
TYPED_TEST(Spectra, DirectionsOfAnyMagnitude) {
  using S = TypeParam;
  constexpr int64_t kDim = 512;
  const Rows<S> a = tame_rows<S>(4, kDim, 46);
  Rows<S> v(4, kDim, 47);
  std::fill_n(v.row(0), kDim, static_cast<S>(0));
  for (int64_t i = 0; i < kDim; ++i) {
    v.row(1)[i] = static_cast<S>(std::ldexp(static_cast<double>(v.row(1)[i]), std::is_same_v<S, Half> ? 4 : 90));
  }
  v.row(2)[0] = static_cast<S>(std::numeric_limits<double>::quiet_NaN());
  for (const SpectralMap kind :
       {SpectralMap::kInverseBackward, SpectralMap::kUnitaryJacobian, SpectralMap::kPowerBackward}) {
    SCOPED_TRACE(::testing::Message() << "map " << static_cast<int>(kind));
    expect_map_agrees<S>(map_params(kind, a, v, 4));
  }
}

// Powers whose bins are beyond float, but not the gradient that they are a factor of.
TEST(SpectraOfFloats, GradientsOfPowersSurviveTheirFactors) {
  const Rows<float> a = tame_rows<float>(1, 64, 50);
  const Rows<float> v(1, 64, 51);
  SpectralMapParams params = map_params(SpectralMap::kPowerBackward, a, v, 1);
  params.exponent = 4.5;
  const std::vector<float> plain = mapped_on_host<float>(params);
  const auto shifted = [](Rows<float> rows, int shift) {
    for (float& x : rows.values) {
      x = std::ldexp(x, shift);
    }
    return rows;
  };
  for (const int sign : {1, -1}) {
    const Rows<float> far_a = shifted(a, 40 * sign);
    const Rows<float> far_v = shifted(v, -27 * sign);
    params.a = far_a.values.data();
    params.v = far_v.values.data();
    const std::vector<float> far = mapped_on_host<float>(params);
    Exact expected;
    for (const float x : plain) {
      expected.push_back(std::ldexp(static_cast<long double>(x), 113 * sign));
    }
    EXPECT_TRUE(row_close(far.data(), expected, 1e-6)) << "sign " << sign;
  }
}

// Blocks of several shapes and every schedule give the same bits; rows beyond the last store nothing.
TYPED_TEST(Spectra, BlocksAndSchedulesGiveTheSameBits) {
  using S = TypeParam;
  const Rows<S> a = tame_rows<S>(3, 512, 48);
  const Rows<S> v(3, 512, 49);
  for (const SpectralMap kind : {SpectralMap::kPower, SpectralMap::kUnitaryJacobian}) {
    const SpectralMapParams params = map_params(kind, a, v, 3);
    const std::vector<S> expected = mapped_on_host<S>(params);
    for (const int threads : {32, 64, 128}) {
      for (const Schedule& schedule : all_schedules(1)) {
        EXPECT_EQ(0, std::memcmp(mapped_on_host<S>(params, schedule, threads).data(), expected.data(),
                                 expected.size() * sizeof(S)));
      }
    }
  }
}

template <typename S>
std::vector<S> multibound_on_host(MultibindParams params, const Schedule& schedule = {}, int threads = 0) {
  auto out = poisoned<S>(static_cast<size_t>(params.rows * params.dim));
  params.out = out.data();
  run_multibind_kernel<S>(params, schedule, threads);
  return out;
}

template <typename S>
void expect_multibind_agrees(MultibindParams params) {
  const std::vector<S> on_cuda = multibound_on_host<S>(params);
  auto on_cpu = poisoned<S>(on_cuda.size());
  params.out = on_cpu.data();
  run_multibind<S>(params, 0, params.rows);
  expect_rows_agree(on_cuda, on_cpu, params.dim, {}, 2 * kUlps);
}

TYPED_TEST(Spectra, ProductsOfManyRowsAgreeWithTheCpuKernel) {
  using S = TypeParam;
  for (const int64_t dim : this->dims()) {
    for (const int64_t items : {1, 2, 5}) {
      SCOPED_TRACE(::testing::Message() << "dim " << dim << " K " << items);
      const Rows<S> vectors(2 * items, dim, 50);
      expect_multibind_agrees<S>(multibind_params(vectors, 2, items));
    }
  }
}

// Bins that are small on the way and large in the end keep their digits.
TEST(SpectraOfFloats, ProductsKeepBinsThatAreSmallOnTheWay) {
  for (const int64_t dim : {32, 256, 1024}) {
    const Rows<float> rows = rows_of_a_bin_that_returns(dim);
    const std::vector<float> out = multibound_on_host<float>(multibind_params(rows, 1, 6));
    EXPECT_TRUE(row_close(out.data(), product_of(rows, 6), 200 * kTolerance<float>)) << dim;
  }
}

// Factors whose products leave the range on the way and come back, a row of zeros, a factor that is not finite.
TYPED_TEST(Spectra, ProductsSurviveTheirFactors) {
  using S = TypeParam;
  constexpr int64_t kDim = 512;
  constexpr int64_t kItems = 6;
  constexpr int64_t kRows = 4;
  Rows<S> vectors = tame_rows<S>(kRows * kItems, kDim, 51);
  const int shift = std::is_same_v<S, double> ? 700 : std::is_same_v<S, Half> ? 4 : 90;
  for (int64_t k = 0; k < kItems; ++k) {
    for (int64_t i = 0; i < kDim; ++i) {
      S& x = vectors.row(k)[i];
      x = static_cast<S>(std::ldexp(static_cast<double>(x), k < kItems / 2 ? shift : -shift));
    }
  }
  std::fill_n(vectors.row(kItems + 2), kDim, static_cast<S>(0));
  vectors.row(2 * kItems + 3)[1] = static_cast<S>(-std::numeric_limits<double>::infinity());
  const MultibindParams params = multibind_params(vectors, kRows, kItems);
  expect_multibind_agrees<S>(params);
  const std::vector<S> out = multibound_on_host<S>(params);
  EXPECT_TRUE(hrr_testing::all_nan(out.data() + 2 * kDim, kDim));
  for (const int threads : {32, 128}) {
    for (const Schedule& schedule : all_schedules(1)) {
      EXPECT_EQ(
          0, std::memcmp(multibound_on_host<S>(params, schedule, threads).data(), out.data(), out.size() * sizeof(S)));
    }
  }
}

TEST(SpectraLaunches, RefuseOtherLengthsAndLaunchNothingForNoRows) {
  for (const int64_t dim : {8, 96, 16384}) {
    SpectralMapParams map;
    map.rows = 1;
    map.dim = dim;
    EXPECT_THROW(run_spectral_map_kernel<float>(map), std::runtime_error);
    MultibindParams product;
    product.rows = 1;
    product.items = 2;
    product.dim = dim;
    EXPECT_THROW(run_multibind_kernel<float>(product), std::runtime_error);
  }
  EXPECT_NO_THROW(run_spectral_map_kernel<float>(SpectralMapParams{}));
  EXPECT_NO_THROW(run_multibind_kernel<float>(MultibindParams{}));
}

}  // namespace
}  // namespace torch_hrr::kernels
