// Plans of Bluestein's sum: lengths, tables against long double sums, and leases that outlive their plan's place.
#include "kernels/fft/chirp_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/registry.h"

namespace torch_hrr::kernels {
namespace {

ChirpTransform transform() {
  return kernel_table<ChirpKernels>().transform;
}

TEST(ChirpPlan, LengthsHoldEveryLagAndHaveATransform) {
  for (int64_t dim = 1; dim <= 20000; ++dim) {
    const int64_t length = chirp_shape(dim, false).length;
    ASSERT_GE(length, dim + dim / 2);
    ASSERT_GE(chirp_shape(dim, true).length, dim - 1);
    ASSERT_EQ(length % 16, 0);
    int64_t rest = length;
    for (const int64_t factor : {2, 3, 5}) {
      while (rest % factor == 0) {
        rest /= factor;
      }
    }
    ASSERT_EQ(rest, 1) << dim;
    ASSERT_LE(length, dim < 24 ? 48 : 2 * dim) << dim;
  }
}

// The tables are the transforms of w_lag / L at lag mod L.
TEST(ChirpPlan, TablesAreTheTransformsOfTheWrappedChirp) {
  using Point = std::complex<long double>;
  constexpr long double kLongTurn = 6.283185307179586476925286766559L;
  for (const int64_t dim : {1, 2, 7, 24, 75}) {
    const ChirpShape shape = chirp_shape(dim, false);
    const int64_t length = shape.length;
    const ChirpLease<double> lease(shape, transform());
    const ChirpPlan<double>& plan = lease.plan();
    for (const bool to_row : {false, true}) {
      std::vector<Point> wrapped(static_cast<size_t>(length));
      const int64_t behind = to_row ? dim / 2 : dim - 1;
      const int64_t ahead = to_row ? dim - 1 : dim / 2;
      for (int64_t lag = -behind; lag <= ahead; ++lag) {
        const long double angle = kLongTurn / 2 * static_cast<long double>(lag * lag % (2 * dim)) / dim;
        wrapped[static_cast<size_t>(lag < 0 ? length + lag : lag)] = std::polar(1.0L / length, angle);
      }
      const double* re = to_row ? plan.to_row_re : plan.to_bins_re;
      const double* im = to_row ? plan.to_row_im : plan.to_bins_im;
      for (int64_t k = 0; k < length; ++k) {
        Point sum = 0;
        for (int64_t n = 0; n < length; ++n) {
          sum += wrapped[static_cast<size_t>(n)] *
                 std::polar(1.0L, -kLongTurn * static_cast<long double>(n * k % length) / length);
        }
        EXPECT_NEAR(re[k], static_cast<double>(sum.real()), 1e-15) << "dim " << dim << " k " << k;
        EXPECT_NEAR(im[k], static_cast<double>(sum.imag()), 1e-15) << "dim " << dim << " k " << k;
      }
    }
  }
}

// Rows of even length as half as many complex numbers: the same table both ways, roots of the row, and in float the
// nearest numbers.
TEST(ChirpPlan, HalvedRowsHaveOneTableAndTheRootsOfTheRow) {
  const ChirpShape shape = chirp_shape(74, true);
  const ChirpLease<double> lease(shape, transform());
  const ChirpLease<float> narrow(shape, transform());
  const ChirpPlan<double>& plan = lease.plan();
  EXPECT_EQ(plan.size, 37);
  EXPECT_EQ(plan.to_bins_re, plan.to_row_re);
  for (int64_t k = 0; k <= 18; ++k) {
    EXPECT_NEAR(plan.half_root_re[k], std::cos(6.283185307179586 * static_cast<double>(k) / 74), 1e-15);
    EXPECT_NEAR(plan.half_root_im[k], -std::sin(6.283185307179586 * static_cast<double>(k) / 74), 1e-15);
    EXPECT_EQ(narrow.plan().half_root_im[k], static_cast<float>(plan.half_root_im[k]));
    EXPECT_EQ(narrow.plan().to_bins_re[k], static_cast<float>(plan.to_bins_re[k]));
  }
}

TEST(ChirpPlan, LeasesOfOneLengthShareAPlan) {
  const ChirpLease<double> first(chirp_shape(101, false), transform());
  const ChirpLease<double> second(chirp_shape(101, false), transform());
  const ChirpLease<double> other({101, false, 512}, transform());
  EXPECT_EQ(&first.plan(), &second.plan());
  EXPECT_NE(&first.plan(), &other.plan());
}

// More plans than are kept: those in use stay as they are.
TEST(ChirpPlan, ALeaseOutlivesThePlaceOfItsPlan) {
  const ChirpLease<double> lease(chirp_shape(75, false), transform());
  const double before = lease.plan().to_row_re[3];
  for (int64_t dim = 100001; dim < 100011; ++dim) {
    const ChirpLease<double> large(chirp_shape(dim, false), transform());
    EXPECT_EQ(large.plan().shape.dim, dim);
  }
  EXPECT_EQ(lease.plan().to_row_re[3], before);
  const ChirpLease<double> again(chirp_shape(75, false), transform());
  EXPECT_EQ(again.plan().to_row_re[3], before);
}

TEST(ChirpPlan, ThreadsGetTheSameTables) {
  std::vector<double> values(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < values.size(); ++i) {
    threads.emplace_back([&values, i] {
      for (int64_t dim = 30; dim < 90; ++dim) {
        const ChirpLease<double> lease(chirp_shape(dim, false), transform());
        values[i] += lease.plan().to_bins_re[dim / 3];
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const double value : values) {
    EXPECT_EQ(value, values[0]);
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
