// The kernel that turns rows gives the bits of the CPU's, new and in place, wherever rows lie.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "kernels/encoding/launch_rotation.cuh"
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

// Rows [batch, heads, length, dim] at positions [batch, length], with gaps in x and out.
struct Shape {
  int64_t batch, heads, length;
  bool heads_last;  // rows lie as [batch, length, heads, dim]
};
constexpr int64_t kGap = 3;

RotationParams params_of(const Shape& shape, int64_t dim, int64_t turned) {
  RotationParams params;
  params.dim = dim;
  params.turned = turned;
  const int64_t step = dim + kGap;
  const int64_t head = shape.heads_last ? step : shape.length * step;
  const int64_t place = shape.heads_last ? shape.heads * step : step;
  const int64_t whole = shape.heads * shape.length * step;
  params.places.ndim = 2;
  params.repeats.ndim = 1;
  const int64_t place_sizes[] = {shape.batch, shape.length};
  const int64_t place_strides[] = {whole, place};
  for (int d = 0; d < 2; ++d) {
    params.places.sizes[d] = place_sizes[d];
    params.places.strides[0][d] = params.places.strides[1][d] = place_strides[d];
  }
  params.places.strides[2][0] = shape.length;
  params.places.strides[2][1] = 1;
  params.repeats.sizes[0] = shape.heads;
  params.repeats.strides[0][0] = params.repeats.strides[1][0] = head;
  params.place_count = shape.batch * shape.length;
  params.repeat_count = shape.heads;
  params.repeats_together = 2;
  return params;
}

template <typename S>
std::vector<S> normal_elements(int64_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<S> elements;
  for (int64_t i = 0; i < count; ++i) {
    elements.push_back(static_cast<S>(normal(generator)));
  }
  return elements;
}

std::vector<double> positions_of(int64_t count) {
  std::vector<double> positions = {0, -3.25, 1e6, std::numeric_limits<double>::quiet_NaN(), 0x1p40 + 0.5};
  for (auto i = static_cast<int64_t>(positions.size()); i < count; ++i) {
    positions.push_back(static_cast<double>(i) * 7.5);
  }
  return positions;
}

template <typename S>
class RotationTypes : public testing::Test {};
using StorageTypes = cuda_on_host::TestedTypes<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(RotationTypes, StorageTypes);

TYPED_TEST(RotationTypes, AreBitwiseTheCpus) {
  using S = TypeParam;
  struct Case {
    int64_t dim, turned;
  };
  const Shape shapes[] = {{1, 1, 1, false}, {2, 3, 4, false}, {2, 5, 3, true}};
  const Case cases[] = {{2, 2}, {8, 6}, {16, 16}, {37, 34}, {64, 64}, {9, 0}};
  int64_t threads = 1;
  for (const Shape& shape : shapes) {
    const std::vector<double> positions = positions_of(shape.batch * shape.length);
    for (const Case& one : cases) {
      const Turns turns = ladder(one.turned, -1.5, 0);
      const int64_t count = shape.batch * shape.heads * shape.length * (one.dim + kGap);
      const std::vector<S> x = normal_elements<S>(count);
      for (const bool interleaved : {true, false}) {
        SCOPED_TRACE(one.turned);
        RotationParams params = params_of(shape, one.dim, one.turned);
        params.positions = {positions.data(), PositionType::kDouble, shape.batch * shape.length};
        params.interleaved = interleaved;
        params.inverse = interleaved == (one.dim % 4 == 0);
        params.factor = 1.25;
        params.x = x.data();
        auto cpu = poisoned<S>(x.size());
        auto gpu = cpu;
        params.out = cpu.data();
        run_on_cpu<S>(params, params.units(), turns.arrays());
        params.out = gpu.data();
        threads = threads % 400 + 37;
        launch_rotation_with(kStorage<S>, params, turns.arrays(), HostLauncher{}, threads);
        expect_same_bits(gpu, cpu, one.dim + kGap);
        // In place; what lies between the rows stays.
        std::vector<S> in_place = x;
        params.x = params.out = in_place.data();
        launch_rotation_with(kStorage<S>, params, turns.arrays(), HostLauncher{}, threads);
        std::vector<S> on_cpu = x;
        params.x = params.out = on_cpu.data();
        run_on_cpu<S>(params, params.units(), turns.arrays());
        expect_same_bits(in_place, on_cpu, one.dim + kGap);
      }
    }
  }
}

TYPED_TEST(RotationTypes, OfHeldFrequenciesAreBitwiseTheCpus) {
  using S = TypeParam;
  const std::vector<float> frequencies = {1, -0.1f, 3e5f, 0, std::numeric_limits<float>::infinity(), 2.5f, 0.25f};
  const auto count = static_cast<int64_t>(frequencies.size());
  Turns turns(count);
  for (int64_t i = 0; i < count; ++i) {
    const double frequency = frequencies[static_cast<size_t>(i)];
    turns.finite[static_cast<size_t>(i)] = std::isfinite(frequency) ? 1 : 0;
    turns.set(i, turns_of(std::isfinite(frequency) ? frequency : 0), 0);
  }
  HeldFrequencies held;
  held.frequencies = frequencies.data();
  const Shape shape{2, 3, 4, false};
  const std::vector<double> positions = positions_of(8);
  const int64_t dim = 2 * count + 3;
  const std::vector<S> x = normal_elements<S>(24 * (dim + kGap));
  for (const bool interleaved : {true, false}) {
    RotationParams params = params_of(shape, dim, 2 * count);
    params.positions = {positions.data(), PositionType::kDouble, 8};
    params.interleaved = interleaved;
    params.x = x.data();
    auto cpu = poisoned<S>(x.size());
    auto gpu = cpu;
    params.out = cpu.data();
    run_on_cpu<S>(params, params.units(), turns.arrays(false));
    params.out = gpu.data();
    launch_rotation_with(kStorage<S>, params, held, HostLauncher{}, 50);
    expect_same_bits(gpu, cpu, dim + kGap);
  }
}

// More frequencies than the parameters of a launch have room for; what does not turn is copied once.
TEST(Rotation, LongRowsTakeSeveralLaunches) {
  const std::vector<double> positions = {3, 1000000007};
  for (const int64_t turned : {2 * kFewTurns, 2 * kFewTurns + 2, 2 * kManyTurns + 6}) {
    const Turns turns = ladder(turned, 1, 0);
    const int64_t dim = turned + 5;
    const std::vector<float> x = normal_elements<float>(2 * (dim + kGap));
    RotationParams params = params_of({1, 1, 2, false}, dim, turned);
    params.positions = {positions.data(), PositionType::kDouble, 2};
    params.interleaved = false;
    params.x = x.data();
    auto cpu = poisoned<float>(x.size());
    auto gpu = cpu;
    params.out = cpu.data();
    run_on_cpu<float>(params, params.units(), turns.arrays());
    params.out = gpu.data();
    int launches = 0;
    launch_rotation_with(Storage::kFloat, params, turns.arrays(), [&](const auto&... arguments) {
      ++launches;
      HostLauncher{}(arguments...);
    });
    EXPECT_EQ(launches, turned <= 2 * kFewTurns ? 1 : turned <= 2 * kManyTurns ? 1 : 2) << turned;
    expect_same_bits(gpu, cpu, dim + kGap);
  }
}

TEST(Rotation, RunsUnderEverySchedule) {
  const std::vector<double> positions = positions_of(6);
  const Turns turns = ladder(20, 1, 0);
  const std::vector<float> x = normal_elements<float>(2 * 2 * 3 * (24 + kGap));
  RotationParams params = params_of({2, 2, 3, true}, 24, 20);
  params.positions = {positions.data(), PositionType::kDouble, 6};
  params.x = x.data();
  auto cpu = poisoned<float>(x.size());
  params.out = cpu.data();
  run_on_cpu<float>(params, params.units(), turns.arrays());
  for (const Schedule& schedule : all_schedules()) {
    auto gpu = poisoned<float>(x.size());
    params.out = gpu.data();
    launch_rotation_with(Storage::kFloat, params, turns.arrays(), HostLauncher{schedule}, 300);
    expect_same_bits(gpu, cpu, 24 + kGap);
  }
}

TEST(Rotation, NoRowsLaunchNothing) {
  RotationParams params = params_of({0, 3, 4, false}, 8, 8);
  const Turns turns = ladder(8);
  const auto refuse = [](const auto&...) { FAIL(); };
  launch_rotation_with(Storage::kFloat, params, turns.arrays(), refuse);
  launch_rotation_with(Storage::kFloat, params, HeldFrequencies(), refuse);
}

}  // namespace
}  // namespace torch_hrr::kernels
