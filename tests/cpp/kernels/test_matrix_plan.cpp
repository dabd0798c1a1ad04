// Plans for rows that are transformed as matrices: the bins that their numbers stand for, and their twiddle factors.
#include "kernels/fft/matrix_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

namespace torch_hrr::kernels {
namespace {

const std::vector<int64_t> kDims = {18, 20, 36, 75, 100, 143, 243, 343, 392, 693, 1000, 1001, 2187, 2500, 10000, 30030};

TEST(MatrixPlan, HasEveryBinOnceAndTheFirstLaneTwice) {
  for (const int64_t dim : kDims) {
    ASSERT_EQ(row_transform(dim), RowTransform::kMatrix) << dim;
    for (const int width : {4, 8, 16}) {
      SCOPED_TRACE(::testing::Message() << "dim " << dim << ", width " << width);
      const MatrixPlan<double>& plan = matrix_plan<double>(dim, width);
      ASSERT_EQ(plan.rows * plan.columns, dim);
      ASSERT_EQ(plan.lanes % plan.width, 0);
      ASSERT_EQ(kMaxMatrixLanes % plan.lanes, 0);
      ASSERT_GE(plan.lanes, plan.bins);
      ASSERT_LE(plan.column_width, plan.columns);
      std::vector<double> count(static_cast<size_t>(dim / 2 + 1));
      for (int64_t q = 0; q < plan.numbers; ++q) {
        const int64_t lane = q % plan.lanes;
        const double weight = plan.weights[q % kMaxMatrixLanes];
        if (lane >= plan.bins) {
          EXPECT_EQ(weight, 0);
        }
        if (q >= plan.size || lane >= plan.bins) {
          continue;
        }
        const int64_t bin = lane + plan.rows * (q / plan.lanes);
        count[static_cast<size_t>(std::min(bin, dim - bin))] += weight;
      }
      for (int64_t k = 0; k <= dim / 2; ++k) {
        EXPECT_EQ(count[static_cast<size_t>(k)], k == 0 || 2 * k == dim ? 1 : 2) << k;
      }
    }
  }
}

TEST(MatrixPlan, TurnsAndTwiddlesAreRootsOfUnity) {
  const auto expect_root = [](double re, double im, int64_t index, int64_t size) {
    const long double angle =
        2 * std::acos(-1.0L) * static_cast<long double>(index % size) / static_cast<long double>(size);
    EXPECT_LE(std::abs(re - std::cos(angle)), 2.5e-16L);
    EXPECT_LE(std::abs(im + std::sin(angle)), 2.5e-16L);
  };
  for (const int64_t dim : kDims) {
    SCOPED_TRACE(::testing::Message() << "dim " << dim);
    const MatrixPlan<double>& plan = matrix_plan<double>(dim, 8);
    const int64_t width = plan.column_width;
    const double* turns = plan.turns;
    for (int64_t start = 0; start < plan.columns; start += width) {
      const int64_t column = std::min(start, plan.columns - width);
      for (int64_t i = 1; i < plan.bins; ++i, turns += 2 * width) {
        for (int64_t lane = 0; lane < width; ++lane) {
          expect_root(turns[lane], turns[width + lane], (column + lane) * i, dim);
        }
      }
    }
    int64_t n = plan.columns;
    for (int pass = 0; pass + 1 < plan.passes; ++pass) {
      const double* twiddles = plan.twiddles[pass];
      for (int64_t p = 0; p < n / plan.radix[pass]; ++p) {
        for (int64_t k = 1; k < plan.radix[pass]; ++k, twiddles += 2) {
          expect_root(twiddles[0], twiddles[1], p * k, n);
        }
      }
      n /= plan.radix[pass];
    }
    EXPECT_EQ(n, plan.radix[plan.passes - 1]);
  }
}

TEST(MatrixPlan, ThreadsShareOnePlan) {
  for (const int64_t dim : {63, 900, 5000}) {
    std::vector<const MatrixPlan<float>*> seen(8);
    std::vector<std::thread> threads;
    for (auto& slot : seen) {
      threads.emplace_back([&slot, dim] { slot = &matrix_plan<float>(dim, 8); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const auto* plan : seen) {
      EXPECT_EQ(plan, &matrix_plan<float>(dim, 8));
    }
  }
}

// What a product is padded to is never shorter than the linear convolution, nor twice as long.
TEST(RowShape, PaddedLengthsHoldTheLinearConvolution) {
  for (int64_t dim = 17; dim <= 20000; ++dim) {
    const int64_t length = padded_row_length(dim);
    ASSERT_GE(length, 2 * dim - 1) << dim;
    ASSERT_LE(length, dim < 256 ? 4 * dim : 5 * dim / 2) << dim;
    ASSERT_EQ(row_transform(length), RowTransform::kPairs) << length;
  }
  EXPECT_EQ(padded_row_length(kMaxRowTransform / 2), kMaxRowTransform);
}

}  // namespace
}  // namespace torch_hrr::kernels
