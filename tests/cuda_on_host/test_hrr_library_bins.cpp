// The kernel that maps a library's bins, against the CPU kernel: every map, empty bins, exponents, grids and schedules.
#include "tests/cuda_on_host/hrr_maps.h"

#include <complex>
#include <limits>
#include <random>
#include <vector>

#include "kernels/hrr/library_bins.cuh"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
namespace {

using namespace hrr_testing;

// Rows of bins whose first one (and last, for even dims) is real; row 1 has empty bins and row 2 is zero.
struct Bins {
  int64_t rows;
  int64_t dim;
  int64_t count;
  std::vector<double> values, v, norms, scales, exponents;

  Bins(int64_t rows_, int64_t dim_) : rows(rows_), dim(dim_), count(dim_ / 2 + 1) {
    std::mt19937 generator(7);
    std::normal_distribution<double> normal;
    for (int64_t r = 0; r < rows; ++r) {
      double squared = 0;
      for (int64_t k = 0; k < count; ++k) {
        const bool real = k == 0 || 2 * k == dim;
        const double size = r == 2 || (r == 1 && k % 3 == 1) ? 0 : 1;
        const std::complex<double> bin(size * normal(generator), real ? 0 : size * normal(generator));
        values.insert(values.end(), {bin.real(), bin.imag()});
        v.insert(v.end(), {normal(generator), real ? 0 : normal(generator)});
        squared += (real ? 1 : 2) * std::norm(bin);
      }
      norms.push_back(std::sqrt(squared / static_cast<double>(dim)));
      scales.push_back(static_cast<double>(r % 3 - 1));
      exponents.push_back(1.5 * normal(generator));
    }
  }

  LibraryBinsParams params(std::vector<double>& bins, SpectralMap kind, bool own_exponents) const {
    LibraryBinsParams params;
    params.bins = bins.data();
    params.v = takes_direction(kind) ? v.data() : nullptr;
    params.norms = norms.data();
    params.scales = scales.data();
    params.exponents = own_exponents ? exponents.data() : nullptr;
    params.rows = rows;
    params.count = count;
    params.dim = dim;
    params.roundoff = std::numeric_limits<double>::epsilon();
    params.last_is_real = dim % 2 == 0;
    params.kind = kind;
    params.eps = 0.5;
    params.exponent = -0.7;
    params.order = kind == SpectralMap::kPower ? 2 : 0;
    return params;
  }
};

TEST(LibraryBins, AgreeWithTheCpuKernel) {
  for (const int64_t dim : {1, 2, 5, 8, 100, 601}) {
    const Bins bins(4, dim);
    for (const SpectralMap kind : kMaps) {
      for (const bool own_exponents : {false, true}) {
        SCOPED_TRACE(testing::Message() << "dim " << dim << " map " << static_cast<int>(kind));
        std::vector<double> expected = bins.values;
        kernel_table<RowKernel<LibraryBinsParams>>().run(bins.params(expected, kind, own_exponents), 0, bins.rows,
                                                         nullptr);
        for (const Schedule& schedule : all_schedules(1)) {
          std::vector<double> got = bins.values;
          launch_library_bins(bins.params(got, kind, own_exponents), HostLauncher{schedule}, /*max_blocks=*/2);
          for (size_t i = 0; i < got.size(); ++i) {
            EXPECT_NEAR(got[i], expected[i], 1e-13 * (1 + std::abs(expected[i]))) << "number " << i;
          }
        }
      }
    }
  }
}

TEST(LibraryBins, BlockShapesGiveTheSameBits) {
  const Bins bins(3, 64);
  std::vector<double> expected = bins.values;
  launch_library_bins(bins.params(expected, SpectralMap::kUnitary, false), HostLauncher{});
  for (const dim3 block : {dim3(32), dim3(8, 4), dim3(96)}) {
    std::vector<double> got = bins.values;
    host_launch("map_library_bins_kernel", map_library_bins_kernel<SpectralMap::kUnitary>, dim3(2), block, 0,
                Schedule{}, bins.params(got, SpectralMap::kUnitary, false));
    EXPECT_EQ(got, expected);
  }
}

TEST(LibraryBins, NoRowsLaunchNothing) {
  LibraryBinsParams params;
  EXPECT_NO_THROW(launch_library_bins(params, HostLauncher{}));
}

}  // namespace
}  // namespace torch_hrr::kernels
