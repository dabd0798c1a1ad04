// Turns of frequencies as the CPU's kernels take them, and comparisons of rows, for the tests of encodings.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/encoding/frequency_ladder.h"
#include "kernels/encoding/sinusoid.h"
#include "kernels/registry.h"
#include "tests/cuda_on_host/run_on_cpu.h"
#include "tests/cuda_on_host/storage_of.h"

namespace torch_hrr::cuda_on_host {

using namespace torch_hrr::kernels;

// The CPU's arrays of turns.
struct Turns {
  std::vector<uint64_t> numbers;
  std::vector<uint8_t> finite;
  int64_t padded;

  explicit Turns(int64_t count)
      : numbers(static_cast<size_t>(3 * padded_frequencies(count))),
        finite(numbers.size(), 1),
        padded(padded_frequencies(count)) {}
  void set(int64_t i, FixedPoint turn, uint64_t offset) {
    numbers[static_cast<size_t>(i)] = turn.fraction;
    numbers[static_cast<size_t>(padded + i)] = turn.whole;
    numbers[static_cast<size_t>(2 * padded + i)] = offset;
  }
  TurnArrays arrays(bool all_finite = true) const {
    return {numbers.data(), numbers.data() + padded, numbers.data() + 2 * padded, all_finite ? nullptr : finite.data()};
  }
};

inline Turns ladder(int64_t dim, double scale = 1, double phase = 0.7) {
  const std::vector<FixedPoint> turns = frequency_ladder(dim, 10000, scale);
  Turns all(static_cast<int64_t>(turns.size()));
  for (size_t i = 0; i < turns.size(); ++i) {
    all.set(static_cast<int64_t>(i), turns[i], turns_of(phase).fraction);
  }
  return all;
}

// S chooses the kernel.
template <typename S, typename Params>
void run_on_cpu(const Params& params, int64_t rows, const TurnArrays& turns) {
  const WithTurns<Params> all{params, turns};
  run_rows_on_cpu(kernel_table<RowKernel<WithTurns<Params>>>(kStorage<S>), all, rows);
}

template <typename S>
void expect_same_bits(const std::vector<S>& gpu, const std::vector<S>& cpu, int64_t dim) {
  ASSERT_EQ(gpu.size(), cpu.size());
  for (size_t i = 0; i < gpu.size(); ++i) {
    const auto a = static_cast<double>(gpu[i]);
    const auto b = static_cast<double>(cpu[i]);
    // The payload of a NaN is not promised.
    ASSERT_TRUE(std::memcmp(&gpu[i], &cpu[i], sizeof(S)) == 0 || (std::isnan(a) && std::isnan(b)))
        << "row " << i / static_cast<size_t>(dim) << " column " << i % static_cast<size_t>(dim) << ": " << a << " and "
        << b;
  }
}

}  // namespace torch_hrr::cuda_on_host
