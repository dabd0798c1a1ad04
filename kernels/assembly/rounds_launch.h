// Rounds of brains on a GPU: parameters.
#pragma once

#include <cstdint>

#include "kernels/assembly/brain.h"
#include "kernels/assembly/connectome_launch.h"
#include "kernels/cuda/call.h"

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

// Nothing in the workspace needs to be kept.
int64_t workspace_bytes(Storage storage, const RoundsLaunch& params);
void queue(const CudaCall& call, const RoundsLaunch& params);

}  // namespace torch_hrr::kernels
