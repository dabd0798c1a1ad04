// Several steps of a field on the CPU, channel by channel: some channels at a time are copied out, each as a volume of
// its own that stays in the caches while it takes all its steps, and are then copied to the result.
//
// A volume is of the compute type and is rounded to storage at every step, so that the bits are those of single steps.
#pragma once

#include "kernels/field/evolve.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {

// Steps without noise of some channels of one item.
struct EvolveChannels : EvolveParams {
  // Planes kept of a step: the next one makes two at a time, from four.
  static constexpr int64_t kKept = 4;

  int64_t steps = 0;
  int64_t number_bytes = 0;  // of an element of the compute type
  int64_t item = 0;
  int64_t first_channel = 0;
  int64_t count = 0;        // channels: a multiple of group()
  void* volumes = nullptr;  // count * volume_elements() of the compute type

  // Channels that fill a line of memory.
  int64_t group() const {
    return 64 / number_bytes;
  }
  // A row of zeros is the last.
  int64_t plane_elements() const {
    return (height + 1) * width;
  }
  int64_t volume_elements() const {
    return depth * plane_elements();
  }
  // The most steps of a pass over a volume: what is kept of them fits in a second-level cache.
  int64_t most_steps() const {
    constexpr int64_t kCacheBytes = int64_t{1} << 19;
    constexpr int64_t kMost = 5;
    int64_t most = 1 + kCacheBytes / (kKept * plane_elements() * number_bytes);
    most = most < kMost ? most : kMost;
    // In a circle a pass goes around both ends by as many planes as it has steps.
    return boundary == Boundary::kCircular && depth < most ? depth : most;
  }
  int64_t passes() const {
    return (steps + most_steps() - 1) / most_steps();
  }
  // Whether this can be done, and caches hold what they are to hold.
  bool serves() const {
    constexpr int64_t kPlaces = 16;  // A line is cut into whole vectors.
    // A pass of one step would overwrite what it reads, and there is none where as many as three fit.
    constexpr int64_t kLeast = 3;
    constexpr int64_t kGroupBytes = int64_t{24} << 20;  // Volumes of a group stay in a last-level cache.
    return noise == 0 && part.margin == 0 && channels % group() == 0 && width % kPlaces == 0 && steps >= kLeast &&
           most_steps() >= kLeast && group() * volume_elements() * number_bytes <= kGroupBytes;
  }
};

struct EvolveChannelsKernels {
  // Whether this serves and is faster than single steps.
  bool (*pays)(const EvolveChannels&);
  RowKernel<EvolveChannels> gather;   // lines, from the field to the volumes
  RowKernel<EvolveChannels> evolve;   // channels
  RowKernel<EvolveChannels> scatter;  // lines, from the volumes to the result
};

}  // namespace torch_hrr::kernels
