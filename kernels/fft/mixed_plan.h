// The transforms of mixed_fft.cuh: which rows they take, their stages and the tables they read. Plain C++, computed on
// the host.
//
// A row of D = 2M elements is read as M complex points, one of odd length as D points with imaginary part 0. The N
// points stay in shared memory and every stage works in place: the forward transform takes them from their natural
// order to that of their digits reversed, the inverse back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "kernels/fft/roots.h"
#include "kernels/fft/row_shape.h"
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
  int32_t swizzled;  // whether points lie at mixed_place
  MixedStage stage[kMaxMixedStages];
};

constexpr bool is_mixed_plan_for(int64_t dim) {
  const int64_t points = dim % 2 == 0 ? dim / 2 : dim;
  return dim > 0 && points <= kMaxMixedPoints && is_smooth(points);
}

// The order of the radices decides which banks of shared memory a stage meets. The last stages take points that lie
// close together: with an odd radix last they meet most banks as they are. Where N is a multiple of 8, odd radices come
// first and the points of the last ones are moved within runs of 128 bytes.
inline MixedPlan mixed_plan(int64_t dim) {
  MixedPlan plan{};
  plan.dim = static_cast<int32_t>(dim);
  if (!is_mixed_plan_for(dim)) {
    return plan;
  }
  plan.points = static_cast<int32_t>(dim % 2 == 0 ? dim / 2 : dim);
  plan.swizzled = plan.points % 8 == 0;
  int32_t rest = plan.points;
  const auto add = [&](int radix) {
    rest /= radix;
    plan.stage[plan.stages++] = {radix, rest, static_cast<uint32_t>(((int64_t{1} << 31) + rest - 1) / rest)};
  };
  const auto add_odd = [&](std::initializer_list<int> primes) {
    for (const int prime : primes) {
      while (rest % prime == 0) {
        add(prime);
      }
    }
  };
  if (plan.swizzled) {
    add_odd({13, 11, 7, 5, 3});
  }
  int twos = 0;
  while ((plan.points >> twos) % 2 == 0) {
    ++twos;
  }
  // As few stages as may be: 2^4 is 2 8, 2^7 is 4 4 8.
  for (; twos % 3 == 2 || (twos % 3 == 1 && twos >= 7); twos -= 2) {
    add(4);
  }
  if (twos % 3 == 1) {
    add(2);
    --twos;
  }
  for (; twos > 0; twos -= 3) {
    add(8);
  }
  add_odd({3, 5, 7, 11, 13});
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

// Where the mirror image N - k of the bin at `place` lies. In the blocks of bins k = m (mod radix) with m > 0 all
// further digits of N - k are those of k from the other end, so that these blocks together are mirrored in place; the
// block of m = 0 is the spectrum of a shorter row.
KERNEL_HOST_DEVICE int mixed_mirror(const MixedPlan* plan, int place) {
  if (place == 0) {
    return 0;
  }
  int length = plan->points;
  int span = plan->stage[0].span;
  for (int s = 1; place < span; ++s) {
    length = span;
    span = plan->stage[s].span;
  }
  return length + span - 1 - place;
}

// The arrays of a table. Of the stage whose blocks have L = radix span points: the roots e^{-2 pi i p m / L} at
// roots[N - L + (m - 1) span + p], p < span, 0 < m < radix. Of rows of even length: e^{-2 pi i k / D} at halves[place
// of bin k]. The place of bin k at positions[k].
constexpr std::size_t mixed_halves(const MixedPlan& plan) {
  return plan.dim % 2 == 0 ? static_cast<std::size_t>(plan.points) : 0;
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
        positions(reinterpret_cast<const uint16_t*>(halves + (plan->dim % 2 == 0 ? plan->points : 0))) {}
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
  for (int k = 0; k < plan.points; ++k) {
    const int position = mixed_position(plan, k);
    const_cast<uint16_t*>(table.positions)[k] = static_cast<uint16_t>(position);
    if (plan.dim % 2 == 0) {
      const_cast<TwiddlePoint<T>*>(table.halves)[position] = rounded(root_of_unity(k, plan.dim));
    }
  }
}

// Point n lies at mixed_place(n): a warp's access to shared memory meets more banks in each of its phases of 128 bytes.
// n -> n ^ (n / (kMixedPhase / 2) mod kMixedPhase) is one to one on the runs of as many points as a phase has.
template <typename T>
constexpr int kMixedPhase = 128 / sizeof(TwiddlePoint<T>);
template <typename T>
constexpr KERNEL_HOST_DEVICE int mixed_mask(const MixedPlan* plan) {
  return plan->swizzled ? kMixedPhase<T> - 1 : 0;
}
template <typename T>
constexpr KERNEL_HOST_DEVICE int mixed_place(int n, int mask) {
  return n ^ (n / (kMixedPhase<T> / 2) & mask);
}

template <typename T>
constexpr KERNEL_HOST_DEVICE int mixed_buffer_points(int points) {
  return (points + kMixedPhase<T> - 1) / kMixedPhase<T> * kMixedPhase<T>;
}
template <typename T>
constexpr int kMixedThreads = sizeof(T) == 4 ? kMaxMixedThreads : 384;

template <typename T>
constexpr int mixed_threads(const MixedPlan& plan) {
  const int threads = (plan.points + 255) / 256 * 32;
  return threads < kMixedThreads<T> ? threads : kMixedThreads<T>;
}
template <typename T>
constexpr std::size_t mixed_shared_bytes(const MixedPlan& plan, int buffers) {
  return static_cast<std::size_t>(buffers) * static_cast<std::size_t>(mixed_buffer_points<T>(plan.points)) *
             sizeof(TwiddlePoint<T>) +
         kMaxMixedThreads / 32 * sizeof(T);
}

}  // namespace torch_hrr::kernels
