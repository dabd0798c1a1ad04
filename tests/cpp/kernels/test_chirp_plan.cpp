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
    const int64_t length = chirp_length(dim);
    ASSERT_GE(length, dim + dim / 2);
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
    const int64_t length = chirp_length(dim);
    const ChirpLease lease(dim, length, transform());
    const ChirpPlan& plan = lease.plan();
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

TEST(ChirpPlan, LeasesOfOneLengthShareAPlan) {
  const ChirpLease first(101, chirp_length(101), transform());
  const ChirpLease second(101, chirp_length(101), transform());
  const ChirpLease other(101, 512, transform());
  EXPECT_EQ(&first.plan(), &second.plan());
  EXPECT_NE(&first.plan(), &other.plan());
}

// More plans than are kept: those in use stay as they are.
TEST(ChirpPlan, ALeaseOutlivesThePlaceOfItsPlan) {
  const ChirpLease lease(75, chirp_length(75), transform());
  const double before = lease.plan().to_row_re[3];
  for (int64_t dim = 100001; dim < 100011; ++dim) {
    const ChirpLease large(dim, chirp_length(dim), transform());
    EXPECT_EQ(large.plan().dim, dim);
  }
  EXPECT_EQ(lease.plan().to_row_re[3], before);
  const ChirpLease again(75, chirp_length(75), transform());
  EXPECT_EQ(again.plan().to_row_re[3], before);
}

TEST(ChirpPlan, ThreadsGetTheSameTables) {
  std::vector<double> values(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < values.size(); ++i) {
    threads.emplace_back([&values, i] {
      for (int64_t dim = 30; dim < 90; ++dim) {
        const ChirpLease lease(dim, chirp_length(dim), transform());
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
