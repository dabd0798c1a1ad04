// Which kernels and blocks rotations take; `launch_kernel` as in kernels/hrr/launch_transform.cuh.
#pragma once

#include "kernels/encoding/launch_sinusoid.cuh"
#include "kernels/encoding/rotation.cuh"

namespace torch_hrr::kernels {

template <typename Angles, typename LaunchKernel>
void launch_rotation_slice(Storage storage, RotationParams params, const FrequencySlice& slice, const Angles& angles,
                           const LaunchKernel& launch_kernel, int64_t most_threads) {
  const auto launch_layout = [&](auto zero, auto halves, auto pairs, auto interleaved) {
    using T = decltype(zero);
    constexpr int kPairs = decltype(pairs)::value;
    constexpr bool kInterleaved = decltype(interleaved)::value;
    const int64_t groups = RotationGroups<kPairs, kInterleaved>(params, slice).all;
    if (groups == 0) {
      return;
    }
    // Repeats are parted where there are too few places for all threads.
    const int64_t parts = std::clamp<int64_t>(most_threads / (groups * params.place_count), 1, params.repeat_count);
    params.repeats_together = (params.repeat_count + parts - 1) / parts;
    launch_kernel("rotate", rotation_kernel<T, decltype(halves)::value, kPairs, kInterleaved, Angles>,
                  grid_for(groups * params.units(), kSinusoidThreads), dim3(kSinusoidThreads), std::size_t{0}, params,
                  storage, slice, angles);
  };
  const auto launch_type = [&](auto zero, auto halves, auto pairs) {
    if (params.interleaved) {
      launch_layout(zero, halves, pairs, std::true_type{});
    } else {
      launch_layout(zero, halves, pairs, std::false_type{});
    }
  };
  // A warp reads whole sectors, with registers left for others to hide the latency.
  if (storage == Storage::kDouble) {
    launch_type(double{}, std::false_type{}, std::integral_constant<int, 1>{});
  } else if (storage == Storage::kFloat) {
    launch_type(float{}, std::false_type{}, std::integral_constant<int, 2>{});
  } else {
    launch_type(float{}, std::true_type{}, std::integral_constant<int, 4>{});
  }
}

// A call with zero rows launches nothing. turns: arrays on the host. Parts of any size give the same bits.
template <typename LaunchKernel>
void launch_rotation_with(Storage storage, const RotationParams& params, const TurnArrays& turns,
                          const LaunchKernel& launch_kernel, int64_t most_threads = kMostSinusoidThreads) {
  if (params.units() != 0) {
    for_ladder_slices(params.frequencies(), turns, [&](const FrequencySlice& slice, const auto& angles) {
      launch_rotation_slice(storage, params, slice, angles, launch_kernel, most_threads);
    });
  }
}
template <typename LaunchKernel>
void launch_rotation_with(Storage storage, const RotationParams& params, const HeldFrequencies& held,
                          const LaunchKernel& launch_kernel, int64_t most_threads = kMostSinusoidThreads) {
  if (params.units() != 0) {
    launch_rotation_slice(storage, params, {0, params.frequencies()}, HeldAngles{held}, launch_kernel, most_threads);
  }
}

}  // namespace torch_hrr::kernels
