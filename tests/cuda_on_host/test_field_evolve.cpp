// The kernels of field steps give the bits of the CPU's kernels.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/field/launch_evolve.cuh"
#include "tests/cuda_on_host/run_on_cpu.h"
#include "tests/cuda_on_host/storage_of.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using cuda_on_host::all_schedules;
using cuda_on_host::HostLauncher;
using cuda_on_host::poisoned;
using cuda_on_host::Schedule;

constexpr Boundary kBoundaries[] = {Boundary::kReplicate, Boundary::kZeros, Boundary::kCircular};
constexpr Stencil kStencils[] = {Stencil::kLaplace, Stencil::kBox, Stencil::kBinomial};

using Shape = FieldShape;

template <typename S>
struct Problem {
  std::vector<S> field;
  EvolveParams params;

  explicit Problem(const Shape& shape, unsigned seed = 1) {
    static_cast<Shape&>(params) = shape;
    params.keep = 0.9;
    params.rate = 0.15;
    params.seed = 0x123456789abcdefu;
    params.first = ~uint64_t{0} - 3;
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    field.resize(static_cast<size_t>(shape.elements()));
    for (S& element : field) {
      element = static_cast<S>(normal(generator));
    }
    params.field = field.data();
  }

  std::vector<S> on_cpu(int64_t steps = 1) const {
    std::vector<S> state = field;
    auto out = poisoned<S>(field.size());
    EvolveParams own = params;
    const auto& kernel = kernel_table<RowKernel<EvolveParams>>(kStorage<S>);
    for (int64_t step = 0; step < steps; ++step) {
      own.field = state.data();
      own.out = out.data();
      run_rows_on_cpu(kernel, own, own.stepping().lines());
      own.first += static_cast<uint64_t>(own.noise_blocks());
      state.swap(out);
    }
    return state;
  }
  std::vector<S> on_gpu(int64_t steps = 1, const EvolveOptions& options = {}, const EvolveNumbers& numbers = {},
                        const Schedule& schedule = {}) const {
    auto out = poisoned<S>(field.size());
    auto workspace = poisoned<S>(steps > 1 ? field.size() : 0);
    EvolveParams own = params;
    own.out = out.data();
    launch_evolve_with(kStorage<S>, own, numbers, steps, workspace.data(), HostLauncher{schedule}, options);
    return out;
  }
};

// Fewer blocks than tiles, and tiles of every size.
EvolveOptions small_blocks(int64_t number) {
  EvolveOptions options;
  options.most_blocks = number % 3 + 1;
  options.most_threads = 64 * options.most_blocks;
  return options;
}
// No channel stays in shared memory.
EvolveOptions step_by_step(int64_t number) {
  EvolveOptions options = small_blocks(number);
  options.most_shared = 0;
  return options;
}

template <typename S>
void expect_same_bits(const std::vector<S>& gpu, const std::vector<S>& cpu) {
  ASSERT_EQ(gpu.size(), cpu.size());
  for (size_t i = 0; i < gpu.size(); ++i) {
    const auto a = static_cast<double>(gpu[i]);
    const auto b = static_cast<double>(cpu[i]);
    // The payload of a NaN is not promised.
    ASSERT_TRUE(std::memcmp(&gpu[i], &cpu[i], sizeof(S)) == 0 || (std::isnan(a) && std::isnan(b)))
        << "element " << i << ": " << a << " and " << b;
  }
}

template <typename S>
class EvolveTypes : public testing::Test {};
using StorageTypes = cuda_on_host::TestedTypes<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(EvolveTypes, StorageTypes);

TYPED_TEST(EvolveTypes, AreBitwiseTheCpus) {
  // Tiles that are whole, one place short and one place over; axes of one and two; volumes that 4 does not divide.
  const Shape shapes[] = {{1, 1, 1, 1, 1}, {2, 2, 2, 2, 3},  {1, 3, 5, 4, 8},  {1, 5, 3, 9, 17},  {3, 4, 1, 7, 1},
                          {1, 2, 9, 1, 5}, {1, 3, 8, 16, 4}, {1, 1, 7, 15, 2}, {1, 20, 2, 3, 16}, {1, 3, 12, 13, 1}};
  int64_t number = 0;
  for (const Shape& shape : shapes) {
    Problem<TypeParam> problem(shape);
    for (const Boundary boundary : kBoundaries) {
      for (const Stencil stencil : kStencils) {
        for (const double noise : {0.0, 0.3}) {
          problem.params.boundary = boundary;
          problem.params.stencil = stencil;
          problem.params.noise = noise;
          const auto expected = problem.on_cpu();
          SCOPED_TRACE(testing::Message()
                       << shape.batch << "x" << shape.depth << "x" << shape.height << "x" << shape.width << "x"
                       << shape.channels << " boundary " << static_cast<int>(boundary) << " stencil "
                       << static_cast<int>(stencil) << " noise " << noise);
          expect_same_bits(problem.on_gpu(1, small_blocks(++number)), expected);
        }
      }
    }
  }
}

TYPED_TEST(EvolveTypes, OfLargerFieldsAreBitwiseTheCpus) {
  for (const Shape& shape : {Shape{1, 5, 19, 37, 9}, Shape{1, 35, 4, 6, 1}}) {
    Problem<TypeParam> problem(shape);
    problem.params.noise = 0.1;
    for (const Stencil stencil : kStencils) {
      problem.params.stencil = stencil;
      expect_same_bits(problem.on_gpu(), problem.on_cpu());
    }
  }
}

// Step by step, and with channels that stay in shared memory, in one launch and in several.
TYPED_TEST(EvolveTypes, OfManyStepsAreBitwiseTheCpus) {
  const Shape shapes[] = {{1, 1, 1, 1, 1}, {2, 2, 2, 2, 3}, {1, 3, 5, 4, 8},  {1, 6, 3, 9, 35},
                          {3, 4, 1, 7, 1}, {1, 2, 9, 1, 5}, {1, 4, 8, 16, 2}, {1, 12, 2, 3, 3}};
  constexpr int64_t kSteps = 5;
  int64_t number = 0;
  for (const Shape& shape : shapes) {
    Problem<TypeParam> problem(shape);
    for (const Boundary boundary : kBoundaries) {
      for (const Stencil stencil : kStencils) {
        problem.params.boundary = boundary;
        problem.params.stencil = stencil;
        problem.params.noise = ++number % 2 == 0 ? 0.3 : 0;
        const auto expected = problem.on_cpu(kSteps);
        SCOPED_TRACE(number);
        EvolveOptions options = small_blocks(number);
        options.resident_bytes = (number % 2) * 33 * problem.params.volume() * static_cast<int64_t>(sizeof(TypeParam));
        expect_same_bits(problem.on_gpu(kSteps, options), expected);
        expect_same_bits(problem.on_gpu(kSteps, step_by_step(number)), expected);
      }
    }
  }
}

TEST(Evolve, ChannelsStayInSharedMemoryWhereTheyFit) {
  EvolveParams params;
  params.batch = params.channels = 1;
  params.depth = params.height = params.width = 16;
  EXPECT_EQ(resident_plan<float>(params, 48 * 1024).slabs, 8);
  EXPECT_EQ(resident_plan<float>(params, 24 * 1024).slabs, 2);
  EXPECT_EQ(resident_plan<float>(params, 16 * 1024).slabs, 0);
  EXPECT_EQ(resident_plan<double>(params, 48 * 1024).slabs, 2);
  params.depth = 15;
  EXPECT_EQ(resident_plan<float>(params, 48 * 1024).slabs, 5);
  params.depth = 1;
  params.height = 700;
  EXPECT_EQ(resident_plan<Half>(params, 10000 * 1024).slabs, 0);
  // They would fit, but a block would take too long.
  params.depth = params.height = params.width = 24;
  EXPECT_EQ(resident_plan<float>(params, 227 * 1024).slabs, 0);
}

// Planes [begin, end) of every item of a field.
template <typename S>
std::vector<S> planes_of(const std::vector<S>& field, const Shape& shape, int64_t begin, int64_t end) {
  const int64_t plane = shape.height * shape.width * shape.channels;
  std::vector<S> planes;
  for (int64_t item = 0; item < shape.batch; ++item) {
    const auto first = field.begin() + item * shape.depth * plane;
    planes.insert(planes.end(), first + begin * plane, first + end * plane);
  }
  return planes;
}

// On the CPU too, and the neighbours stay as they are.
TYPED_TEST(EvolveTypes, OfAPartAreThoseOfTheWhole) {
  using S = TypeParam;
  int64_t number = 0;
  for (const Shape& shape : {Shape{2, 9, 3, 5, 3}, Shape{1, 30, 4, 6, 17}, Shape{1, 7, 8, 8, 1}}) {
    for (const Stencil stencil : kStencils) {
      Problem<S> whole(shape);
      whole.params.stencil = stencil;
      whole.params.boundary = kBoundaries[++number % 3];
      whole.params.noise = 0.3;
      const auto stepped = whole.on_cpu();
      const int64_t begin = number % 4;
      const int64_t end = shape.depth - number % 3;
      Problem<S> part = whole;
      part.field = planes_of(whole.field, shape, begin, end);
      part.params.field = part.field.data();
      part.params.depth = end - begin;
      part.params.part = {1, begin, shape.depth - end};
      const auto expected = planes_of(stepped, shape, begin + 1, end - 1);
      const auto neighbours = poisoned<S>(part.field.size());
      for (const auto& result : {part.on_cpu(), part.on_gpu(1, small_blocks(number)), part.on_gpu()}) {
        expect_same_bits(planes_of(result, part.params, 1, end - begin - 1), expected);
        for (const int64_t plane : {int64_t{0}, end - begin - 1}) {
          expect_same_bits(planes_of(result, part.params, plane, plane + 1),
                           planes_of(neighbours, part.params, plane, plane + 1));
        }
      }
    }
  }
}

// Decay, diffusion and key may lie on the device.
TYPED_TEST(EvolveTypes, ReadsNumbersFromMemory) {
  using S = TypeParam;
  Problem<S> problem({1, 3, 4, 5, 3});
  const auto decay = static_cast<S>(0.25);
  const auto diffusion = static_cast<S>(0.1);
  const uint64_t key[2] = {77, 5};
  problem.params.noise = 0.5;
  problem.params.keep = 1 - static_cast<double>(decay);
  problem.params.rate = static_cast<double>(diffusion);
  problem.params.seed = 77;
  problem.params.first = 12;
  const auto expected = problem.on_cpu();
  problem.params.keep = problem.params.rate = NAN;
  problem.params.seed = 0;
  problem.params.first = 7;
  expect_same_bits(problem.on_gpu(1, {}, {&decay, &diffusion, kStorage<S>, kStorage<S>, key}), expected);
}

// What is not finite stays within one place.
TEST(Evolve, NumbersThatAreNotFiniteStayNear) {
  Problem<float> problem({1, 6, 6, 9, 2});
  problem.field[1] = NAN;
  problem.field[300] = INFINITY;
  problem.field[501] = -INFINITY;
  for (const Stencil stencil : kStencils) {
    problem.params.stencil = stencil;
    expect_same_bits(problem.on_gpu(), problem.on_cpu());
  }
}

TEST(Evolve, IsTheSameInEverySchedule) {
  Problem<float> problem({1, 6, 6, 10, 5});
  problem.params.noise = 0.1;
  for (const Stencil stencil : {Stencil::kLaplace, Stencil::kBox}) {
    problem.params.stencil = stencil;
    problem.params.boundary = Boundary::kCircular;
    for (const Schedule& schedule : all_schedules(1)) {
      SCOPED_TRACE(schedule);
      for (const int64_t steps : {1, 4}) {
        const auto expected = problem.on_cpu(steps);
        expect_same_bits(problem.on_gpu(steps, small_blocks(1), {}, schedule), expected);
        expect_same_bits(problem.on_gpu(steps, step_by_step(1), {}, schedule), expected);
      }
    }
  }
}

// Every tile computes every place once and loads its border with the threads it has.
TEST(Evolve, TilesFitTheirThreads) {
  for (const int64_t bytes : {2, 4, 8}) {
    for (const int64_t size : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, 1000}) {
      for (const int64_t other : {1, 2, 5, 16, 33, 1000}) {
        for (const int64_t channels : {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 64, 1000}) {
          EvolveParams params;
          params.batch = 2;
          params.depth = size;
          params.height = other;
          params.width = size;
          params.channels = channels;
          const EvolveTile tile = evolve_tile(params, bytes);
          ASSERT_LE(tile.threads, kMostEvolveThreads) << size << " " << other << " " << channels;
          ASSERT_GE(tile.threads, tile.computing());
          ASSERT_GE(kBorderPlaces * tile.threads, tile.border(true));
          ASSERT_LE(evolve_shared_bytes<float>(tile) * (bytes == 8 ? 2 : 1), 96u * 1024);
        }
      }
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
