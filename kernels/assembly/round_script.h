// The script of a round, which three places walk: the CPU (rounds.cpp), a GPU launch by launch (launch_rounds.cuh) and
// a block of it (small_rounds.cuh).
//
// A place lists fibers(), targets() and stimuli() as it keeps them; fiber_of and area_of give their state. Its other
// functions are phases, done for every brain that runs. After barrier() a phase sees what those before it have written.
#pragma once

#include "kernels/assembly/brain.h"

// Which functions of a place exist on the host and which on a device is the place's to say.
#if defined(__CUDACC__)
#define KERNEL_SCRIPT _Pragma("nv_exec_check_disable")
#else
#define KERNEL_SCRIPT
#endif

namespace torch_hrr::kernels {

// What a place lists.
template <typename T>
struct Items {
  T* items = nullptr;
  int64_t count = 0;

  KERNEL_HOST_DEVICE T* begin() const {
    return items;
  }
  KERNEL_HOST_DEVICE T* end() const {
    return items + count;
  }
};

// Up to the inputs of all targets, or as far as the winners where the place selects them one target after the other.
KERNEL_SCRIPT
template <typename Place>
KERNEL_HOST_DEVICE void run_first_half(Place& place) {
  for (auto& fiber : place.fibers()) {
    // Columns that grew in the round before.
    if (place.fiber_of(fiber).sums != nullptr) {
      place.refresh_scales(fiber);
    }
  }
  place.barrier();
  for (auto& target : place.targets()) {
    // A fixed area keeps its winners.
    if (!place.area_of(target).fixed) {
      place.choose(target);
    }
  }
}

// From the new winners on. A brain whose new edges have no memory stops before this round, unchanged but for caches.
// False where none is left.
KERNEL_SCRIPT
template <typename Place>
KERNEL_HOST_DEVICE bool run_second_half(Place& place) {
  for (auto& target : place.targets()) {
    place.add_slots(target);
    place.barrier();
  }
  if (!place.search()) {
    return false;
  }
  for (auto& fiber : place.fibers()) {
    if (place.fiber_of(fiber).searches()) {
      place.barrier();
      place.file(fiber);
    }
  }
  place.barrier();
  for (auto& target : place.targets()) {
    for (auto& fiber : place.fibers()) {
      if (place.fiber_of(fiber).target == target.area && place.fiber_of(fiber).learns()) {
        place.potentiate_fiber(target, fiber);
      }
    }
    for (auto& stimulus : place.stimuli()) {
      if (stimulus.target == target.area && stimulus.learns()) {
        place.potentiate_stimulus(target, stimulus);
      }
    }
    if (place.area_of(target).last_win != nullptr) {
      place.age(target);
    }
  }
  place.barrier();
  for (auto& target : place.targets()) {
    if (!place.area_of(target).fixed) {
      place.commit(target);
    }
  }
  return true;
}

}  // namespace torch_hrr::kernels
