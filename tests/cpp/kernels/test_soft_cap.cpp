// Soft winners and their Jacobian on the CPU against their definition in long double, and promises on rows and bits.
#include "kernels/assembly/soft_cap.h"

#include <type_traits>
#include <utility>

#include "kernels/assembly/soft_cap.h"
#include "kernels/registry.h"
#include "oracle.h"
#include "soft_cap_oracle.h"

namespace torch_hrr::kernels {
namespace {

constexpr CapShape kShapes[] = {CapShape::kSigmoid, CapShape::kLaplace};
constexpr CapResult kResults[] = {CapResult::kSoft, CapResult::kJacobian};

// Rounding of z up to 600 and of a row's sums in double.
constexpr double kRelativeError = 1e-12;
// y and d may be 0 from here: exp(-300), half the widest gap that is looked into.
constexpr double kNegligible = 1e-130;

// Half a spacing of a result, relative to it, beyond relative_error.
template <typename S>
constexpr double kUnit = std::is_same_v<S, double>  ? 0
                         : std::is_same_v<S, float> ? 0x1p-24
                                                    : StorageTraits<S>::kRounding + 0x1p-24;

template <typename S>
struct Problem {
  Buffer<S> inputs;
  Buffer<S> v;
  SoftCapParams params;

  Problem(int64_t rows, int64_t n, int64_t k, CapShape shape = CapShape::kSigmoid, double temperature = 1)
      : inputs(random_values<S>(rows * n, 3)), v(random_values<S>(rows * n, 4)) {
    params.rows = rows;
    params.n = n;
    params.k = k;
    params.map = row_map(rows, {n, n});
    params.temperature = temperature;
    params.storage = StorageTraits<S>::kStorage;
    params.shape = shape;
  }

  // Elements by value(generator, position in the row).
  template <typename Value>
  void fill(const Value& value) {
    std::mt19937_64 generator(5);
    for (int64_t i = 0; i < inputs.size(); ++i) {
      inputs.data()[i] = from_double<S>(value(generator, i % params.n));
    }
  }

  void run_range(CapResult result, int64_t begin, int64_t end, Buffer<S>& out) const {
    SoftCapParams all = params;
    all.inputs = inputs.data();
    // Soft winners have no direction.
    all.v = result == CapResult::kJacobian ? v.data() : nullptr;
    all.out = out.data();
    all.result = result;
    run(kernel_table<RowKernel<SoftCapParams>>(), all, begin, end);
  }
  Buffer<S> run_all(CapResult result) const {
    Buffer<S> out(params.rows * params.n);
    run_range(result, 0, params.rows, out);
    return out;
  }
};

// Within `tolerance`, or both beyond the type's largest number.
template <typename S>
::testing::AssertionResult is_near(S got, long double want, long double tolerance) {
  const long double least = to_double(std::numeric_limits<S>::denorm_min());
  const long double allowed = tolerance + kUnit<S> * std::abs(want) + least;
  const auto number = static_cast<long double>(to_double(got));
  const bool beyond = std::abs(want) > 0.99L * to_double(std::numeric_limits<S>::max());
  if (beyond ? number * want > 0 && std::abs(number) >= 0.98L * to_double(std::numeric_limits<S>::max())
             : std::abs(number - want) <= allowed) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "got " << number << ", expected " << want << " within " << allowed;
}

// 0 < k < n. What is small is exact relative to itself: y of the others, and the terms d v / tau and d mean / tau.
template <typename S>
void expect_definition(const Problem<S>& problem, const std::string& name) {
  const SoftCapParams& params = problem.params;
  const int64_t n = params.n;
  const double tau = params.temperature;
  const Buffer<S> y = problem.run_all(CapResult::kSoft);
  const Buffer<S> jv = problem.run_all(CapResult::kJacobian);
  for (int64_t r = 0; r < params.rows; ++r) {
    const std::vector<double> x = row_at(problem.inputs.data() + r * n, n);
    const std::vector<double> v = row_at(problem.v.data() + r * n, n);
    const std::vector<long double> z = oracle_offsets(x, params.k, tau, params.shape);
    long double weight = 0, weighted = 0, magnitude = 0;
    for (size_t i = 0; i < z.size(); ++i) {
      const long double d = density(params.shape, z[i]);
      weight += d;
      weighted += d * v[i];
      magnitude += d * std::abs(v[i]);
    }
    for (size_t i = 0; i < z.size(); ++i) {
      const int64_t at = r * n + static_cast<int64_t>(i);
      const long double soft = distribution(params.shape, z[i]);
      ASSERT_TRUE(is_near(y.data()[at], soft, kRelativeError * soft + kNegligible))
          << name << ": y[" << i << "] of n " << n << " k " << params.k << " tau " << tau;
      const long double d = density(params.shape, z[i]) / tau;
      const long double want = d * (v[i] - weighted / weight);
      const long double terms = d * (std::abs(v[i]) + magnitude / weight);
      ASSERT_TRUE(is_near(jv.data()[at], want, kRelativeError * terms + kNegligible / tau))
          << name << ": J v [" << i << "] of n " << n << " k " << params.k << " tau " << tau;
    }
  }
}

template <typename S>
class SoftCap : public ::testing::Test {
 protected:
  static double normal(std::mt19937_64& generator) {
    return std::normal_distribution<double>()(generator);
  }

  // Rows of interest at every length, k, shape and temperature.
  static void expect_all(const std::vector<int64_t>& lengths, const std::vector<double>& temperatures) {
    for (const int64_t n : lengths) {
      for (const int64_t k : {int64_t{1}, n / 9, n / 2, n - 1}) {
        for (const CapShape shape : kShapes) {
          for (const double tau : temperatures) {
            if (k > 0 && k < n) {
              expect_rows(Problem<S>(1, n, k, shape, tau));
            }
          }
        }
      }
    }
  }

  static void expect_rows(Problem<S> problem) {
    expect_definition(problem, "normal");
    problem.fill([](auto& generator, int64_t) { return std::round(2 * normal(generator)) / 2; });
    expect_definition(problem, "ties");
    problem.fill([](auto&, int64_t) { return -0.75; });
    expect_definition(problem, "constant");
    problem.fill([](auto& generator, int64_t) { return static_cast<double>(generator() % 2); });
    expect_definition(problem, "two values");
    problem.fill([](auto& generator, int64_t) { return std::max(normal(generator), 0.0); });
    expect_definition(problem, "rectified");
    problem.fill([](auto&, int64_t i) { return 0.25 * static_cast<double>(i); });
    expect_definition(problem, "ascending");
  }
};
TYPED_TEST_SUITE(SoftCap, StorageTypes);

// Around whole vectors of every type.
TYPED_TEST(SoftCap, IsItsDefinition) {
  this->expect_all({2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 100, 257}, {0.1, 1, 10});
}

TYPED_TEST(SoftCap, IsItsDefinitionInLongRows) {
  this->expect_all({3001}, {1});
}

TYPED_TEST(SoftCap, IsItsDefinitionAtAnyTemperature) {
  this->expect_all({9, 40}, {1e-300, 1e-30, 1e-3, 0.02, 1e3, 1e30, 1e300});
}

// Differences of the largest numbers are beyond the type.
TYPED_TEST(SoftCap, IsItsDefinitionForTheLargestAndTheSmallestNumbers) {
  using S = TypeParam;
  const double largest = to_double(std::numeric_limits<S>::max());
  const double smallest = to_double(std::numeric_limits<S>::denorm_min());
  for (const CapShape shape : kShapes) {
    for (const int64_t k : {1, 6, 12}) {
      for (const double share : {1e-6, 0.05, 0.9}) {
        Problem<S> problem(1, 13, k, shape, share * largest);
        problem.fill([&](auto&, int64_t i) { return largest * (static_cast<double>(i - 6) / 6); });
        expect_definition(problem, "largest");
      }
      for (const double tau : {smallest, 1000 * smallest, 1.0}) {
        Problem<S> problem(1, 13, k, shape, tau);
        // A gradient would be beyond the type.
        std::fill_n(problem.v.data(), 13, from_double<S>(0));
        problem.fill([&](auto&, int64_t i) { return smallest * static_cast<double>(i - 6); });
        expect_definition(problem, "smallest");
      }
    }
  }
}

// Up to 600 tau below the k-th largest the others count, however little; beyond, the mask itself is the result.
TEST(SoftCapOfDoubles, AWideGapGivesTheMask) {
  for (const CapShape shape : kShapes) {
    for (const double tau : {0.5, 4.0}) {
      for (const double gap : {20.0, 599.0, 601.0}) {
        Problem<double> problem(1, 20, 7, shape, tau);
        problem.fill([&](auto&, int64_t i) { return i % 3 == 0 ? 3 + gap * tau : 3.0; });
        const Buffer<double> y = problem.run_all(CapResult::kSoft);
        const Buffer<double> jv = problem.run_all(CapResult::kJacobian);
        const std::vector<double> x = row_at(problem.inputs.data(), 20);
        const std::vector<long double> z = oracle_offsets(x, 7, tau, shape);
        for (int64_t i = 0; i < 20; ++i) {
          const auto want = static_cast<double>(distribution(shape, z[static_cast<size_t>(i)]));
          EXPECT_NEAR(y.data()[i], gap > 600 ? (i % 3 == 0 ? 1 : 0) : want, kRelativeError * want) << gap;
          EXPECT_EQ(jv.data()[i] == 0, gap > 600) << gap;
        }
      }
    }
  }
}

// All but a few elements tie at the cut and lose: each keeps a small share, with all its digits in any length.
TYPED_TEST(SoftCap, ManyLosingTiesKeepTheDigitsOfTheirShares) {
  using S = TypeParam;
  for (const CapShape shape : kShapes) {
    for (const int64_t n : {3001, 1000000}) {
      for (const int64_t k : {int64_t{1}, n - 1}) {
        Problem<S> problem(1, n, k, shape);
        problem.fill([](auto&, int64_t) { return 0.75; });
        const Buffer<S> y = problem.run_all(CapResult::kSoft);
        const long double share = static_cast<long double>(k) / n;
        for (int64_t i = 0; i < n; ++i) {
          ASSERT_TRUE(is_near(y.data()[i], share, 1e-14L * share)) << "n " << n << " k " << k;
        }
      }
    }
    Problem<S> problem(1, 30011, 4, shape);
    problem.fill([](auto&, int64_t i) { return i % 15000 == 7 ? 1 : i % 5000 == 3 ? -2 : 0; });
    expect_definition(problem, "few others");
  }
}

// d is 0 in the elements that are far below, where (v - mean) / tau is beyond double.
TEST(SoftCapOfDoubles, TheJacobianIsZeroWhereTheDensityIs) {
  for (const CapShape shape : kShapes) {
    for (const auto& [tau, size] : {std::pair{1e-300, 1e10}, {1e-10, 1e299}, {5e-324, 1.0}, {1e-300, 1e-300}}) {
      for (const double loser : {1.0, -3.0}) {
        Problem<double> problem(1, 4, 1, shape, tau);
        const double x[] = {1, 1, 0, -1};
        const double v[] = {2, 2, 5, loser};
        for (int64_t i = 0; i < 4; ++i) {
          problem.inputs.data()[i] = x[i];
          problem.v.data()[i] = size * v[i];
        }
        const Buffer<double> jv = problem.run_all(CapResult::kJacobian);
        for (int64_t i = 0; i < 4; ++i) {
          EXPECT_EQ(jv.data()[i], 0) << i << " of tau " << tau;
        }
      }
    }
  }
}

// No step of d (v - mean) / tau leaves the range of double where the result does not.
TEST(SoftCapOfDoubles, TheJacobianTakesDirectionsOfAnySize) {
  const double v[] = {1, -0.5, 0.25, 1, -1, 0.75, -0.125, 0.5, 1};
  for (const CapShape shape : kShapes) {
    for (const auto& [tau, size] : {std::pair{1e-300, 1e-305},
                                    {1e-300, 1e-10},
                                    {1e-10, 1e-308},
                                    {1e-10, 1e297},
                                    {4.0, 1.7e308},
                                    {1e300, 1.7e308},
                                    {1e-5, 1e302}}) {
      for (const int64_t k : {1, 4, 8}) {
        Problem<double> problem(1, 9, k, shape, tau);
        problem.fill([&](auto&, int64_t i) { return tau * static_cast<double>(i * i % 7); });
        const Problem<double> unit = [&] {
          Problem<double> scaled = problem;
          std::copy_n(v, 9, scaled.v.data());
          scaled.fill([](auto&, int64_t i) { return static_cast<double>(i * i % 7); });
          scaled.params.temperature = 1;
          return scaled;
        }();
        std::transform(v, v + 9, problem.v.data(), [&](double direction) { return size * direction; });
        const Buffer<double> jv = problem.run_all(CapResult::kJacobian);
        const Buffer<double> of_unit = unit.run_all(CapResult::kJacobian);
        for (int64_t i = 0; i < 9; ++i) {
          const long double want = of_unit.data()[i] * (static_cast<long double>(size) / tau);
          EXPECT_TRUE(is_near(jv.data()[i], want, 1e-12L * size / tau)) << i << " of tau " << tau << " size " << size;
        }
      }
    }
  }
}

// A sum of directions that is beyond double has a mean that is not.
TEST(SoftCapOfDoubles, DirectionsThatAreAllTheLargestNumberGiveZero) {
  Problem<double> problem(1, 100, 40, CapShape::kSigmoid, 2);
  std::fill_n(problem.v.data(), 100, std::numeric_limits<double>::max());
  const Buffer<double> jv = problem.run_all(CapResult::kJacobian);
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_LE(std::abs(jv.data()[i]), 1e-14 * std::numeric_limits<double>::max());
  }
}

TYPED_TEST(SoftCap, OfNoAndOfAllElementsIsConstant) {
  using S = TypeParam;
  for (const CapShape shape : kShapes) {
    for (const int64_t n : {0, 1, 7, 40}) {
      for (const int64_t k : {int64_t{0}, n}) {
        const Problem<S> problem(2, n, k, shape);
        const Buffer<S> y = problem.run_all(CapResult::kSoft);
        const Buffer<S> jv = problem.run_all(CapResult::kJacobian);
        for (int64_t i = 0; i < 2 * n; ++i) {
          EXPECT_EQ(to_double(y.data()[i]), k == 0 ? 0 : 1);
          EXPECT_EQ(to_double(jv.data()[i]), 0);
        }
      }
    }
  }
}

TYPED_TEST(SoftCap, RowsThatHoldNanOrInfinityAreNan) {
  using S = TypeParam;
  const double infinity = std::numeric_limits<double>::infinity();
  for (const int64_t n : {1, 5, 16, 45}) {
    for (const int64_t k : {int64_t{0}, n / 3, n}) {
      for (const double bad : {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity}) {
        for (const CapShape shape : kShapes) {
          Problem<S> problem(4, n, k, shape);
          const Buffer<S> clean[] = {problem.run_all(CapResult::kSoft), problem.run_all(CapResult::kJacobian)};
          // The last element of row 1 and, of the directions, the first of row 3.
          problem.inputs.data()[2 * n - 1] = from_double<S>(bad);
          problem.v.data()[3 * n] = from_double<S>(bad);
          for (const CapResult result : kResults) {
            const Buffer<S> out = problem.run_all(result);
            const bool jacobian = result == CapResult::kJacobian;
            for (const int64_t r : {0, 1, 2, 3}) {
              const S* row = out.data() + r * n;
              const bool spoilt = r == 1 || (jacobian && r == 3);
              EXPECT_TRUE(spoilt ? all_nan(row, n) : same_bits(row, clean[jacobian ? 1 : 0].data() + r * n, n)) << r;
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(SoftCap, BitsDoNotDependOnTheRangeOfRows) {
  using S = TypeParam;
  const int64_t rows = 7;
  for (const int64_t n : {3, 37, 300}) {
    const Problem<S> problem(rows, n, n / 3, CapShape::kLaplace, 0.5);
    for (const CapResult result : kResults) {
      const Buffer<S> whole = problem.run_all(result);
      const Buffer<S> untouched(rows * n);
      for (int64_t begin = 0; begin <= rows; ++begin) {
        for (int64_t end = begin; end <= rows; ++end) {
          Buffer<S> part(rows * n);
          problem.run_range(result, begin, end, part);
          ASSERT_TRUE(same_bits(part.data() + begin * n, whole.data() + begin * n, (end - begin) * n));
          ASSERT_TRUE(same_bits(part.data(), untouched.data(), begin * n));
          ASSERT_TRUE(same_bits(part.data() + end * n, untouched.data(), (rows - end) * n));
        }
      }
    }
  }
}

// Rows of a table in any order and repeated, at any distance from a vector's boundary.
TYPED_TEST(SoftCap, BitsDoNotDependOnWhereRowsLie) {
  using S = TypeParam;
  const int64_t n = 29, k = 8, stride = 31;
  const Buffer<S> table = random_values<S>(5 * stride + n, 8);
  Problem<S> problem(1, n, k);
  SoftCapParams params = problem.params;
  params.inputs = table.data() + 5 * stride;
  params.v = table.data();
  params.rows = 6;
  // inputs[i, 0] with i from the last row to the first, beside directions [0, j].
  params.map = RowMap{2, {3, 2}, {{-2 * stride, 0}, {0, stride}}};
  for (const CapResult result : kResults) {
    Buffer<S> out(6 * n);
    params.out = out.data();
    params.result = result;
    run(kernel_table<RowKernel<SoftCapParams>>(), params, 0, 6);
    for (int64_t r = 0; r < 6; ++r) {
      std::copy_n(table.data() + (5 - r / 2 * 2) * stride, n, problem.inputs.data());
      std::copy_n(table.data() + r % 2 * stride, n, problem.v.data());
      EXPECT_TRUE(same_bits(out.data() + r * n, problem.run_all(result).data(), n)) << r;
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
