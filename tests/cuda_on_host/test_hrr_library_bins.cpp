// The kernel that maps a library's bins, against the CPU kernel: every map, empty bins, exponents, grids and schedules.
#include "tests/cuda_on_host/hrr_maps.h"

#include <vector>

#include "kernels/hrr/library_bins.cuh"

namespace torch_hrr::kernels {
namespace {

using namespace hrr_testing;

TEST(LibraryBins, AgreeWithTheCpuKernel) {
  for (const int64_t dim : {1, 2, 5, 8, 100, 601}) {
    const LibraryBins bins(4, dim);
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
  const LibraryBins bins(3, 64);
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
