// kernels/math.h in a CUDA kernel gives the bits of the CPU's vectors.
#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "tests/cuda_on_host/math_kernel.cuh"

namespace torch_hrr::cuda_on_host {
namespace {

using namespace torch_hrr::kernels;

// Any bits, the range of every function, and what surrounds the ends of the ranges.
template <typename T>
std::vector<T> arguments(std::size_t count) {
  std::mt19937_64 random(11);
  std::vector<T> x(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<bits_t<T>>(random());
    const double unit = static_cast<double>(random() >> 11) * 0x1p-52 - 1;
    const T range = static_cast<T>(unit * (i % 4 == 1 ? 3 : i % 4 == 2 ? 100 : 800));
    x[i] = i % 4 == 0 ? std::bit_cast<T>(bits) : range;
  }
  const T limits[] = {T(0),
                      T(-0.0),
                      std::numeric_limits<T>::infinity(),
                      -std::numeric_limits<T>::infinity(),
                      std::numeric_limits<T>::quiet_NaN(),
                      std::numeric_limits<T>::denorm_min(),
                      std::numeric_limits<T>::max(),
                      T(1),
                      HalfPi<T>::kLargest,
                      std::nextafter(HalfPi<T>::kLargest, std::numeric_limits<T>::infinity())};
  std::copy(std::begin(limits), std::end(limits), x.begin());
  return x;
}

template <typename T>
void kernel_is_bitwise_the_vectors() {
  constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
  constexpr std::size_t kCount = 4096;
  using L = Simd<T, kLanes>;
  const std::vector<T> x = arguments<T>(kCount);
  std::mt19937_64 random(12);
  std::vector<bits_t<T>> words(2 * kCount);
  for (auto& word : words) {
    word = static_cast<bits_t<T>>(random());
  }
  std::vector<T> want(kMathResults * kCount);
  for (std::size_t i = 0; i < kCount; i += kLanes) {
    bits_t<T> word[2][kLanes];
    for (std::size_t j = 0; j < 2 * kLanes; ++j) {
      word[j % 2][j / 2] = words[2 * i + j];
    }
    math_results(L::load(x.data() + i), bits_t<L>::load(word[0]), bits_t<L>::load(word[1]), [&](int result, L value) {
      value.store(want.data() + static_cast<std::size_t>(result) * kCount + i);
    });
  }
  for (const Schedule& schedule : all_schedules(1)) {
    SCOPED_TRACE(schedule);
    std::vector<T> got = poisoned<T>(want.size());
    const MathKernelParams<T> params{x.data(), words.data(), got.data(), kCount};
    host_launch("math_kernel", math_kernel<T>, dim3(kCount / 128), dim3(128), 0, schedule, params);
    for (std::size_t i = 0; i < want.size(); ++i) {
      const bool nan = std::isnan(want[i]) && std::isnan(got[i]);
      ASSERT_TRUE(nan || std::bit_cast<bits_t<T>>(want[i]) == std::bit_cast<bits_t<T>>(got[i]))
          << "result " << i / kCount << " at " << x[i % kCount] << ": " << got[i] << ", vectors " << want[i];
    }
  }
}

TEST(MathKernel, IsBitwiseTheVectorsOfFloat) {
  kernel_is_bitwise_the_vectors<float>();
}
TEST(MathKernel, IsBitwiseTheVectorsOfDouble) {
  kernel_is_bitwise_the_vectors<double>();
}

}  // namespace
}  // namespace torch_hrr::cuda_on_host
