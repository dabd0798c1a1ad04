// The kernel of moments gives the bits of the CPU's kernel.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/field/launch_moments.cuh"
#include "tests/cuda_on_host/run_on_cpu.h"
#include "tests/cuda_on_host/storage_of.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels {
namespace {

using cuda_on_host::HostLauncher;
using cuda_on_host::poisoned;

template <typename S>
class MomentTypes : public testing::Test {};
using StorageTypes = cuda_on_host::TestedTypes<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(MomentTypes, StorageTypes);

struct Sizes {
  int64_t items, places, channels;
};

TYPED_TEST(MomentTypes, AreBitwiseTheCpus) {
  using S = TypeParam;
  using T = compute_t<S>;
  std::mt19937 generator(5);
  std::normal_distribution<float> normal;
  for (const Sizes& sizes : {Sizes{1, 1, 1}, Sizes{2, 64, 3}, Sizes{3, 65, 17}, Sizes{1, 200, 70}, Sizes{2, 63, 130}}) {
    MomentsParams params;
    params.items = sizes.items;
    params.places = sizes.places;
    params.channels = sizes.channels;
    params.small = 0.3;
    std::vector<S> field(static_cast<size_t>(sizes.items * sizes.places * sizes.channels));
    for (S& element : field) {
      element = static_cast<S>(normal(generator));
    }
    // What is not finite stays within its block and channel.
    field[field.size() / 2] = static_cast<S>(sizes.items == 2 ? NAN : -INFINITY);
    params.field = field.data();
    const auto count = static_cast<size_t>(params.rows() * kMoments * params.channels);
    auto cpu = poisoned<T>(count);
    params.out = cpu.data();
    run_rows_on_cpu(kernel_table<RowKernel<MomentsParams>>(kStorage<S>), params, params.rows());
    for (const int64_t most_blocks : {1, 1000}) {
      auto gpu = poisoned<T>(count);
      params.out = gpu.data();
      launch_moments_with(kStorage<S>, params, HostLauncher{}, most_blocks);
      for (size_t i = 0; i < count; ++i) {
        // The payload of a NaN is not promised.
        ASSERT_TRUE(std::memcmp(&gpu[i], &cpu[i], sizeof(T)) == 0 || (std::isnan(gpu[i]) && std::isnan(cpu[i])))
            << "number " << i << " of " << sizes.places << "x" << sizes.channels << ": " << gpu[i] << ", " << cpu[i];
      }
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
