// Bluestein's sum on the host against the CPU kernels in double: every map, packed spectra both ways, lengths of every
// transform, rows that need scaling, rows that are not finite, blocks and schedules.
#include "tests/cuda_on_host/hrr_cpu_agreement.h"
#include "tests/cuda_on_host/hrr_maps.h"

#include "kernels/hrr/launch_chirp.cuh"

namespace torch_hrr::kernels {
namespace {

using namespace hrr_testing;

std::vector<double> mapped(const DeviceChirp& chirp, SpectralMapParams params, const Schedule& schedule = {},
                           int threads = 0) {
  auto out = poisoned<double>(static_cast<size_t>(params.rows * params.dim));
  params.out = out.data();
  launch_chirp(chirp.planned(params), HostLauncher{schedule}, threads);
  return out;
}

void expect_map_agrees(const DeviceChirp& chirp, SpectralMapParams params) {
  const std::vector<double> on_cuda = mapped(chirp, params);
  auto on_cpu = poisoned<double>(on_cuda.size());
  params.out = on_cpu.data();
  run_spectral_map<double>(params, 0, params.rows);
  // The Jacobian of a row whose bins are all real is zero but for rounding.
  const bool zero = params.kind == SpectralMap::kUnitaryJacobian && params.dim <= 2;
  const std::vector<double> scales(static_cast<size_t>(params.rows), 1);
  // Bins of 0.3 magnify what both transforms round, and the CPU has other transforms for most of these lengths.
  expect_rows_agree(on_cuda, on_cpu, params.dim, zero ? scales : std::vector<double>{}, 6 * kUlps);
}

std::vector<double> packed(const DeviceChirp& chirp, const Rows<double>& in, int64_t rows, bool inverse,
                           const Schedule& schedule = {}, int threads = 0) {
  PackedSpectrumParams params = packed_params(in, rows, inverse);
  auto out = poisoned<double>(static_cast<size_t>(rows * in.dim));
  params.out = out.data();
  launch_chirp(chirp.planned(params), HostLauncher{schedule}, threads);
  auto on_cpu = poisoned<double>(out.size());
  params.out = on_cpu.data();
  run_packed_spectrum<double>(params, 0, rows);
  expect_rows_agree(out, on_cpu, in.dim, {}, 2 * kUlps);
  return out;
}

// Every transform of the device, at its ends.
constexpr int64_t kDims[] = {1, 2, 3, 10, 11, 21, 22, 42, 43, 85, 100, 170, 171, 300, 341, 682, 1000, 1365, 2000, 2731};

TEST(Chirp, MapsAgreeWithTheCpuKernel) {
  for (const int64_t dim : kDims) {
    const DeviceChirp chirp(dim);
    const int64_t rows = dim > 500 ? 1 : 3;
    const Rows<double> a = tame_rows<double>(rows, dim, 71);
    const Rows<double> v(rows, dim, 72);
    for (const SpectralMap kind : kMaps) {
      for (const double eps : {0.0, 0.9}) {
        SCOPED_TRACE(::testing::Message() << "dim " << dim << " map " << static_cast<int>(kind) << " eps " << eps);
        SpectralMapParams params = map_params(kind, a, v, rows);
        params.eps = eps;
        params.order = kind == SpectralMap::kPower && eps > 0 ? 2 : 0;
        expect_map_agrees(chirp, params);
      }
    }
  }
}

TEST(Chirp, PackedSpectraAgreeWithTheCpuKernel) {
  for (const int64_t dim : kDims) {
    SCOPED_TRACE(::testing::Message() << "dim " << dim);
    const DeviceChirp chirp(dim);
    const int64_t rows = dim > 500 ? 1 : 3;
    const Rows<double> in(rows, dim, 73);
    packed(chirp, in, rows, false);
    packed(chirp, in, rows, true);
  }
}

TEST(Chirp, EveryRowHasItsExponent) {
  const DeviceChirp chirp(75);
  const Rows<double> a = tame_rows<double>(3, 75, 74);
  const double exponents[] = {2, 0.5, -0.25};
  SpectralMapParams params = map_params(SpectralMap::kPower, a, a, 3);
  params.exponents = exponents;
  params.map.strides[2][0] = 1;
  expect_map_agrees(chirp, params);
}

TEST(Chirp, EmptyRowsScaledRowsAndRowsThatAreNotFinite) {
  constexpr int64_t kDim = 75;
  constexpr int64_t kRows = 6;
  const DeviceChirp chirp(kDim);
  Rows<double> a = tame_rows<double>(kRows, kDim, 75);
  Rows<double> v(kRows, kDim, 76);
  std::fill_n(a.row(0), kDim, 0.25);
  std::fill_n(a.row(1), kDim, 0.0);
  for (int64_t i = 0; i < kDim; ++i) {
    a.row(2)[i] = std::ldexp(a.row(2)[i], 900);
    a.row(3)[i] = std::ldexp(a.row(3)[i], -900);
    v.row(5)[i] = std::ldexp(v.row(5)[i], 900);
  }
  a.row(4)[7] = std::numeric_limits<double>::infinity();
  for (const SpectralMap kind : {SpectralMap::kInverse, SpectralMap::kUnitary, SpectralMap::kPower}) {
    SCOPED_TRACE(::testing::Message() << "map " << static_cast<int>(kind));
    SpectralMapParams params = map_params(kind, a, v, kRows);
    params.exponent = 0.25;
    expect_map_agrees(chirp, params);
    const std::vector<double> out = mapped(chirp, params);
    EXPECT_TRUE(hrr_testing::all_nan(out.data() + 4 * kDim, kDim));
    SpectralMapParams alone = params;
    alone.rows = 1;
    alone.a = a.row(5);
    EXPECT_TRUE(hrr_testing::same_bits(out.data() + 5 * kDim, mapped(chirp, alone).data(), kDim));
  }
  SpectralMapParams jacobian = map_params(SpectralMap::kUnitaryJacobian, a, v, 1);
  jacobian.a = a.row(5);
  jacobian.v = v.row(5);
  expect_map_agrees(chirp, jacobian);
  packed(chirp, a, kRows, false);
  packed(chirp, a, kRows, true);
}

std::vector<double> multibound(const DeviceChirp& chirp, const Rows<double>& vectors, int64_t rows, int64_t items,
                               const Schedule& schedule = {}, int threads = 0) {
  MultibindParams params = multibind_params(vectors, rows, items);
  auto out = poisoned<double>(static_cast<size_t>(rows * vectors.dim));
  params.out = out.data();
  launch_chirp(chirp.planned(params), HostLauncher{schedule}, threads);
  auto on_cpu = poisoned<double>(out.size());
  params.out = on_cpu.data();
  run_multibind<double>(params, 0, rows);
  expect_rows_agree(out, on_cpu, vectors.dim, {}, 8 * kUlps);
  return out;
}

TEST(Chirp, ProductsOfManyRowsAgreeWithTheCpuKernel) {
  for (const int64_t dim : {1, 5, 21, 100, 300, 1000, 2731}) {
    SCOPED_TRACE(::testing::Message() << "dim " << dim);
    const DeviceChirp chirp(dim);
    for (const int64_t items : {1, 2, 5}) {
      multibound(chirp, Rows<double>(2 * items, dim, 79), 2, items);
    }
  }
  // Factors whose products leave the range on the way and come back, zeros, a factor that is not finite.
  constexpr int64_t kDim = 75;
  constexpr int64_t kItems = 6;
  Rows<double> vectors = tame_rows<double>(4 * kItems, kDim, 80);
  for (int64_t k = 0; k < kItems; ++k) {
    for (int64_t i = 0; i < kDim; ++i) {
      vectors.row(k)[i] = std::ldexp(vectors.row(k)[i], k < kItems / 2 ? 700 : -700);
    }
  }
  std::fill_n(vectors.row(kItems + 2), kDim, 0.0);
  vectors.row(2 * kItems + 3)[1] = -std::numeric_limits<double>::infinity();
  const DeviceChirp chirp(kDim);
  const std::vector<double> out = multibound(chirp, vectors, 4, kItems);
  EXPECT_TRUE(hrr_testing::all_nan(out.data() + 2 * kDim, kDim));
  EXPECT_GT(std::abs(out[0]), 0.01);
  for (const Schedule& schedule : all_schedules(1)) {
    EXPECT_EQ(0, std::memcmp(multibound(chirp, vectors, 4, kItems, schedule, 64).data(), out.data(),
                             out.size() * sizeof(double)));
  }
}

TEST(Chirp, BlocksAndSchedulesGiveTheSameBits) {
  for (const int64_t dim : {100, 300}) {
    const DeviceChirp chirp(dim);
    const Rows<double> a = tame_rows<double>(3, dim, 77);
    const Rows<double> v(3, dim, 78);
    const SpectralMapParams params = map_params(SpectralMap::kPowerBackward, a, v, 3);
    const std::vector<double> expected = mapped(chirp, params);
    const std::vector<double> expected_packed = packed(chirp, a, 3, false);
    for (const int threads : {64, 128}) {
      for (const Schedule& schedule : all_schedules(1)) {
        EXPECT_EQ(mapped(chirp, params, schedule, threads), expected);
        EXPECT_EQ(packed(chirp, a, 3, false, schedule, threads), expected_packed);
      }
    }
  }
}

TEST(Chirp, LaunchesRefuseOtherPlansAndLaunchNothingForNoRows) {
  static_assert(kMaxDeviceChirpDim + kMaxDeviceChirpDim / 2 == 4096);
  for (const RowPlan& plan : {RowPlan(), RowPlan{RowPath::kDoubleChirp, RowGroup::kAlone, 8192},
                              RowPlan{RowPath::kMixed, RowGroup::kAlone, 1024}}) {
    SpectralMapParams map;
    PackedSpectrumParams transform;
    map.rows = transform.rows = 1;
    map.dim = transform.dim = 100;
    map.plan = transform.plan = plan;
    EXPECT_THROW(launch_chirp(map, HostLauncher{}), std::runtime_error);
    EXPECT_THROW(launch_chirp(transform, HostLauncher{}), std::runtime_error);
  }
  EXPECT_NO_THROW(launch_chirp(SpectralMapParams(), HostLauncher{}));
  EXPECT_NO_THROW(launch_chirp(PackedSpectrumParams(), HostLauncher{}));
}

}  // namespace
}  // namespace torch_hrr::kernels
