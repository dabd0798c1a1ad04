// kernels/math.h against wider arithmetic, and bit by bit over vectors and single numbers of every instruction set.
//
// The sampled tests take seconds. Those named DISABLED_ go through all 2^32 floats, for about an hour in all:
// kernel_tests --gtest_also_run_disabled_tests --gtest_filter='*DISABLED_*'
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/isa.h"
#include "kernels/math.h"
#include "kernels/philox.h"
#include "math_rows.h"

namespace torch_hrr::kernels {

namespace scalar {
MathRows math_rows_of_vectors();
MathRows math_rows_of_numbers();
}  // namespace scalar
#if defined(__x86_64__)
namespace avx2 {
MathRows math_rows_of_vectors();
MathRows math_rows_of_numbers();
}  // namespace avx2
namespace avx512 {
MathRows math_rows_of_vectors();
MathRows math_rows_of_numbers();
}  // namespace avx512
#endif

namespace {

constexpr MathFunction kAllFunctions[] = {kSine,      kCosine, kSinePi,   kCosinePi, kExponential,
                                          kLogarithm, kTanh,   kAngleByX, kAngleByY};
constexpr const char* kNames[] = {"sine",      "cosine", "sine_pi",    "cosine_pi", "exponential",
                                  "logarithm", "tanh",   "angle_by_x", "angle_by_y"};

// The largest errors in units of the last place; docs/dev/math.md has those that were measured.
constexpr double kFloatErrors[] = {1.6, 1.6, 1.6, 1.6, 1.1, 1.0, 1.6, 2.0, 2.0};
constexpr double kDoubleErrors[] = {1.6, 1.6, 1.6, 1.6, 1.1, 1.0, 2.7, 1.8, 1.8};

template <typename T>
using Rows = std::conditional_t<sizeof(T) == 4, decltype(MathRows::floats), decltype(MathRows::doubles)>;
template <typename T>
using Bits = bits_t<T>;
template <typename T>
using Wider = std::conditional_t<sizeof(T) == 4, double, long double>;

template <typename T>
Rows<T> rows_for(const MathRows& rows) {
  if constexpr (sizeof(T) == 4) {
    return rows.floats;
  } else {
    return rows.doubles;
  }
}

// Vectors and numbers of every instruction set up to the active one, which this machine therefore has.
template <typename T>
std::vector<Rows<T>> all_rows() {
  std::vector<Rows<T>> rows = {rows_for<T>(scalar::math_rows_of_numbers()),
                               rows_for<T>(scalar::math_rows_of_vectors())};
#if defined(__x86_64__)
  if (active_isa() >= Isa::kAvx2) {
    rows.push_back(rows_for<T>(avx2::math_rows_of_numbers()));
    rows.push_back(rows_for<T>(avx2::math_rows_of_vectors()));
  }
  if (active_isa() >= Isa::kAvx512) {
    rows.push_back(rows_for<T>(avx512::math_rows_of_numbers()));
    rows.push_back(rows_for<T>(avx512::math_rows_of_vectors()));
  }
#endif
  return rows;
}

// sin and cos of pi x by way of the exact remainder, which lies within a quarter of an axis.
template <typename W>
W wide_sine_pi(W x) {
  W t = std::remainder(x, W{2});
  if (std::fabs(t) > W{0.5}) {
    t = std::copysign(W{1}, t) - t;
  }
  constexpr W kPi = 3.14159265358979323846264338327950288L;
  const W size = std::fabs(t);
  const W result = size <= W{0.25} ? std::sin(kPi * size) : std::cos(kPi * (W{0.5} - size));
  return std::copysign(result, t == 0 ? x : t);
}
template <typename W>
W wide_cosine_pi(W x) {
  W t = std::fabs(std::remainder(x, W{2}));
  const W sign = t > W{0.5} ? -1 : 1;
  t = t > W{0.5} ? 1 - t : t;
  constexpr W kPi = 3.14159265358979323846264338327950288L;
  return t == W{0.5} ? 0 : sign * (t <= W{0.25} ? std::cos(kPi * t) : std::sin(kPi * (W{0.5} - t)));
}
template <typename W>
constexpr W kWideTurn = 6.28318530717958647692528676655900577L;
template <typename W>
W wide_value(MathFunction function, W x) {
  switch (function) {
    case kSine:
      return std::sin(x);
    case kCosine:
      return std::cos(x);
    case kSinePi:
      return wide_sine_pi(x);
    case kCosinePi:
      return wide_cosine_pi(x);
    case kExponential:
      return std::exp(x);
    case kLogarithm:
      return std::log(x);
    case kTanh:
      return std::tanh(x);
    case kAngleByX:
      return std::atan2(W{1}, x) / kWideTurn<W>;
    default:
      return std::atan2(x, W{-1}) / kWideTurn<W>;
  }
}

// |got - want| in units of want's last place in T; infinite where only one is NaN or infinite, or a zero's sign
// differs.
template <typename T>
double error_of(T got, Wider<T> want) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(want) || std::isnan(got)) {
    return std::isnan(want) && std::isnan(got) ? 0 : kWrong;
  }
  const T rounded = static_cast<T>(want);
  if (std::isinf(rounded) || std::isinf(got)) {
    return rounded == got ? 0 : kWrong;
  }
  if (want == 0) {
    return got == 0 && std::signbit(want) == std::signbit(got) ? 0 : kWrong;
  }
  int exponent = 0;
  std::frexp(want, &exponent);
  using Limits = std::numeric_limits<T>;
  const int place = std::max(exponent, Limits::min_exponent) - Limits::digits;
  return static_cast<double>(std::fabs(got - want) / std::ldexp(Wider<T>{1}, place));
}

template <typename T>
bool same(T a, T b) {
  return std::bit_cast<Bits<T>>(a) == std::bit_cast<Bits<T>>(b) || (std::isnan(a) && std::isnan(b));
}

// Evaluates a function at whole rows of arguments and keeps the largest error and the first disagreement.
template <typename T>
class Check {
 public:
  explicit Check(MathFunction function) : function_(function), rows_(all_rows<T>()) {}

  void add(const std::vector<T>& x) {
    const auto count = static_cast<int64_t>(x.size());
    std::vector<T> want(x.size());
    rows_[0].functions[function_](x.data(), count, want.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = error_of<T>(want[i], wide_value<Wider<T>>(function_, x[i]));
      if (error > largest_) {
        largest_ = error;
        at_ = x[i];
      }
    }
    std::vector<T> got(x.size());
    for (size_t r = 1; r < rows_.size(); ++r) {
      rows_[r].functions[function_](x.data(), count, got.data());
      for (size_t i = 0; i < x.size() && disagreement_.empty(); ++i) {
        if (!same(got[i], want[i])) {
          disagreement_ = "row " + std::to_string(r) + " at " + text(x[i]) + ": " + text(got[i]) + ", numbers of the " +
                          "scalar instruction set " + text(want[i]);
        }
      }
    }
  }

  void expect(double error) const {
    EXPECT_LE(largest_, error) << kNames[function_] << " at " << text(at_);
    EXPECT_EQ(disagreement_, "") << kNames[function_];
    ::testing::Test::RecordProperty(kNames[function_], std::to_string(largest_));
  }

  double largest() const {
    return largest_;
  }

 private:
  static std::string text(T x) {
    char digits[64];
    std::snprintf(digits, sizeof(digits), "%a (%.9g)", static_cast<double>(x), static_cast<double>(x));
    return digits;
  }

  MathFunction function_;
  std::vector<Rows<T>> rows_;
  double largest_ = 0;
  T at_ = 0;
  std::string disagreement_;
};

// All bit patterns first, first + step, ...: every exponent, both signs, subnormals, infinities and NaN.
void check_floats(MathFunction function, uint64_t first, uint64_t step) {
  constexpr size_t kRow = 4099;  // not a multiple of any vector
  Check<float> check(function);
  std::vector<float> x;
  for (uint64_t bits = first; bits < uint64_t{1} << 32; bits += step) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    if (x.size() == kRow) {
      check.add(x);
      x.clear();
    }
  }
  check.add(x);
  check.expect(kFloatErrors[function]);
  if (step == 1) {
    std::printf("%s: largest error %.4f ulp\n", kNames[function], check.largest());
  }
}

class Math : public ::testing::TestWithParam<MathFunction> {};

TEST_P(Math, OfEveryThousandthFloat) {
  check_floats(GetParam(), 0, 2003);
}
TEST_P(Math, DISABLED_OfEveryFloat) {
  check_floats(GetParam(), 0, 1);
}

// Doubles of any bits, of the range that matters, next to multiples of pi/2, near 1, and where results leave the range.
std::vector<double> doubles(MathFunction function, std::mt19937_64& random, int kind, size_t count) {
  const auto uniform = [&random](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  std::vector<double> x(count);
  for (double& value : x) {
    switch (kind) {
      case 0:
        value = std::bit_cast<double>(random());
        break;
      case 1:
        value = uniform(-2, 2);
        break;
      case 2:
        value = uniform(-1, 1) * std::ldexp(1, static_cast<int>(random() % 80) - 40);
        break;
      case 3: {
        const double quarter = function == kSinePi || function == kCosinePi ? 0.25 : std::acos(0.0);
        const double nearest = quarter * std::nearbyint(std::ldexp(uniform(-1, 1), static_cast<int>(random() % 40)));
        value = std::nextafter(nearest, random() % 2 == 0 ? 1e300 : -1e300);
        break;
      }
      case 4:
        value = 1 + uniform(-1e-3, 1e-3);
        break;
      default:
        value = random() % 2 == 0 ? uniform(708, 711) : uniform(-747, -707);
    }
    if (function == kLogarithm && kind != 0) {
      value = std::fabs(value);
    }
  }
  return x;
}

TEST_P(Math, OfRandomDoubles) {
  std::mt19937_64 random(GetParam());
  Check<double> check(GetParam());
  for (int row = 0; row < 90; ++row) {
    check.add(doubles(GetParam(), random, row % 6, 4099));
  }
  check.expect(kDoubleErrors[GetParam()]);
}
TEST_P(Math, DISABLED_OfManyRandomDoubles) {
  std::mt19937_64 random(GetParam() + 100);
  Check<double> check(GetParam());
  for (int row = 0; row < 6000; ++row) {
    check.add(doubles(GetParam(), random, row % 6, 4099));
  }
  check.expect(kDoubleErrors[GetParam()]);
  std::printf("%s: largest error %.4f ulp\n", kNames[GetParam()], check.largest());
}

// A row that mixes usual and huge angles: the rare path touches its own lanes alone.
TEST_P(Math, OfALaneIsThatLanesAlone) {
  std::mt19937_64 random(7);
  for (const Rows<float>& rows : all_rows<float>()) {
    std::vector<float> x(256);
    std::vector<float> together(x.size());
    for (float& value : x) {
      value =
          random() % 3 == 0 ? std::bit_cast<float>(static_cast<uint32_t>(random())) : static_cast<float>(random() % 99);
    }
    rows.functions[GetParam()](x.data(), static_cast<int64_t>(x.size()), together.data());
    for (size_t i = 0; i < x.size(); ++i) {
      float alone;
      rows.functions[GetParam()](&x[i], 1, &alone);
      ASSERT_TRUE(same(alone, together[i])) << x[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Math, ::testing::ValuesIn(kAllFunctions),
                         [](const auto& info) { return std::string(kNames[info.param]); });

template <typename T>
class MathTypes : public ::testing::Test {};
using NumberTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(MathTypes, NumberTypes);

// What C's annex F says of these functions.
TYPED_TEST(MathTypes, SpecialValuesAreThoseOfC) {
  using T = TypeParam;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();
  constexpr T kTiny = std::numeric_limits<T>::denorm_min();
  constexpr T kHuge = std::numeric_limits<T>::max();
  struct Case {
    MathFunction function;
    T x, want;
  };
  const Case cases[] = {{kSine, 0, 0},
                        {kSine, T(-0.0), T(-0.0)},
                        {kSine, kTiny, kTiny},
                        {kSine, -kTiny, -kTiny},
                        {kSine, kInfinity, kNaN},
                        {kSine, -kInfinity, kNaN},
                        {kSine, kNaN, kNaN},
                        {kCosine, 0, 1},
                        {kCosine, T(-0.0), 1},
                        {kCosine, kTiny, 1},
                        {kCosine, kInfinity, kNaN},
                        {kCosine, kNaN, kNaN},
                        {kSinePi, T(-0.0), T(-0.0)},
                        {kSinePi, 1, 0},
                        {kSinePi, -1, T(-0.0)},
                        {kSinePi, 2, 0},
                        {kSinePi, T(0.5), 1},
                        {kSinePi, T(-1.5), 1},
                        {kSinePi, kHuge, 0},
                        {kSinePi, -kHuge, T(-0.0)},
                        {kSinePi, kInfinity, kNaN},
                        {kSinePi, kNaN, kNaN},
                        {kCosinePi, T(0.5), 0},
                        {kCosinePi, T(1.5), 0},
                        {kCosinePi, T(-2.5), 0},
                        {kCosinePi, 3, -1},
                        {kCosinePi, kHuge, 1},
                        {kCosinePi, -kInfinity, kNaN},
                        {kExponential, 0, 1},
                        {kExponential, T(-0.0), 1},
                        {kExponential, kTiny, 1},
                        {kExponential, kInfinity, kInfinity},
                        {kExponential, -kInfinity, 0},
                        {kExponential, kHuge, kInfinity},
                        {kExponential, -kHuge, 0},
                        {kExponential, kNaN, kNaN},
                        {kLogarithm, 1, 0},
                        {kLogarithm, 0, -kInfinity},
                        {kLogarithm, T(-0.0), -kInfinity},
                        {kLogarithm, -kTiny, kNaN},
                        {kLogarithm, -1, kNaN},
                        {kLogarithm, kInfinity, kInfinity},
                        {kLogarithm, -kInfinity, kNaN},
                        {kLogarithm, kNaN, kNaN},
                        {kTanh, T(-0.0), T(-0.0)},
                        {kTanh, kTiny, kTiny},
                        {kTanh, -kTiny, -kTiny},
                        {kTanh, kInfinity, 1},
                        {kTanh, -kInfinity, -1},
                        {kTanh, kHuge, 1},
                        {kTanh, kNaN, kNaN},
                        {kAngleByX, 0, T(0.25)},
                        {kAngleByX, T(-0.0), T(0.25)},
                        {kAngleByX, -1, T(0.375)},
                        {kAngleByX, kInfinity, 0},
                        {kAngleByX, -kInfinity, T(0.5)},
                        {kAngleByX, kNaN, kNaN},
                        {kAngleByY, 0, T(0.5)},
                        {kAngleByY, T(-0.0), T(-0.5)},
                        {kAngleByY, -1, T(-0.375)},
                        {kAngleByY, kInfinity, T(0.25)},
                        {kAngleByY, -kInfinity, T(-0.25)},
                        {kAngleByY, kNaN, kNaN}};
  for (const Rows<T>& rows : all_rows<T>()) {
    for (const Case& known : cases) {
      T got;
      rows.functions[known.function](&known.x, 1, &got);
      EXPECT_TRUE(same(got, known.want)) << kNames[known.function] << "(" << known.x << ") = " << got;
    }
  }
}

// The floats and doubles nearest to a multiple of pi/2, with 1400 bits of mpmath: no libm has a part in these.
TEST(MathAngles, NextToAxesAreRight) {
  struct Case {
    double x, sine, cosine;
  };
  const Case cases[] = {{0x1.f37c8ap+95, 0.9999999999999999987, -1.6147697982476211876e-9},
                        {0x1.f9cbe2p+7, 0.99999999999999999124, -4.1857068037572076338e-9},
                        {0x1.6ac5b262ca1ffp+849, 1, -4.6871659242546276111e-19},
                        {0x1.6c6cbc45dc8dep+5, 1, -6.1898063658835770002e-19},
                        {0x1.00000100p+17, -0.99875446742366762015, 0.049895027821077066938},
                        {0x1.0f0cf064dd592p+73, -0.85220084976718880177, 0.5232147853951389455},
                        {0x1.fffffep+127, -0.52187652333365854055, 0.85302103983030415805},
                        {0x1.fffffffffffffp+1023, 0.0049619547891840617905, -0.99998768942655993746}};

  for (const Case& known : cases) {
    for (const Rows<double>& rows : all_rows<double>()) {
      double got;
      rows.functions[kSine](&known.x, 1, &got);
      EXPECT_LE(error_of<double>(got, known.sine), 2) << known.x;
      rows.functions[kCosine](&known.x, 1, &got);
      EXPECT_LE(error_of<double>(got, known.cosine), 2) << known.x;
    }
    const auto x = static_cast<float>(known.x);
    for (const Rows<float>& rows : all_rows<float>()) {
      if (static_cast<double>(x) != known.x) {
        continue;
      }
      float got;
      rows.functions[kSine](&x, 1, &got);
      EXPECT_LE(error_of<float>(got, known.sine), 1.6) << known.x;
      rows.functions[kCosine](&x, 1, &got);
      EXPECT_LE(error_of<float>(got, known.cosine), 1.6) << known.x;
    }
  }
}

// The words that normal_pair is documented to take, evaluated in wider arithmetic.
template <typename T>
void wide_normal_pair(Bits<T> x, Bits<T> y, Wider<T>& first, Wider<T>& second) {
  using W = Wider<T>;
  W u, turns;
  if constexpr (sizeof(T) == 4) {
    u = static_cast<float>((x + 0.5) * 0x1p-32);
    turns = (y >> 7) * 0x1p-25;
  } else {
    u = (static_cast<W>(x >> 12) + W{0.5}) * 0x1p-52L;
    turns = static_cast<W>(y >> 10) * 0x1p-54L;
  }
  const W radius = std::sqrt(-2 * std::log(u));
  first = radius * wide_cosine_pi<W>(2 * turns);
  second = radius * wide_sine_pi<W>(2 * turns);
}

TYPED_TEST(MathTypes, NormalPairsAreThoseOfBoxAndMuller) {
  using T = TypeParam;
  using B = Bits<T>;
  constexpr size_t kCount = 4096;
  std::mt19937_64 random(3);
  std::vector<B> x(kCount);
  std::vector<B> y(kCount);
  std::vector<T> want[2] = {std::vector<T>(kCount), std::vector<T>(kCount)};
  std::vector<T> got[2] = {std::vector<T>(kCount), std::vector<T>(kCount)};
  const std::vector<Rows<T>> rows = all_rows<T>();
  for (int repeat = 0; repeat < 100; ++repeat) {
    for (size_t i = 0; i < kCount; ++i) {
      x[i] = static_cast<B>(random());
      y[i] = static_cast<B>(random());
    }
    // The ends of both ranges, and the eighths of a turn.
    const B ends[] = {0,
                      1,
                      B(~B{0}),
                      B(~B{0} - 1),
                      B{1} << (8 * sizeof(B) - 1),
                      B{1} << (8 * sizeof(B) - 2),
                      B(B{5} << (8 * sizeof(B) - 3)),
                      B((B{5} << (8 * sizeof(B) - 3)) - 1)};
    for (size_t i = 0; i < 64; ++i) {
      x[i] = ends[i / 8];
      y[i] = ends[i % 8];
    }
    rows[0].normal_pairs(x.data(), y.data(), kCount, want[0].data(), want[1].data());
    for (size_t i = 0; i < kCount; ++i) {
      Wider<T> first, second;
      wide_normal_pair<T>(x[i], y[i], first, second);
      // Near u = 1 the float logarithm's last place is that of the radius; the product adds its own.
      ASSERT_LE(std::fabs(want[0][i] - first), 4 * std::numeric_limits<T>::epsilon() * std::fabs(first)) << x[i];
      ASSERT_LE(std::fabs(want[1][i] - second), 4 * std::numeric_limits<T>::epsilon() * std::fabs(second)) << x[i];
      ASSERT_LE(std::fabs(want[0][i]), sizeof(T) == 4 ? 6.77 : 8.58);
    }
    for (size_t r = 1; r < rows.size(); ++r) {
      rows[r].normal_pairs(x.data(), y.data(), kCount, got[0].data(), got[1].data());
      for (size_t i = 0; i < kCount; ++i) {
        ASSERT_TRUE(same(got[0][i], want[0][i]) && same(got[1][i], want[1][i])) << "row " << r << " at " << x[i];
      }
    }
  }
}

// Moments and tails of 2^20 normals drawn from Philox, within five standard deviations.
TEST(NormalPair, HasNormalMoments) {
  constexpr int kBlocks = 1 << 18;
  double sums[4] = {};
  double products = 0;
  int beyond_two = 0;
  for (uint64_t block = 0; block < kBlocks; ++block) {
    const PhiloxBlock words = philox4x32(philox_counter(block, 0), philox_key(5));
    for (const int w : {0, 2}) {
      const NormalPair<float> pair = normal_pair<float>(words.word[w], words.word[w + 1]);
      products += static_cast<double>(pair.first) * pair.second;
      for (const double z : {static_cast<double>(pair.first), static_cast<double>(pair.second)}) {
        double power = 1;
        for (double& sum : sums) {
          power *= z;
          sum += power;
        }
        beyond_two += std::fabs(z) > 2 ? 1 : 0;
      }
    }
  }
  constexpr double kCount = 4.0 * kBlocks;
  EXPECT_NEAR(sums[0] / kCount, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(sums[1] / kCount, 1, 5 * std::sqrt(2 / kCount));
  EXPECT_NEAR(sums[2] / kCount, 0, 5 * std::sqrt(15 / kCount));
  EXPECT_NEAR(sums[3] / kCount, 3, 5 * std::sqrt(96 / kCount));
  EXPECT_NEAR(products / (kCount / 2), 0, 5 / std::sqrt(kCount / 2));
  EXPECT_NEAR(beyond_two / kCount, std::erfc(std::sqrt(2.0)), 5 * std::sqrt(0.0455 / kCount));
}

}  // namespace
}  // namespace torch_hrr::kernels
