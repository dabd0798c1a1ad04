// The transforms of mixed_fft.cuh: which rows they take, their stages and the tables they read. Plain C++, computed on
// the host.
//
// A row of D = 2M elements is read as M complex points, one of odd length as D points with imaginary part 0. The N
// points stay in shared memory and every stage works in place: the forward transform takes them from their natural
// order to that of their digits reversed, the inverse back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/fft/roots.h"
#include "kernels/fft/twiddles.h"

namespace torch_hrr::kernels {

constexpr int kMaxMixedStages = 12;
constexpr int64_t kMaxMixedPoints = int64_t{1} << 14;
constexpr int kMaxMixedThreads = 768;

// Stage: N / radix butterflies on the points first + j span, first = q div span * span radix + q mod span.
struct MixedStage {
  int32_t radix;
  int32_t span;
  uint32_t reciprocal;  // ceil(2^31 / span): q div span = q reciprocal div 2^31, as N < 2^15
};

// What a kernel reads of a length: the head of its table, before the arrays of MixedTable.
struct alignas(16) MixedPlan {
  int32_t dim;
  int32_t points;  // N; 0 for rows that these transforms do not take
  int32_t stages;
  MixedStage stage[kMaxMixedStages];
};

constexpr bool is_mixed_plan_for(int64_t dim) {
  int64_t points = dim % 2 == 0 ? dim / 2 : dim;
  if (dim < 1 || points > kMaxMixedPoints) {
    return false;
  }
  for (const int prime : {2, 3, 5, 7, 11, 13}) {
    while (points % prime == 0) {
      points /= prime;
    }
  }
  return points == 1;
}

// Powers of two come first, few and at most 8; the odd radices of the last stages, whose points lie close together,
// meet every bank of shared memory.
inline MixedPlan mixed_plan(int64_t dim) {
  MixedPlan plan{};
  plan.dim = static_cast<int32_t>(dim);
  if (!is_mixed_plan_for(dim)) {
    return plan;
  }
  plan.points = static_cast<int32_t>(dim % 2 == 0 ? dim / 2 : dim);
  int32_t rest = plan.points;
  const auto add = [&](int radix) {
    rest /= radix;
    plan.stage[plan.stages++] = {radix, rest, static_cast<uint32_t>(((int64_t{1} << 31) + rest - 1) / rest)};
  };
  int32_t twos = 0;
  while ((plan.points >> twos) % 2 == 0) {
    ++twos;
  }
  for (; twos > 4 || twos == 3; twos -= 3) {
    add(8);
  }
  for (; twos >= 2; twos -= 2) {
    add(4);
  }
  if (twos == 1) {
    add(2);
  }
  for (const int prime : {3, 5, 7, 11, 13}) {
    while (rest % prime == 0) {
      add(prime);
    }
  }
  return plan;
}

// Where bin k lies after a forward transform.
inline int mixed_position(const MixedPlan& plan, int k) {
  int position = 0;
  for (int s = 0; s < plan.stages; ++s) {
    position += k % plan.stage[s].radix * plan.stage[s].span;
    k /= plan.stage[s].radix;
  }
  return position;
}

// The arrays of a table. Of the stage whose blocks have L = radix span points: the roots e^{-2 pi i p m / L} at
// roots[N - L + (m - 1) span + p], p < span, 0 < m < radix. Of rows of even length: e^{-2 pi i k / D} at halves[k],
// k <= N / 2. The place of bin k at positions[k].
constexpr std::size_t mixed_halves(const MixedPlan& plan) {
  return plan.dim % 2 == 0 ? static_cast<std::size_t>(plan.points / 2 + 1) : 0;
}
template <typename T>
constexpr std::size_t mixed_table_bytes(const MixedPlan& plan) {
  const std::size_t points = static_cast<std::size_t>(plan.points);
  return sizeof(MixedPlan) + (points + mixed_halves(plan)) * sizeof(TwiddlePoint<T>) + points * sizeof(uint16_t);
}

template <typename T>
struct MixedTable {
  const TwiddlePoint<T>* roots;
  const TwiddlePoint<T>* halves;
  const uint16_t* positions;

  KERNEL_HOST_DEVICE explicit MixedTable(const MixedPlan* plan)
      : roots(reinterpret_cast<const TwiddlePoint<T>*>(plan + 1)),
        halves(roots + plan->points),
        positions(reinterpret_cast<const uint16_t*>(halves + (plan->dim % 2 == 0 ? plan->points / 2 + 1 : 0))) {}
};

template <typename T>
void fill_mixed_table(const MixedPlan& plan, void* memory) {
  MixedPlan* const head = static_cast<MixedPlan*>(memory);
  *head = plan;
  const MixedTable<T> table(head);
  const auto rounded = [](const Complex<double>& root) {
    return TwiddlePoint<T>{static_cast<T>(root.re), static_cast<T>(root.im)};
  };
  auto* root = const_cast<TwiddlePoint<T>*>(table.roots);
  for (int s = 0; s < plan.stages; ++s) {
    const int span = plan.stage[s].span;
    for (int m = 1; m < plan.stage[s].radix; ++m) {
      for (int p = 0; p < span; ++p) {
        *root++ = rounded(root_of_unity(int64_t{p} * m, int64_t{span} * plan.stage[s].radix));
      }
    }
  }
  *root = {T{1}, T{0}};
  for (std::size_t k = 0; k < mixed_halves(plan); ++k) {
    const_cast<TwiddlePoint<T>*>(table.halves)[k] = rounded(root_of_unity(static_cast<int64_t>(k), plan.dim));
  }
  for (int k = 0; k < plan.points; ++k) {
    const_cast<uint16_t*>(table.positions)[k] = static_cast<uint16_t>(mixed_position(plan, k));
  }
}

// Point n lies at mixed_place(n): steps of powers of two would meet few banks.
constexpr int mixed_place(int n) {
  return n + n / 32;
}

// A block has one row: about eight points a thread, in float at most as many threads as leave 80 registers each, in
// double 168; and as many buffers as its kernel asks for.
template <typename T>
constexpr int kMixedThreads = sizeof(T) == 4 ? kMaxMixedThreads : 384;

template <typename T>
constexpr int mixed_threads(const MixedPlan& plan) {
  const int threads = (plan.points + 255) / 256 * 32;
  return threads < kMixedThreads<T> ? threads : kMixedThreads<T>;
}
template <typename T>
constexpr std::size_t mixed_shared_bytes(const MixedPlan& plan, int buffers) {
  return static_cast<std::size_t>(buffers) * static_cast<std::size_t>(mixed_place(plan.points) + 1) *
             sizeof(TwiddlePoint<T>) +
         kMaxMixedThreads / 32 * sizeof(T);
}

}  // namespace torch_hrr::kernels
