// The kernel that turns rows by their positions: a thread makes the sines and cosines of its columns at a place once
// and turns a part of the rows there. Each row is read and written once.
#pragma once

#include "kernels/encoding/rotation.h"
#include "kernels/encoding/sinusoid.cuh"

namespace torch_hrr::kernels {

// body(S{}) with the type in which rows are stored: T, or with kHalves one of two bytes.
template <typename T, bool kHalves, typename Body>
KERNEL_DEVICE void with_row_type(Storage storage, const Body& body) {
  if constexpr (!kHalves) {
    body(T{});
  } else if (storage == Storage::kHalf) {
    body(Half{});
  } else {
    body(BFloat16{});
  }
}

// Threads that make a row: for `count` pairs from the slice, then, in the first slice, for the elements to be copied.
template <int kPairs, bool kInterleaved>
struct RotationGroups {
  // In a load or a store.
  static constexpr int kElements = kInterleaved ? 2 * kPairs : kPairs;
  int64_t of_pairs;
  int64_t all;

  KERNEL_HOST_DEVICE RotationGroups(const RotationParams& params, const FrequencySlice& slice) {
    of_pairs = (slice.count + kPairs - 1) / kPairs;
    const int64_t copied = slice.first == 0 && params.x != params.out ? params.dim - params.turned : 0;
    all = of_pairs + (copied + kElements - 1) / kElements;
  }
};

// Rows that a thread loads before it stores any, to have more loads under way.
constexpr int kRowsInFlight = 2;

// T: in which rows are computed.
template <typename T, bool kHalves, int kPairs, bool kInterleaved, typename Angles>
__global__ void __launch_bounds__(kSinusoidThreads)
    rotation_kernel(RotationParams params, Storage storage, FrequencySlice slice, Angles angles) {
  using Groups = RotationGroups<kPairs, kInterleaved>;
  constexpr int kElements = Groups::kElements;
  const Groups groups(params, slice);
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * block_threads() + thread_rank();
  const int64_t unit = quotient(thread, groups.all);
  if (unit >= params.units()) {
    return;
  }
  const int64_t group = thread - unit * groups.all;
  const int64_t part = quotient(unit, params.place_count);
  const RowPlace place = row_place(params.places, unit - part * params.place_count);
  const int64_t last = (part + 1) * params.repeats_together;
  const int64_t end = last < params.repeat_count ? last : params.repeat_count;

  // Moves `count` elements of each row from `column` on and, with two runs, from `step` further on; turn(runs) changes
  // them in between.
  const auto move_rows = [&](auto run_count, int64_t column, int64_t step, int count, const auto& turn) {
    constexpr int kRuns = decltype(run_count)::value;
    with_row_type<T, kHalves>(storage, [&](auto zero) {
      using S = decltype(zero);
      using Run = ElementRun<S, kElements>;
      const S* const x = static_cast<const S*>(params.x) + place.x + column;
      S* const out = static_cast<S*>(params.out) + place.out + column;
      for (int64_t r = part * params.repeats_together; r < end; r += kRowsInFlight) {
        Run runs[kRowsInFlight][kRuns];
        RowPlace repeats[kRowsInFlight];
#pragma unroll
        for (int i = 0; i < kRowsInFlight; ++i) {
          if (r + i < end) {
            repeats[i] = row_place(params.repeats, r + i);
#pragma unroll
            for (int run = 0; run < kRuns; ++run) {
              const S* const source = x + repeats[i].x + run * step;
              runs[i][run] = load_run<S, kElements>(source, count, is_run_aligned<S, kElements>(source));
            }
          }
        }
#pragma unroll
        for (int i = 0; i < kRowsInFlight; ++i) {
          if (r + i < end) {
            turn(runs[i]);
#pragma unroll
            for (int run = 0; run < kRuns; ++run) {
              S* const target = out + repeats[i].out + run * step;
              store_run(target, runs[i][run], count, is_run_aligned<S, kElements>(target));
            }
          }
        }
      }
    });
  };

  constexpr std::integral_constant<int, 1> one_run;
  if (group >= groups.of_pairs) {
    const int64_t column = params.turned + (group - groups.of_pairs) * kElements;
    const int64_t left = params.dim - column;
    return move_rows(one_run, column, 0, static_cast<int>(left < kElements ? left : kElements), [](const auto&) {});
  }
  const int64_t begin = group * kPairs;
  const int64_t left = slice.count - begin;
  const auto size = static_cast<int>(left < kPairs ? left : kPairs);
  Angle columns[kPairs];
  angles.load(begin, size, columns);
  const LoadedPosition position = load_position(params.positions, place.position);
  SineCosine<T> waves[kPairs];
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    waves[j] = turning<T>(params, sine_cosine_at<T>(position, columns[j]));
  }
  const int64_t pair = slice.first + begin;
  const auto turn_pair = [&](int j, auto& first, auto& second) {
    using S = std::remove_reference_t<decltype(first)>;
    const auto turned = turned_pair<T>({static_cast<T>(first), static_cast<T>(second)}, waves[j]);
    first = static_cast<S>(turned.sine);
    second = static_cast<S>(turned.cosine);
  };
  if constexpr (kInterleaved) {
    move_rows(one_run, 2 * pair, 0, 2 * size, [&](auto& runs) {
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        turn_pair(j, runs[0].elements[2 * j], runs[0].elements[2 * j + 1]);
      }
    });
  } else {
    move_rows(std::integral_constant<int, 2>{}, pair, params.frequencies(), size, [&](auto& runs) {
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        turn_pair(j, runs[0].elements[j], runs[1].elements[j]);
      }
    });
  }
}

}  // namespace torch_hrr::kernels
