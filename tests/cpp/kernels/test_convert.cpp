// Conversions of the half types against c10's scalar ones: every bit pattern widened, a dense set of floats narrowed.
#include <bit>

#include "convert_rows.h"
#include "kernels/isa.h"
#include "oracle.h"

namespace torch_hrr::kernels {

namespace scalar {
ConvertRows convert_rows_of_isa();
}
#if defined(__x86_64__)
namespace avx2 {
ConvertRows convert_rows_of_isa();
}
namespace avx512 {
ConvertRows convert_rows_of_isa();
}
#endif

namespace {

ConvertRows convert_rows() {
#if defined(__x86_64__)
  if (active_isa() == Isa::kAvx512) {
    return avx512::convert_rows_of_isa();
  }
  if (active_isa() == Isa::kAvx2) {
    return avx2::convert_rows_of_isa();
  }
#endif
  return scalar::convert_rows_of_isa();
}

void widen(const Half* source, int64_t count, float* target) {
  convert_rows().widen_half(source, count, target);
}
void widen(const BFloat16* source, int64_t count, float* target) {
  convert_rows().widen_bfloat16(source, count, target);
}
void narrow(const float* source, int64_t count, float scale, Half* target) {
  convert_rows().narrow_half(source, count, scale, target);
}
void narrow(const float* source, int64_t count, float scale, BFloat16* target) {
  convert_rows().narrow_bfloat16(source, count, scale, target);
}

template <typename S>
Buffer<S> all_patterns() {
  Buffer<S> values(65536);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    values.data()[bits] = S(static_cast<uint16_t>(bits), S::from_bits());
  }
  return values;
}

// Every value of S, the midpoints between neighbours, where rounding turns, the floats around both, and a walk through
// all floats.
template <typename S>
std::vector<float> dense_floats() {
  std::vector<float> values;
  const auto add_around = [&](float x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    for (const uint32_t near : {bits - 1, bits, bits + 1}) {
      values.push_back(std::bit_cast<float>(near));
    }
  };
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto value = static_cast<float>(S(static_cast<uint16_t>(bits), S::from_bits()));
    const auto next = static_cast<float>(S(static_cast<uint16_t>(bits + 1), S::from_bits()));
    add_around(value);
    add_around(value / 2 + next / 2);
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4093) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  return values;
}

// The same bits, or both NaN: payloads are nobody's contract.
template <typename S>
bool agree(S got, S want) {
  const bool nan = std::isnan(static_cast<float>(want));
  return nan ? std::isnan(static_cast<float>(got)) : got.x == want.x;
}

template <typename S>
class Convert : public ::testing::Test {};
using HalfTypes = ::testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(Convert, HalfTypes);

TYPED_TEST(Convert, WidensEveryPattern) {
  const Buffer<TypeParam> source = all_patterns<TypeParam>();
  Buffer<float> target(source.size());
  widen(source.data(), source.size(), target.data());
  for (int64_t i = 0; i < source.size(); ++i) {
    const auto want = static_cast<float>(source.data()[i]);
    const float got = target.data()[i];
    ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(want))
        << "pattern " << i << ": " << got << ", expected " << want;
  }
}

TYPED_TEST(Convert, NarrowsToNearestEven) {
  const std::vector<float> source = dense_floats<TypeParam>();
  const auto count = static_cast<int64_t>(source.size());
  Buffer<TypeParam> target(count);
  narrow(source.data(), count, 1, target.data());
  for (int64_t i = 0; i < count; ++i) {
    const float value = source[static_cast<size_t>(i)];
    ASSERT_TRUE(agree(target.data()[i], TypeParam(value)))
        << value << " (bits " << std::bit_cast<uint32_t>(value) << ") became " << target.data()[i].x << ", expected "
        << TypeParam(value).x;
  }
}

TYPED_TEST(Convert, IsItsOwnInverse) {
  const Buffer<TypeParam> source = all_patterns<TypeParam>();
  Buffer<float> wide(source.size());
  Buffer<TypeParam> target(source.size());
  widen(source.data(), source.size(), wide.data());
  narrow(wide.data(), source.size(), 1, target.data());
  for (int64_t i = 0; i < source.size(); ++i) {
    ASSERT_TRUE(agree(target.data()[i], source.data()[i])) << "pattern " << i;
  }
}

// Rows shorter than a block, and their ends, at exactly sized and unaligned memory; the product is rounded once.
TYPED_TEST(Convert, HandlesEveryCount) {
  using S = TypeParam;
  for (int64_t count = 0; count <= 50; ++count) {
    for (const int64_t offset : {0, 1, 3}) {
      const Buffer<float> source = random_values<float>(count + offset, 31);
      Buffer<S> narrowed(count + offset);
      narrow(source.data() + offset, count, 0.3f, narrowed.data() + offset);
      Buffer<float> widened(count + offset);
      widen(narrowed.data() + offset, count, widened.data() + offset);
      for (int64_t i = offset; i < count + offset; ++i) {
        const S want(source.data()[i] * 0.3f);
        ASSERT_EQ(narrowed.data()[i].x, want.x) << "count " << count << ", element " << i;
        ASSERT_EQ(widened.data()[i], static_cast<float>(want)) << "count " << count << ", element " << i;
      }
      EXPECT_TRUE(same_bits(narrowed.data(), Buffer<S>(offset).data(), offset)) << "written before the row";
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
