// Which kernels and blocks sinusoids take; `launch_kernel` as in kernels/hrr/launch_transform.cuh.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "kernels/encoding/sinusoid.cuh"

namespace torch_hrr::kernels {

// Half of what the largest GPUs hold at once: enough to hide latency, and a thread that has several rows prepares less.
constexpr int64_t kMostSinusoidThreads = int64_t{1} << 17;

// Frequencies that a launch's parameters have room for: most encodings have few. Longer rows take several launches.
constexpr int kFewTurns = 192;
constexpr int kManyTurns = kMaxParameterBytes > 4096 ? 1536 : kFewTurns;

// A held frequency becomes turns in each thread that uses it: worth it for some rows.
constexpr int64_t kLeastRowsOfHeld = 8;

// Threads for rows of so many groups of columns, each thread with at least `least_rows` where there are as many.
inline dim3 sinusoid_grid(int64_t groups, int64_t rows, int64_t least_rows, int64_t most_threads) {
  const int64_t most_rows = (rows + least_rows - 1) / least_rows;
  return grid_for(groups * std::clamp<int64_t>(most_threads / groups, 1, most_rows), kSinusoidThreads);
}

template <typename Angles, typename Finish, typename LaunchKernel>
void launch_sinusoid_slice(const char* name, Storage storage, const SinusoidParams& params, const FrequencySlice& slice,
                           const Angles& angles, const Finish& finish, const LaunchKernel& launch_kernel,
                           int64_t most_threads) {
  const auto launch_runs = [&](auto zero, auto elements, auto interleaved) {
    using T = decltype(zero);
    constexpr int kElements = decltype(elements)::value;
    constexpr bool kInterleaved = decltype(interleaved)::value;
    constexpr int64_t kPairs = kInterleaved ? kElements / 2 : kElements;
    const int64_t groups = (slice.count + kPairs - 1) / kPairs;
    constexpr int64_t kLeastRows = std::is_same_v<Angles, HeldAngles> ? kLeastRowsOfHeld : 1;
    launch_kernel(name, sinusoid_kernel<T, kElements, kInterleaved, Angles, Finish>,
                  sinusoid_grid(groups, params.rows, kLeastRows, most_threads), dim3(kSinusoidThreads), std::size_t{0},
                  params, storage, slice, angles, finish);
  };
  const auto launch_layout = [&](auto zero, auto elements) {
    if (params.interleaved) {
      launch_runs(zero, elements, std::true_type{});
    } else {
      launch_runs(zero, elements, std::false_type{});
    }
  };
  if (storage == Storage::kDouble) {
    launch_layout(double{}, std::integral_constant<int, 2>{});
  } else if (storage == Storage::kFloat) {
    launch_layout(float{}, std::integral_constant<int, 4>{});
  } else {
    launch_layout(float{}, std::integral_constant<int, 8>{});
  }
}

// launch_slice(slice, angles) for as many frequencies of a host's arrays at a time as parameters have room for; once
// where there are none.
template <int kCapacity, typename LaunchSlice>
void for_ladder_slices(int64_t count, const TurnArrays& turns, const LaunchSlice& launch_slice) {
  int64_t first = 0;
  do {
    const FrequencySlice slice{first, std::min<int64_t>(kCapacity, count - first)};
    LadderAngles<kCapacity> angles{count > 0 ? turns.offset[0] : 0, {}};
    for (int64_t i = 0; i < slice.count; ++i) {
      angles.turns[i] = {turns.fraction[first + i], turns.whole[first + i]};
    }
    launch_slice(slice, angles);
    first += kCapacity;
  } while (first < count);
}
template <typename LaunchSlice>
void for_ladder_slices(int64_t count, const TurnArrays& turns, const LaunchSlice& launch_slice) {
  if (count <= kFewTurns) {
    for_ladder_slices<kFewTurns>(count, turns, launch_slice);
  } else {
    for_ladder_slices<kManyTurns>(count, turns, launch_slice);
  }
}

template <typename Finish, typename LaunchKernel>
void launch_ladder(const char* name, Storage storage, const SinusoidParams& params, const TurnArrays& turns,
                   const Finish& finish, const LaunchKernel& launch_kernel, int64_t most_threads) {
  if (params.rows != 0 && params.dim != 0) {
    for_ladder_slices(params.frequencies(), turns, [&](const FrequencySlice& slice, const auto& angles) {
      launch_sinusoid_slice(name, storage, params, slice, angles, finish, launch_kernel, most_threads);
    });
  }
}

// turns: arrays on the host with one offset for all. Grids of any size give the same bits.
template <typename LaunchKernel>
void launch_sinusoids_with(Storage storage, const SinusoidParams& params, const TurnArrays& turns,
                           const LaunchKernel& launch_kernel, int64_t most_threads = kMostSinusoidThreads) {
  launch_ladder("sinusoidal_encoding", storage, params, turns, PlainRows{}, launch_kernel, most_threads);
}
template <typename LaunchKernel>
void launch_sinusoids_with(Storage storage, const SinusoidParams& params, const HeldFrequencies& held,
                           const LaunchKernel& launch_kernel, int64_t most_threads = kMostSinusoidThreads) {
  if (params.rows != 0 && params.dim != 0) {
    launch_sinusoid_slice("sinusoidal_features", storage, params, {0, params.frequencies()}, HeldAngles{held},
                          PlainRows{}, launch_kernel, most_threads);
  }
}
template <typename LaunchKernel>
void launch_sinusoids_with(Storage storage, const TableParams& params, const TurnArrays& turns,
                           const LaunchKernel& launch_kernel, int64_t most_threads = kMostSinusoidThreads) {
  launch_ladder("embed_positions", storage, params.sinusoid, turns, TableRows{params}, launch_kernel, most_threads);
}

template <typename LaunchKernel>
void launch_angle_gradient_with(const AngleGradientParams& params, const HeldFrequencies& held,
                                const LaunchKernel& launch_kernel, int64_t most_threads = kMostSinusoidThreads) {
  const SinusoidParams& sinusoid = params.sinusoid;
  if (sinusoid.rows == 0 || sinusoid.dim == 0) {
    return;
  }
  const int64_t groups = (sinusoid.dim / 2 + kGradientPairs - 1) / kGradientPairs;
  const dim3 grid = sinusoid_grid(groups, sinusoid.rows, kLeastRowsOfHeld, most_threads);
  const auto launch_type = [&](auto zero) {
    using T = decltype(zero);
    launch_kernel("_sinusoidal_features_backward",
                  sinusoid.interleaved ? angle_gradient_kernel<T, true> : angle_gradient_kernel<T, false>, grid,
                  dim3(kSinusoidThreads), std::size_t{0}, params, HeldAngles{held});
  };
  params.grad_storage == Storage::kDouble ? launch_type(double{}) : launch_type(float{});
}

}  // namespace torch_hrr::kernels
