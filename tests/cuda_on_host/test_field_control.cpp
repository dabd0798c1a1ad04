// The kernel of learning control does what the CPU's does, to rounding; robots do not depend on each other.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/field/launch_control.cuh"
#include "tests/cuda_on_host/field_control.h"
#include "tests/cuda_on_host/run_on_cpu.h"
#include "tests/cuda_on_host/storage_of.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using cuda_on_host::HostLauncher;
using cuda_on_host::poisoned;

template <typename T>
class ControlTypes : public testing::Test {};
using NumberTypes = cuda_on_host::TestedTypes<float, double>;
TYPED_TEST_SUITE(ControlTypes, NumberTypes);

TYPED_TEST(ControlTypes, AreTheCpusToRounding) {
  using T = TypeParam;
  const double tolerance = sizeof(T) == 4 ? 2e-4 : 1e-11;
  for (int variant = 0; variant < 6; ++variant) {
    ControlParams p = variant % 3 == 0 ? control_settings({4, 3, 5}, 3, 2, 1) : control_settings({2, 1, 4}, 9, 1, 1);
    p.rows = 3;
    p.decay = 0.3;
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
    ControlRobots<T> cpu(p);
    ControlRobots<T> gpu(p);
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
