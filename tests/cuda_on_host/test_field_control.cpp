// The kernel of learning control does what the CPU's does, to rounding; robots do not depend on each other.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/field/launch_control.cuh"
#include "tests/cuda_on_host/run_on_cpu.h"
#include "tests/cuda_on_host/storage_of.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using cuda_on_host::HostLauncher;
using cuda_on_host::poisoned;

template <typename T>
struct Robots {
  ControlParams params;
  std::vector<T> field, weights, state, prediction, out;
  std::vector<int64_t> key;

  explicit Robots(const ControlParams& p)
      : params(p),
        field(static_cast<size_t>(p.rows * p.places_count() * p.channels)),
        weights(field.size()),
        state(static_cast<size_t>(p.rows * p.state_size())),
        prediction(static_cast<size_t>(p.rows * p.sensors)),
        out(static_cast<size_t>(p.rows * p.out_size())),
        key(static_cast<size_t>(2 * p.rows)) {
    for (int64_t row = 0; row < p.rows; ++row) {
      state[static_cast<size_t>(row * p.state_size() + ControlHead::kProduct)] = 1;
      key[static_cast<size_t>(2 * row)] = 77 + row;
    }
  }
  ControlParams with(const std::vector<T>& places, const std::vector<T>& sensory, const std::vector<T>& reward,
                     const std::vector<T>& ended) {
    ControlParams p = params;
    p.field = field.data();
    p.weights = weights.data();
    p.state = state.data();
    p.prediction = prediction.data();
    p.out = out.data();
    p.key = key.data();
    p.places = places.data();
    p.sensory = sensory.data();
    p.reward = reward.data();
    p.ended = ended.data();
    return p;
  }
};

ControlParams settings(std::array<int64_t, 3> sizes, int64_t maps, int64_t motors) {
  ControlParams p;
  p.rows = 3;
  std::copy(sizes.begin(), sizes.end(), p.sizes);
  p.maps = maps;
  p.motors = motors;
  p.channels = maps * (1 + motors) + 1;
  p.sensors = 3;
  p.measures = true;
  p.decay = 0.3;
  p.discount = 0.99;
  p.critic_rate = 0.2;
  p.motor_rate = 0.01;
  p.correlation = 0.5;
  p.deviation = 0.5;
  p.learns = true;
  return p;
}

template <typename T>
class ControlTypes : public testing::Test {};
using NumberTypes = cuda_on_host::TestedTypes<float, double>;
TYPED_TEST_SUITE(ControlTypes, NumberTypes);

TYPED_TEST(ControlTypes, AreTheCpusToRounding) {
  using T = TypeParam;
  const double tolerance = sizeof(T) == 4 ? 2e-4 : 1e-11;
  for (int variant = 0; variant < 6; ++variant) {
    ControlParams p = variant % 3 == 0 ? settings({4, 3, 5}, 3, 2) : settings({2, 1, 4}, 9, 1);
    p.discrete = variant == 3;
    p.diffusion = variant == 1 ? 0.05 : 0;
    p.dense = variant == 1 || variant == 2;
    p.learns = variant != 4;
    p.measures = variant != 5;
    std::mt19937 generator(5);
    std::normal_distribution<float> normal;
    const auto drawn = [&](int64_t count) {
      std::vector<T> made(static_cast<size_t>(count));
      for (T& each : made) {
        each = static_cast<T>(normal(generator));
      }
      return made;
    };
    const std::vector<T> places = drawn(p.rows * p.maps * 3 * (p.sensors + 1));
    Robots<T> cpu(p);
    Robots<T> gpu(p);
    for (int i = 0; i < 12; ++i) {
      const std::vector<T> sensory = drawn(p.rows * p.sensors);
      const std::vector<T> reward = drawn(p.rows);
      const std::vector<T> ended = {T(i == 4 ? 1 : 0), T(i == 6 ? 2 : 0), T(i > 7 ? -1 : 0)};
      run_rows_on_cpu(kernel_table<RowKernel<ControlParams>>(kStorage<T>), cpu.with(places, sensory, reward, ended),
                      p.rows);
      auto workspace = poisoned<int64_t>(static_cast<size_t>(p.rows * control_workspace(p)));
      launch_control_with(kStorage<T>, gpu.with(places, sensory, reward, ended), workspace.data(), HostLauncher{},
                          i % 2 == 0 ? 1 : 1000);
      ASSERT_EQ(cpu.key, gpu.key);
      const auto expect_near = [&](const char* name, const std::vector<T>& a, const std::vector<T>& b) {
        for (size_t k = 0; k < a.size(); ++k) {
          ASSERT_NEAR(a[k], b[k], tolerance * (1 + std::abs(a[k])))
              << name << " " << k << " of " << variant << ", " << i;
        }
      };
      expect_near("field", cpu.field, gpu.field);
      expect_near("weights", cpu.weights, gpu.weights);
      expect_near("state", cpu.state, gpu.state);
      expect_near("prediction", cpu.prediction, gpu.prediction);
      expect_near("out", cpu.out, gpu.out);
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
