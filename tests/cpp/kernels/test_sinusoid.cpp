// Turns, ladders and sinusoids on the CPU: against long integers and long double, with the same bits on every
// instruction set.
//
// The sampled tests take seconds. The one named DISABLED_ goes through all 2^32 phases of float, for some minutes:
// kernel_tests --gtest_also_run_disabled_tests --gtest_filter='*DISABLED_*'
#include "kernels/encoding/sinusoid.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/encoding/frequency_ladder.h"
#include "kernels/encoding/turns.h"
#include "kernels/registry.h"
#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

using Wide = unsigned __int128;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Wide value_of(FixedPoint x) {
  return (static_cast<Wide>(x.whole) << 64) + x.fraction;
}
double random_number(std::mt19937_64& random, int least_exponent, int most_exponent) {
  const auto exponent = std::uniform_int_distribution<int>(least_exponent, most_exponent)(random);
  return std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), exponent);
}

TEST(FixedPosition, OfKnownNumbers) {
  struct Case {
    double x;
    uint64_t whole, fraction;
  };
  constexpr uint64_t kHalf = uint64_t{1} << 63;
  const Case cases[] = {{0, 0, 0},
                        {-0.0, 0, 0},
                        {1, 1, 0},
                        {-1, ~uint64_t{0}, 0},
                        {0.5, 0, kHalf},
                        {-0.5, ~uint64_t{0}, kHalf},
                        {-2.25, ~uint64_t{2}, kHalf + kHalf / 2},
                        {0x1p-64, 0, 1},
                        {-0x1p-64, ~uint64_t{0}, ~uint64_t{0}},
                        {0x1p-65, 0, 0},
                        {5e-324, 0, 0},
                        {2147483647.0, 2147483647, 0},
                        {0x1.fffffffffffffp51, 0xfffffffffffff, kHalf},
                        {0x1p63, kHalf, 0},
                        {0x1.8p63, kHalf + kHalf / 2, 0},
                        {0x1.0000000000001p64, 1 << 12, 0},
                        {0x1p64, 0, 0},
                        {1e300, 0, 0},
                        {-std::numeric_limits<double>::max(), 0, 0}};
  for (const Case& known : cases) {
    const FixedPoint got = fixed_position(known.x);
    EXPECT_EQ(got.whole, known.whole) << known.x;
    EXPECT_EQ(got.fraction, known.fraction) << known.x;
  }
}

TEST(FixedPosition, IsTheNumberTimes2ToThe64CutOff) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const double x = random_number(random, -70, 62);
    // long double holds every double, and conversion cuts off.
    const auto want = static_cast<Wide>(static_cast<__int128>(std::ldexp(static_cast<long double>(x), 64)));
    ASSERT_TRUE(value_of(fixed_position(x)) == want) << x;
  }
}

// 2^256 / (2 pi), lowest word first.
constexpr std::array<uint64_t, 4> kInverseTurn = {0x7f9458eaf7aef158u, 0x36d8a5664f10e410u, 0x7f09d5f47d4d3770u,
                                                  0x28be60db9391054au};

// radians / (2 pi) in units of 2^-64, to the nearest, modulo 2^128.
Wide long_turns(double radians) {
  int exponent = 0;
  const auto mantissa = static_cast<uint64_t>(std::ldexp(std::frexp(std::fabs(radians), &exponent), 53));
  exponent -= 53;
  // mantissa 2^256 / (2 pi) in six words, the lowest for the bits that a shift to the left brings in.
  std::array<uint64_t, 6> words = {};
  uint64_t carry = 0;
  for (size_t i = 0; i < 4; ++i) {
    const Wide product = static_cast<Wide>(mantissa) * kInverseTurn[i] + carry;
    words[i] = static_cast<uint64_t>(product);
    carry = static_cast<uint64_t>(product >> 64);
  }
  words[4] = carry;
  const auto bit = [&](int place) -> uint64_t {
    return place < 0 || place >= 384 ? 0 : words[static_cast<size_t>(place / 64)] >> (place % 64) & 1;
  };
  const int shift = 192 - exponent;
  Wide turns = 0;
  for (int place = 127; place >= 0; --place) {
    turns = 2 * turns + bit(place + shift);
  }
  turns += bit(shift - 1);
  return radians < 0 ? -turns : turns;
}

TEST(TurnsOf, KnownNumbers) {
  EXPECT_TRUE(value_of(turns_of(0)) == 0);
  EXPECT_TRUE(value_of(turns_of(-0.0)) == 0);
  EXPECT_TRUE(value_of(turns_of(1e-30)) == 0);
  EXPECT_EQ(turns_of(1).fraction, 0x28be60db9391054au);
  EXPECT_EQ(turns_of(1).whole, 0u);
  EXPECT_EQ(turns_of(-1).fraction, ~uint64_t{0x28be60db9391054au} + 1);
  EXPECT_EQ(turns_of(-1).whole, ~uint64_t{0});
  // pi in double is short of pi by 1.2246e-16: half a turn less 2^64 1.2246e-16 / (2 pi).
  EXPECT_EQ(turns_of(3.14159265358979323846).fraction, (uint64_t{1} << 63) - 360);
}

TEST(TurnsOf, IsTheNearestMultiple) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    const double x = random_number(random, -70, 20);
    ASSERT_TRUE(value_of(turns_of(x)) == long_turns(x)) << x;
  }
}

TEST(TurnsOf, IsTheNearestMultipleOrTheOneBesideItTo2ToThe60) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; ++i) {
    const double x = random_number(random, 20, 60);
    const auto difference = static_cast<int64_t>(value_of(turns_of(x)) - long_turns(x));
    ASSERT_LE(std::abs(difference), 1) << x;
  }
}

// Values from arithmetic of 900 bits.
TEST(FrequencyLadder, HasTheAnalyticFrequencies) {
  struct Case {
    int64_t dim;
    double base, scale;
    size_t i;
    uint64_t fraction, whole;
  };
  const Case cases[] = {
      {64, 10000, 1, 0, 0x28be60db9391054au, 0},
      {64, 10000, 1, 1, 0x1e8dae29db02bb88u, 0},
      {64, 10000, 1, 16, 0x00684dc4c179c52cu, 0},
      {64, 10000, 1, 31, 0x00016412e4ffae4cu, 0},
      {7, 10000, -1, 0, 0xd7419f246c6efab6u, ~uint64_t{0}},
      {7, 10000, -1, 1, 0xfd11573275ed89abu, ~uint64_t{0}},
      {7, 10000, -1, 2, 0xffc9f9e2f6ab394au, ~uint64_t{0}},
      {7, 10000, -1, 3, 0xfffc1caaa31b2feeu, ~uint64_t{0}},
      {512, 2, 1048576, 0, 0x0db9391054a7f09du, 0x28be6},
      {512, 2, 1048576, 1, 0xcd968cb57b2f74ebu, 0x28a22},
      {512, 2, 1048576, 128, 0x429be66211fce15au, 0x1ccf6},
      {512, 2, 1048576, 255, 0x43886d219b34b60du, 0x146d5},
      {1 << 18, 1e6, 0.001, 0, 0x000a6e2d468c2d51u, 0},
      {1 << 18, 1e6, 0.001, 1, 0x000a6de53a976189u, 0},
      {1 << 18, 1e6, 0.001, 65536, 0x000002ab90b5e672u, 0},
      {1 << 18, 1e6, 0.001, 131071, 0x00000000af02db26u, 0},
      {100, 0.5, 3, 0, 0x7a3b2292bab30fdfu, 0},
      {100, 0.5, 3, 1, 0x7beff169ad92aedeu, 0},
      {100, 0.5, 3, 25, 0xacdc58fa7664c6bfu, 0},
      {100, 0.5, 3, 49, 0xf118ae7693b35118u, 0},
      {1 << 21, 10000, 1, 1, 0x28be496764f5c20fu, 0},
      {1 << 21, 10000, 1, 1048575, 0x00010b0520c35ef1u, 0},
  };
  for (const Case& known : cases) {
    const std::vector<FixedPoint> ladder = frequency_ladder(known.dim, known.base, known.scale);
    ASSERT_EQ(ladder.size(), static_cast<size_t>((known.dim + 1) / 2));
    const Wide want = (static_cast<Wide>(known.whole) << 64) + known.fraction;
    const auto difference = static_cast<int64_t>(value_of(ladder[known.i]) - want);
    EXPECT_LE(std::abs(difference), 1) << "frequency " << known.i << " of " << known.dim;
  }
  EXPECT_TRUE(frequency_ladder(0, 10000, 1).empty());
  EXPECT_EQ(frequency_ladder(1, 10000, 1).size(), 1u);
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas = {Isa::kScalar};
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (active_isa() >= isa) {
      isas.push_back(isa);
    }
  }
  return isas;
}

template <typename S, typename Params>
const RowKernel<Params>& kernel_on(Isa isa) {
  return registered_for<ByStorage<RowKernel<Params>>>(isa).tables[static_cast<int>(StorageTraits<S>::kStorage)];
}

// Frequencies as a kernel takes them.
struct Turns {
  explicit Turns(int64_t count)
      : fraction(padded_frequencies(count)), whole(padded_frequencies(count)), offset(padded_frequencies(count)) {
    for (Buffer<uint64_t>* const words : {&fraction, &whole, &offset}) {
      std::fill_n(words->data(), words->size(), 0);
    }
  }
  TurnArrays arrays() const {
    return {fraction.data(), whole.data(), offset.data(), nullptr};
  }

  Buffer<uint64_t> fraction, whole, offset;
};

// Sines, then cosines, of the phases, in fractions of 2^-64 of a turn: of position 1 at those frequencies.
template <typename T>
Buffer<T> sinusoids_of(const Turns& turns, int64_t count, Isa isa) {
  const int32_t one = 1;
  Buffer<T> out(2 * count);
  SinusoidRowParams params;
  params.positions = {&one, PositionType::kInt32, 1};
  params.out = out.data();
  params.rows = 1;
  params.dim = 2 * count;
  params.interleaved = false;
  params.turns = turns.arrays();
  run(kernel_on<T, SinusoidRowParams>(isa), params, 0, 1);
  return out;
}

// sine and cosine of a phase, from the remainder to a whole quarter, which long double holds.
struct Pair {
  long double sine, cosine;
};
Pair exact_pair(uint64_t phase) {
  constexpr long double kTurn = 6.28318530717958647692528676655900577L;
  const uint64_t quarter = (phase + (uint64_t{1} << 61)) >> 62;
  const auto rest = static_cast<int64_t>(phase - (quarter << 62));
  const long double angle = std::ldexp(static_cast<long double>(rest), -64) * kTurn;
  const long double s = std::sin(angle);
  const long double c = std::cos(angle);
  switch (quarter % 4) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

// Compares the sinusoids of whole rows of phases with the definition, and instruction sets with one another.
template <typename T>
class PhaseCheck {
 public:
  // Float sees the upper 32 bits; the reference of a dense walk through them is fast enough in double.
  void add(const std::vector<uint64_t>& phases, bool in_double = false) {
    const auto count = static_cast<int64_t>(phases.size());
    Turns turns(count);
    std::copy(phases.begin(), phases.end(), turns.fraction.data());
    const Buffer<T> want = sinusoids_of<T>(turns, count, Isa::kScalar);
    for (const Isa isa : available_isas()) {
      const Buffer<T> got = sinusoids_of<T>(turns, count, isa);
      ASSERT_TRUE(same_bits(got.data(), want.data(), 2 * count)) << isa_name(isa);
    }
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t phase = phases[static_cast<size_t>(i)];
      Pair exact;
      if (in_double) {
        const double angle = std::ldexp(static_cast<double>(static_cast<int64_t>(phase)), -64) * 6.283185307179586;
        exact = {std::sin(angle), std::cos(angle)};
      } else {
        exact = exact_pair(phase);
      }
      add_error(std::fabs(want.data()[i] - exact.sine));
      add_error(std::fabs(want.data()[count + i] - exact.cosine));
    }
  }
  double largest() const {
    return largest_;
  }

 private:
  void add_error(long double error) {
    largest_ = std::max(largest_, static_cast<double>(error));
  }

  double largest_ = 0;
};

void check_short_phases(uint64_t first, uint64_t step) {
  constexpr size_t kRow = 1 << 16;
  PhaseCheck<float> check;
  std::vector<uint64_t> phases;
  for (uint64_t phase = first; phase < uint64_t{1} << 32; phase += step) {
    phases.push_back(phase << 32);
    if (phases.size() == kRow) {
      check.add(phases, /*in_double=*/true);
      phases.clear();
    }
  }
  check.add(phases, /*in_double=*/true);
  EXPECT_LE(check.largest(), 1e-7);
  ::testing::Test::RecordProperty("largest", std::to_string(check.largest()));
}

TEST(Phases, OfEveryThousandthFloat) {
  check_short_phases(0, 2003);
}
TEST(Phases, DISABLED_OfEveryFloat) {
  check_short_phases(0, 1);
}

template <typename T>
class PhasesOf : public ::testing::Test {};
using ComputeTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(PhasesOf, ComputeTypes);

TYPED_TEST(PhasesOf, AnyBitsAndNearAxes) {
  std::mt19937_64 random(4);
  PhaseCheck<TypeParam> check;
  std::vector<uint64_t> phases;
  for (int i = 0; i < 100003; ++i) {
    const uint64_t eighth = (random() % 8) << 61;
    const uint64_t any = random();
    phases.push_back(i % 2 == 0 ? any : eighth + static_cast<uint64_t>(static_cast<int64_t>(any) >> (any % 63)));
  }
  for (uint64_t eighth = 0; eighth < 8; ++eighth) {
    for (const uint64_t near : {~uint64_t{0}, uint64_t{0}, uint64_t{1}, uint64_t{1} << 31, uint64_t{1} << 32}) {
      phases.push_back((eighth << 61) + near);
    }
  }
  check.add(phases);
  // A float's phase is rounded to 2^-32 of a turn.
  EXPECT_LE(check.largest(), sizeof(TypeParam) == 4 ? 1e-7 : 2.3e-16);
}

TEST(Phases, OfAxesAreExact) {
  Turns turns(4);
  for (uint64_t i = 0; i < 4; ++i) {
    turns.fraction.data()[i] = i << 62;
  }
  for (const Isa isa : available_isas()) {
    const Buffer<float> floats = sinusoids_of<float>(turns, 4, isa);
    const Buffer<double> doubles = sinusoids_of<double>(turns, 4, isa);
    const int want[] = {0, 1, 0, -1, 1, 0, -1, 0};
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(floats.data()[i], static_cast<float>(want[i])) << i;
      EXPECT_EQ(doubles.data()[i], want[i]) << i;
    }
  }
}

// Every bit of a product of fractions but three units of the last place.
TEST(PhaseOf, IsTheProductModuloATurn) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100000; ++i) {
    const FixedPoint position{i % 3 == 0 ? 0 : random(), random()};
    const FixedPoint turn{random(), i % 2 == 0 ? 0 : random()};
    const uint64_t offset = random();
    const uint64_t exact = position.whole * turn.fraction + position.fraction * turn.whole +
                           static_cast<uint64_t>(static_cast<Wide>(position.fraction) * turn.fraction >> 64) + offset;
    const uint64_t missing = exact - phase_of(position, turn, offset);
    ASSERT_LE(missing, position.fraction == 0 ? 0u : 3u);
  }
}

// Rows of every kind of position, with ends of vectors, as one number.
template <typename S>
uint64_t checksum(Isa isa) {
  uint64_t sum = 0xcbf29ce484222325u;
  std::mt19937_64 random(6);
  for (const int64_t dim : {1, 2, 15, 16, 33, 64, 100, 2100}) {
    const std::vector<FixedPoint> ladder = frequency_ladder(dim, 10000, 1.5);
    Turns turns(static_cast<int64_t>(ladder.size()));
    for (size_t i = 0; i < ladder.size(); ++i) {
      turns.fraction.data()[i] = ladder[i].fraction;
      turns.whole.data()[i] = ladder[i].whole;
      turns.offset.data()[i] = random();
    }
    double positions[] = {0, 1, -1, 2147483647, -1e6, 0.25, kNaN, kInfinity, 1e18, 0, 0, 0};
    for (double& position : positions) {
      position = position == 0 ? random_number(random, -20, 40) : position;
    }
    constexpr int64_t kRows = std::size(positions);
    Buffer<S> out(kRows * dim);
    SinusoidRowParams params;
    params.positions = {positions, PositionType::kDouble, kRows};
    params.out = out.data();
    params.rows = kRows;
    params.dim = dim;
    params.interleaved = dim % 2 == 0;
    params.turns = turns.arrays();
    run(kernel_on<S, SinusoidRowParams>(isa), params, 0, kRows);
    for (int64_t i = 0; i < kRows * dim; ++i) {
      const double number = to_double(out.data()[i]);
      uint64_t bits = std::isnan(number) ? 0 : bits_of(number);
      for (int byte = 0; byte < 8; ++byte, bits >>= 8) {
        sum = (sum ^ (bits & 0xff)) * 0x100000001b3u;
      }
    }
  }
  return sum;
}

TEST(Sinusoids, HaveTheSameBitsOnEveryInstructionSetAndMachine) {
  for (const Isa isa : available_isas()) {
    EXPECT_EQ(checksum<float>(isa), 0xf2b569f322903789u) << isa_name(isa);
    EXPECT_EQ(checksum<double>(isa), 0xd6408e70c4f47bc7u) << isa_name(isa);
    EXPECT_EQ(checksum<Half>(isa), 0x403b00a4adb6f12au) << isa_name(isa);
    EXPECT_EQ(checksum<BFloat16>(isa), 0x78c5d40c683fdecau) << isa_name(isa);
  }
}

// Exactly sized memory: nothing is read or written beyond a row, whatever its length and the range of rows.
TEST(Sinusoids, OfARangeOfRowsAreThoseOfAll) {
  for (int64_t dim = 1; dim <= 70; ++dim) {
    const std::vector<FixedPoint> ladder = frequency_ladder(dim, 10000, 1);
    Turns turns(static_cast<int64_t>(ladder.size()));
    for (size_t i = 0; i < ladder.size(); ++i) {
      turns.fraction.data()[i] = ladder[i].fraction;
      turns.whole.data()[i] = ladder[i].whole;
    }
    SinusoidRowParams params;
    params.positions.period = 7;
    params.rows = 20;
    params.dim = dim;
    params.turns = turns.arrays();
    Buffer<float> whole(params.rows * dim);
    params.out = whole.data();
    run(kernel_of<float, SinusoidRowParams>(), params, 0, params.rows);
    Buffer<float> parts(params.rows * dim);
    params.out = parts.data();
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {1, 8}, {8, 8}, {8, 20}}) {
      run(kernel_of<float, SinusoidRowParams>(), params, begin, end);
    }
    EXPECT_TRUE(same_bits(parts.data(), whole.data(), whole.size())) << dim;
    EXPECT_TRUE(same_bits(whole.data() + 7 * dim, whole.data(), 13 * dim)) << "row r has position r modulo 7";
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
