// The kernels of sinusoids give the bits of the CPU's kernels.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/encoding/launch_sinusoid.cuh"
#include "tests/cuda_on_host/encoding_turns.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using cuda_on_host::all_schedules;
using cuda_on_host::expect_same_bits;
using cuda_on_host::HostLauncher;
using cuda_on_host::ladder;
using cuda_on_host::poisoned;
using cuda_on_host::run_on_cpu;
using cuda_on_host::Schedule;
using cuda_on_host::Turns;

std::vector<double> fractional_positions() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return {0,      0.5,     -3.7,   123456.789, -1e6,  1e-3,        1e-30, 0x1p40 + 0.25,
          0x1p62, -0x1p63, 0x1p70, kInf,       -kInf, std::nan("")};
}

template <typename S>
class SinusoidTypes : public testing::Test {};
using StorageTypes = cuda_on_host::TestedTypes<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(SinusoidTypes, StorageTypes);

TYPED_TEST(SinusoidTypes, AreBitwiseTheCpus) {
  using S = TypeParam;
  const std::vector<int64_t> whole = {0, 1, -1, 2, 1000, 1000000, 2147483647, -2147483648, int64_t{1} << 40};
  const std::vector<double> doubles = fractional_positions();
  const std::vector<float> floats(doubles.begin(), doubles.end());
  const std::vector<int32_t> narrow = {0, 1, -1, 2147483647, -2147483647 - 1, 5};
  struct Case {
    Positions positions;
    int64_t rows;
  };
  const Case cases[] = {{{whole.data(), PositionType::kInt64, 9}, 9},
                        {{doubles.data(), PositionType::kDouble, 14}, 14},
                        {{floats.data(), PositionType::kFloat, 14}, 14},
                        {{narrow.data(), PositionType::kInt32, 6}, 20},
                        {{nullptr, PositionType::kInt64, 7}, 16}};
  int64_t threads = 1;
  for (const int64_t dim : {1, 2, 3, 8, 17, 32, 33, 100}) {
    const Turns turns = ladder(dim, dim % 2 == 0 ? 1 : -3.5);
    for (const Case& one : cases) {
      for (const bool interleaved : {true, false}) {
        SCOPED_TRACE(dim);
        auto cpu = poisoned<S>(static_cast<size_t>(one.rows * dim));
        auto gpu = cpu;
        SinusoidParams params{one.positions, cpu.data(), one.rows, dim, interleaved};
        run_on_cpu<S>(params, one.rows, turns.arrays());
        params.out = gpu.data();
        // Grids of every size.
        threads = threads % 400 + 37;
        launch_sinusoids_with(kStorage<S>, params, turns.arrays(), HostLauncher{}, threads);
        expect_same_bits(gpu, cpu, dim);
      }
    }
  }
}

TYPED_TEST(SinusoidTypes, OfHeldFrequenciesAreBitwiseTheCpus) {
  using S = TypeParam;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<double> frequencies = {1,     -0.1,   3e5, 0,           std::nan(""), 2.5, 1e-30,
                                           -kInf, 0x1p59, 0.3, 0x1.8p-1070, 123.25,       7};
  const std::vector<float> phases = {0, 1, -2, 0.5f, 0, std::nanf(""), 3, 0, 1e6f, 4, 5, 6, 7};
  const std::vector<double> positions = fractional_positions();
  for (const bool with_phases : {true, false}) {
    Turns turns(13);
    for (int64_t i = 0; i < 13; ++i) {
      const double frequency = frequencies[static_cast<size_t>(i)];
      const double phase = with_phases ? phases[static_cast<size_t>(i)] : 0;
      const bool finite = std::isfinite(frequency) && std::isfinite(phase);
      turns.finite[static_cast<size_t>(i)] = finite ? 1 : 0;
      turns.set(i, turns_of(finite ? frequency : 0), turns_of(finite ? phase : 0).fraction);
    }
    HeldFrequencies held{frequencies.data(), with_phases ? phases.data() : nullptr, Storage::kDouble, Storage::kFloat};
    for (const bool interleaved : {true, false}) {
      auto cpu = poisoned<S>(14 * 26);
      auto gpu = cpu;
      SinusoidParams params{{positions.data(), PositionType::kDouble, 14}, cpu.data(), 14, 26, interleaved};
      run_on_cpu<S>(params, 14, turns.arrays(false));
      params.out = gpu.data();
      launch_sinusoids_with(kStorage<S>, params, held, HostLauncher{}, 50);
      expect_same_bits(gpu, cpu, 26);
    }
  }
}

TYPED_TEST(SinusoidTypes, GradientsOfAnglesAreBitwiseTheCpus) {
  using S = TypeParam;
  using T = compute_t<S>;
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  const std::vector<double> positions = fractional_positions();
  constexpr int64_t kRows = 14;
  for (const int64_t count : {1, 2, 5, 16, 33}) {
    std::vector<float> frequencies;
    Turns turns(count);
    for (int64_t i = 0; i < count; ++i) {
      frequencies.push_back(normal(generator));
      turns.set(i, turns_of(frequencies.back()), 0);
    }
    std::vector<S> grad;
    for (int64_t i = 0; i < kRows * 2 * count; ++i) {
      grad.push_back(static_cast<S>(normal(generator)));
    }
    HeldFrequencies held;
    held.frequencies = frequencies.data();
    for (const bool interleaved : {true, false}) {
      auto cpu = poisoned<T>(static_cast<size_t>(kRows * count));
      auto gpu = cpu;
      AngleGradientParams params;
      params.sinusoid = {{positions.data(), PositionType::kDouble, kRows}, cpu.data(), kRows, 2 * count, interleaved};
      params.grad = grad.data();
      params.grad_storage = kStorage<S>;
      run_on_cpu<S>(params, kRows, turns.arrays());
      params.sinusoid.out = gpu.data();
      launch_angle_gradient_with(params, held, HostLauncher{}, 70);
      expect_same_bits(gpu, cpu, count);
    }
  }
}

TYPED_TEST(SinusoidTypes, AddedToATableAreBitwiseTheCpus) {
  using S = TypeParam;
  using Other = std::conditional_t<std::is_same_v<S, float>, BFloat16,
                                   std::conditional_t<std::is_same_v<S, double>, double, float>>;
  const std::vector<int64_t> wide = {0, 3, 1, 2, 4, -1, 5, 3, 1, 0, 2, 2};
  const std::vector<int32_t> narrow(wide.begin(), wide.end());
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  for (const int64_t dim : {1, 16, 31, 64}) {
    const Turns turns = ladder(dim);
    const int64_t stride = dim + 3;
    std::vector<S> same(static_cast<size_t>(5 * stride));
    std::vector<Other> other(same.size());
    for (size_t i = 0; i < same.size(); ++i) {
      const float x = normal(generator);
      same[i] = static_cast<S>(x);
      other[i] = static_cast<Other>(x);
    }
    for (const bool first : {true, false}) {
      auto cpu = poisoned<S>(static_cast<size_t>(12 * dim));
      auto gpu = cpu;
      TableParams params;
      params.sinusoid = {{nullptr, PositionType::kInt64, 4}, cpu.data(), 12, dim, first};
      params.table = first ? static_cast<const void*>(same.data()) : other.data();
      params.table_storage = first ? kStorage<S> : kStorage<Other>;
      params.table_rows = 5;
      params.table_stride = stride;
      params.tokens = first ? static_cast<const void*>(wide.data()) : narrow.data();
      params.wide_tokens = first;
      params.padding = first ? 3 : TableParams::kNoPadding;
      params.temperature = 1.7;
      run_on_cpu<S>(params, 12, turns.arrays());
      params.sinusoid.out = gpu.data();
      launch_sinusoids_with(kStorage<S>, params, turns.arrays(), HostLauncher{}, 45);
      expect_same_bits(gpu, cpu, dim);
    }
  }
}

// More frequencies than the parameters of a launch have room for.
TEST(Sinusoid, LongRowsTakeSeveralLaunches) {
  const std::vector<int64_t> positions = {3, 1000000007};
  for (const int64_t dim : {2 * kFewTurns, 2 * kFewTurns + 1, 2 * kManyTurns, 2 * kManyTurns + 5}) {
    const Turns turns = ladder(dim);
    for (const bool interleaved : {true, false}) {
      auto cpu = poisoned<float>(static_cast<size_t>(2 * dim));
      auto gpu = cpu;
      SinusoidParams params{{positions.data(), PositionType::kInt64, 2}, cpu.data(), 2, dim, interleaved};
      run_on_cpu<float>(params, 2, turns.arrays());
      params.out = gpu.data();
      launch_sinusoids_with(Storage::kFloat, params, turns.arrays(), HostLauncher{});
      expect_same_bits(gpu, cpu, dim);
    }
  }
}

TEST(Sinusoid, IsTheSameInEverySchedule) {
  const Turns turns = ladder(24);
  std::vector<float> expected;
  for (const Schedule& schedule : all_schedules(1)) {
    auto out = poisoned<float>(50 * 24);
    const SinusoidParams params{{nullptr, PositionType::kInt64, 50}, out.data(), 50, 24, true};
    launch_sinusoids_with(Storage::kFloat, params, turns.arrays(), HostLauncher{schedule}, 100);
    expected = expected.empty() ? out : expected;
    expect_same_bits(out, expected, 24);
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
