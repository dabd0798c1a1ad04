// Plans of every size and width: passes that multiply up, twiddle factors against long double sines and cosines.
#include "kernels/fft/fft_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

namespace torch_hrr::kernels {
namespace {

constexpr int64_t kMaxMixedSize = 8192;

// Multiples of 4 with no prime factor above 5, some of 7, 11 and 13, and some of the longer ones.
std::vector<int64_t> all_sizes() {
  std::vector<int64_t> sizes = {28, 44, 52, 112, 616, 1456, 8008, 10000, 16384, 60 * 1001, 65536, int64_t{1} << 20};
  for (int64_t size = 16; size <= kMaxMixedSize; size += 4) {
    int64_t rest = size;
    for (const int64_t factor : {2, 3, 5}) {
      while (rest % factor == 0) {
        rest /= factor;
      }
    }
    if (rest == 1) {
      sizes.push_back(size);
    }
  }
  return sizes;
}

struct Root {
  long double re, im;
};

// e^{-2 pi i index / size}
Root root(int64_t index, int64_t size) {
  const long double angle =
      2 * std::acos(-1.0L) * static_cast<long double>(index % size) / static_cast<long double>(size);
  return {std::cos(angle), -std::sin(angle)};
}

// Half a unit in the last place of T, and of the double that it was rounded from.
template <typename T>
void expect_rounded(T got, long double want) {
  const long double half_ulp = std::abs(want) * std::numeric_limits<T>::epsilon() / 2;
  EXPECT_LE(std::abs(static_cast<long double>(got) - want), half_ulp + 2.5e-16L) << static_cast<double>(want);
}

template <typename T>
class FftPlanTest : public ::testing::Test {
 protected:
  template <typename Check>
  static void for_each_plan(const Check& check) {
    for (const int64_t size : all_sizes()) {
      for (const int max_width : {4, 8, 16}) {
        SCOPED_TRACE(::testing::Message() << size << " points, width " << max_width);
        check(fft_plan<T>(size, max_width), size, max_width);
        if (::testing::Test::HasFailure()) {
          return;
        }
      }
    }
  }
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(FftPlanTest, Types);

TYPED_TEST(FftPlanTest, PassesMultiplyUpToTheSize) {
  this->for_each_plan([](const FftPlan<TypeParam>& plan, int64_t size, int max_width) {
    EXPECT_EQ(plan.size, size);
    EXPECT_LE(plan.width, max_width);
    EXPECT_EQ(plan.width, fft_width(size, max_width));
    EXPECT_LE(int64_t{plan.width} * (plan.width == 16 ? 12 : plan.width), size);
    EXPECT_EQ(size % plan.width, 0);
    EXPECT_GE(plan.passes, 2);
    ASSERT_LE(plan.passes, kMaxFftPasses);
    EXPECT_EQ(plan.radix[0], plan.width);
    int64_t product = 1;
    for (int pass = 0; pass < plan.passes; ++pass) {
      EXPECT_TRUE(plan.radix[pass] >= 2 && plan.radix[pass] <= 16) << plan.radix[pass];
      product *= plan.radix[pass];
    }
    EXPECT_EQ(product, size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(plan.twiddles[0]) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(plan.coupling_re) % 64, 0u);
  });
}

TYPED_TEST(FftPlanTest, FirstPassTwiddlesAreRootsOfUnity) {
  this->for_each_plan([](const FftPlan<TypeParam>& plan, int64_t size, int) {
    const TypeParam* twiddles = plan.twiddles[0];
    const int64_t columns = size / plan.width;
    for (int64_t start = 0; start < columns; start += plan.width) {
      const int64_t block = std::max<int64_t>(0, std::min(start, columns - plan.width));
      for (int64_t k = 1; k < plan.width; ++k, twiddles += 2 * plan.width) {
        for (int64_t lane = 0; lane < plan.width; ++lane) {
          const Root want = root((block + lane) * k, size);
          expect_rounded(twiddles[lane], want.re);
          expect_rounded(twiddles[plan.width + lane], want.im);
        }
      }
    }
  });
}

TYPED_TEST(FftPlanTest, MiddlePassTwiddlesAreRootsOfUnity) {
  this->for_each_plan([](const FftPlan<TypeParam>& plan, int64_t size, int) {
    int64_t n = size / plan.width;
    for (int pass = 1; pass + 1 < plan.passes; ++pass) {
      const TypeParam* twiddles = plan.twiddles[pass];
      for (int64_t p = 0; p < n / plan.radix[pass]; ++p) {
        for (int64_t k = 1; k < plan.radix[pass]; ++k, twiddles += 2) {
          const Root want = root(p * k, n);
          expect_rounded(twiddles[0], want.re);
          expect_rounded(twiddles[1], want.im);
        }
      }
      n /= plan.radix[pass];
    }
    EXPECT_EQ(n, plan.radix[plan.passes - 1]);
  });
}

TYPED_TEST(FftPlanTest, CouplingIsAQuarterOfOnePlusTheRoot) {
  this->for_each_plan([](const FftPlan<TypeParam>& plan, int64_t size, int) {
    for (int64_t k = 0; k < size / 2; ++k) {
      const Root want = root(k, size);
      expect_rounded(plan.coupling_re[k], (1 + want.re) / 4);
      expect_rounded(plan.coupling_im[k], want.im / 4);
    }
    EXPECT_EQ(plan.coupling_re[0], TypeParam{0.5});
    EXPECT_EQ(plan.coupling_im[0], TypeParam{0});
    EXPECT_EQ(plan.coupling_re[size / 4], TypeParam{0.25});  // a quarter of a turn
    EXPECT_EQ(plan.coupling_im[size / 4], TypeParam{-0.25});
  });
}

TYPED_TEST(FftPlanTest, HalfRootsAreThoseOfTwiceTheSize) {
  this->for_each_plan([](const FftPlan<TypeParam>& plan, int64_t size, int) {
    for (int64_t k = 0; k < size / 2; ++k) {
      const Root want = root(k, 2 * size);
      expect_rounded(plan.half_root_re[k], want.re);
      expect_rounded(plan.half_root_im[k], want.im);
    }
  });
}

// The sine and cosine of an eighth of a turn must be one number, or symmetric rows would get unsymmetric spectra.
TYPED_TEST(FftPlanTest, MirrorImagesAreExact) {
  this->for_each_plan([](const FftPlan<TypeParam>& plan, int64_t size, int) {
    for (int64_t k = 1; k < size / 4; ++k) {
      EXPECT_EQ(plan.coupling_im[k], plan.coupling_im[size / 2 - k]) << k;
    }
  });
}

TYPED_TEST(FftPlanTest, ThreadsShareOnePlan) {
  for (const int64_t size : {16, 48, 80, 1024, 4096, 8192, 16384}) {
    std::vector<const FftPlan<TypeParam>*> seen(8);
    std::vector<std::thread> threads;
    for (auto& slot : seen) {
      threads.emplace_back([&slot, size] { slot = &fft_plan<TypeParam>(size, 8); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const auto* plan : seen) {
      EXPECT_EQ(plan, &fft_plan<TypeParam>(size, 8));
      EXPECT_EQ(plan->size, size);
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
