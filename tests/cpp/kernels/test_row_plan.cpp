// How rows are transformed: the plan of every operator, length, type and device.
#include "kernels/hrr/row_plan.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "kernels/fft/row_shape.h"
#include "kernels/isa.h"

namespace torch_hrr::kernels {

bool operator==(const RowPlan& a, const RowPlan& b) {
  return std::tie(a.path, a.group, a.length) == std::tie(b.path, b.group, b.length);
}

namespace {

constexpr int64_t kLongest = kMaxRowTransform;
// Of a block: of an A100 and of an H100.
constexpr int64_t kShared = 166912;
constexpr int64_t kMoreShared = 232448;

constexpr RowFamily kFamilies[] = {
    RowFamily::kProduct,        RowFamily::kGradient,  RowFamily::kProductSum,        RowFamily::kMap,
    RowFamily::kPower,          RowFamily::kMultibind, RowFamily::kMultibindBackward, RowFamily::kSpectrum,
    RowFamily::kSpectrumProduct};

RowPath path_of(RowFamily family, int64_t dim, Storage storage = Storage::kFloat) {
  return cpu_row_plan(family, storage, dim).path;
}
RowGroup group_of(RowFamily family, int64_t dim, Storage storage = Storage::kFloat, int64_t items = 1) {
  return cpu_row_plan(family, storage, dim, items).group;
}
RowPlan on_cuda(RowFamily family, int64_t dim, int64_t shared_bytes = kShared, Storage storage = Storage::kFloat) {
  return cuda_row_plan(family, storage, dim, shared_bytes);
}

TEST(CpuRowPlan, ProductsGoByTheirLengthArePaddedOrLeftToALibrary) {
  const std::vector<std::tuple<RowPath, std::vector<int64_t>>> expected = {
      {RowPath::kHalf, {32, 48, 96, 224, 512, 7680, 20000, kLongest}},
      {RowPath::kMatrix, {24, 40, 100, 1000, 1001, 10000, 30030}},
      {RowPath::kPadded, {1, 16, 17, 22, 101, 1003, 17 * 64, 8192 + 8, 8192 + 32, kLongest / 2 - 1}},
      {RowPath::kLibrary, {kLongest / 2 + 1, 2 * kLongest}},
  };
  for (const auto& [path, dims] : expected) {
    for (const int64_t dim : dims) {
      for (const RowFamily family : {RowFamily::kProduct, RowFamily::kGradient, RowFamily::kProductSum}) {
        EXPECT_EQ(path_of(family, dim), path) << dim;
      }
      const RowPlan plan = cpu_row_plan(RowFamily::kProduct, Storage::kFloat, dim);
      EXPECT_TRUE(path == RowPath::kPadded ? plan.length >= 2 * dim - 1 : plan.length == dim) << dim;
    }
  }
}

TEST(CpuRowPlan, BinsGoByTheirLengthOrByBluestein) {
  for (const RowFamily family : {RowFamily::kMap, RowFamily::kPower, RowFamily::kMultibind, RowFamily::kSpectrum}) {
    for (const int64_t dim : {1, 16, 22, 31}) {
      EXPECT_EQ(path_of(family, dim), RowPath::kDoubleChirp) << dim;
    }
    for (const int64_t dim : {33 * 31, 1003, 101}) {
      EXPECT_EQ(path_of(family, dim), RowPath::kChirp) << dim;
    }
    for (const int64_t dim : {34 * 31, 1006, 8192 + 8}) {
      EXPECT_EQ(path_of(family, dim), RowPath::kHalfChirp) << dim;
    }
    EXPECT_EQ(path_of(family, 1000), RowPath::kMatrix);
    EXPECT_EQ(path_of(family, 1024), RowPath::kHalf);
    EXPECT_EQ(path_of(family, kLongest / 2 + 1), RowPath::kLibrary);
  }
  // By a composition.
  EXPECT_EQ(path_of(RowFamily::kSpectrumProduct, 1003), RowPath::kLibrary);
  EXPECT_EQ(path_of(RowFamily::kSpectrumProduct, 1000), RowPath::kMatrix);
}

TEST(CpuRowPlan, ShortRowsGoSideBySide) {
  const bool wide = active_isa() == Isa::kAvx512;
  for (const int64_t dim : {1, 16, 31, 100, 128, 320}) {
    for (const RowFamily family : {RowFamily::kProduct, RowFamily::kGradient, RowFamily::kMap}) {
      EXPECT_EQ(group_of(family, dim), RowGroup::kLanes) << dim;
    }
    EXPECT_EQ(group_of(RowFamily::kPower, dim), dim <= 128 ? RowGroup::kLanes : RowGroup::kAlone) << dim;
    EXPECT_EQ(group_of(RowFamily::kMultibindBackward, dim, Storage::kFloat, 16384 / dim), RowGroup::kLanes) << dim;
    EXPECT_EQ(group_of(RowFamily::kMultibindBackward, dim, Storage::kFloat, 16384 / dim + 1), RowGroup::kAlone) << dim;
  }
  for (const int64_t dim : {37, 37 * 8, 321, 384, 4096}) {
    EXPECT_EQ(group_of(RowFamily::kProduct, dim), RowGroup::kAlone) << dim;
  }
  for (const int64_t dim : {128, 256, 512}) {
    EXPECT_EQ(group_of(RowFamily::kSpectrum, dim) == RowGroup::kRegisters, wide) << dim;
    EXPECT_NE(group_of(RowFamily::kSpectrum, dim, Storage::kDouble), RowGroup::kRegisters) << dim;
  }
  // Beyond them matrices do, of products and spectra.
  EXPECT_EQ(group_of(RowFamily::kProduct, 360), RowGroup::kMatrixLanes);
  EXPECT_EQ(group_of(RowFamily::kGradient, 360), RowGroup::kAlone);
  EXPECT_EQ(group_of(RowFamily::kProduct, 2100, Storage::kDouble), RowGroup::kAlone);
  EXPECT_EQ(group_of(RowFamily::kProduct, kLongest / 2 + 1), RowGroup::kAlone);
}

TEST(CpuRowPlan, HalfTypesGoAsFloats) {
  for (const RowFamily family : kFamilies) {
    for (int64_t dim = 1; dim < 2200; ++dim) {
      ASSERT_EQ(cpu_row_plan(family, Storage::kHalf, dim), cpu_row_plan(family, Storage::kFloat, dim)) << dim;
      ASSERT_EQ(cpu_row_plan(family, Storage::kBFloat16, dim), cpu_row_plan(family, Storage::kFloat, dim)) << dim;
    }
  }
}

TEST(CudaRowPlan, PowersOfTwoHaveKernelsOfTheirLength) {
  for (int64_t dim = 32; dim <= 8192; dim *= 2) {
    for (const RowFamily family : kFamilies) {
      const RowPath path = family == RowFamily::kMultibindBackward ? RowPath::kLibrary : RowPath::kHalf;
      EXPECT_EQ(on_cuda(family, dim), (RowPlan{path, RowGroup::kAlone, dim})) << dim;
    }
  }
}

TEST(CudaRowPlan, ProductsArePaddedUnlessTheirLengthAsksForLess) {
  for (const int64_t dim : {1, 8, 16}) {
    EXPECT_EQ(on_cuda(RowFamily::kProduct, dim), (RowPlan{RowPath::kPadded, RowGroup::kAlone, 32})) << dim;
  }
  for (const int64_t dim : {192, 300, 1100, 1500, 3000}) {
    EXPECT_EQ(on_cuda(RowFamily::kProduct, dim).path, RowPath::kMixed) << dim;
    EXPECT_EQ(on_cuda(RowFamily::kProduct, dim, 0).path, RowPath::kPadded) << dim;
  }
  // Padded to little more than twice their length, short, odd.
  for (const int64_t dim : {1000, 2048 - 64, 36, 191, 1501}) {
    const RowPlan plan = on_cuda(RowFamily::kProduct, dim);
    EXPECT_EQ(plan.path, RowPath::kPadded) << dim;
    EXPECT_TRUE(plan.length >= 2 * dim - 1 && plan.length < 4 * dim && (plan.length & (plan.length - 1)) == 0) << dim;
  }
  for (const int64_t dim : {5000, 12000}) {
    EXPECT_EQ(on_cuda(RowFamily::kProduct, dim).path, RowPath::kMixed) << dim;
  }
  for (const int64_t dim : {4099, 8191, 16384 * 4}) {
    EXPECT_EQ(on_cuda(RowFamily::kProduct, dim).path, RowPath::kLibrary) << dim;
  }
}

TEST(CudaRowPlan, SharedMemoryDecidesHowLongRowsMayBe) {
  // Three rows of a sum of products, two of a product.
  EXPECT_EQ(on_cuda(RowFamily::kProduct, 20000).path, RowPath::kMixed);
  EXPECT_EQ(on_cuda(RowFamily::kProductSum, 20000).path, RowPath::kLibrary);
  EXPECT_EQ(on_cuda(RowFamily::kProductSum, 18000, kMoreShared).path, RowPath::kMixed);
  EXPECT_EQ(on_cuda(RowFamily::kProduct, 20000, kShared, Storage::kDouble).path, RowPath::kLibrary);
  for (const RowFamily family : {RowFamily::kMap, RowFamily::kMultibind, RowFamily::kSpectrum}) {
    EXPECT_EQ(on_cuda(family, 3000).path, RowPath::kMixed);
    EXPECT_EQ(on_cuda(family, 3000, 0).path, RowPath::kLibrary);
    EXPECT_EQ(on_cuda(family, 1003), (RowPlan{RowPath::kDoubleChirp, RowGroup::kAlone, 2048}));
    EXPECT_EQ(on_cuda(family, 16, 0), (RowPlan{RowPath::kDoubleChirp, RowGroup::kAlone, 32}));
  }
  EXPECT_EQ(on_cuda(RowFamily::kSpectrumProduct, 1003).path, RowPath::kLibrary);
}

}  // namespace
}  // namespace torch_hrr::kernels
