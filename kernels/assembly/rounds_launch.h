// The CUDA entry point of rounds of brains. Plain C++: includes no CUDA header.
//
// All pointers of the state are device pointers; work is queued on the stream and nothing is synchronised or allocated,
// so a call can be captured in a graph. Failed launches throw std::runtime_error.
#pragma once

#include <cstdint>

#include "kernels/assembly/brain.h"
#include "kernels/assembly/connectome_launch.h"
#include "kernels/cuda/stream.h"

namespace torch_hrr::kernels {

// Rounds of a batch of brains. The arrays of areas, fibers and stimuli are on the host and hold the first brain's.
//
// A brain whose next round would need more chunks of edges than a fiber has, or more slots than an area has, stops
// before it. progress tells how many rounds are left; where these are some and no fiber needs more chunks than it has,
// slots were short.
struct RoundsLaunch {
  int64_t brains = 0;
  int64_t rounds = 0;  // that are queued
  const Area* areas = nullptr;
  int64_t area_count = 0;
  const Fiber* fibers = nullptr;
  const DeviceGapTables* gaps = nullptr;  // [fiber_count], without tables for a graph of the user's own
  int64_t fiber_count = 0;
  const Stimulus* stimuli = nullptr;
  int64_t stimulus_count = 0;
  int64_t* progress = nullptr;  // [brains, 1 + fiber_count]: rounds left, and chunks that each fiber needs
};

// The workspace is aligned to 16 bytes; nothing in it needs to be kept.
int64_t rounds_workspace_bytes(const RoundsLaunch& params);
void launch_rounds(const RoundsLaunch& params, void* workspace, CudaStream stream);

}  // namespace torch_hrr::kernels
