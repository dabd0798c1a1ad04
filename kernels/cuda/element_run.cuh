// Several adjacent elements of a row in one load or store, where the address allows it.
#pragma once

#include "kernels/cuda/block.cuh"

namespace torch_hrr::kernels {

template <typename S, int kCount>
struct alignas(sizeof(S) * kCount < 16 ? sizeof(S) * kCount : 16) ElementRun {
  S elements[kCount];
};

template <typename S, int kCount>
KERNEL_DEVICE bool is_run_aligned(const S* row) {
  return reinterpret_cast<std::uintptr_t>(row) % alignof(ElementRun<S, kCount>) == 0;
}

// The first `size` elements from `source`, the others 0; in one load if the run is complete and its address `aligned`.
template <typename S, int kCount>
KERNEL_DEVICE ElementRun<S, kCount> load_run(const S* source, int size, bool aligned) {
  ElementRun<S, kCount> run{};
  if (aligned && size >= kCount) {
    run = *reinterpret_cast<const ElementRun<S, kCount>*>(source);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i < size) {
        run.elements[i] = source[i];
      }
    }
  }
  return run;
}

template <typename S, int kCount>
KERNEL_DEVICE void store_run(S* target, const ElementRun<S, kCount>& run, int size, bool aligned) {
  if (aligned && size >= kCount) {
    *reinterpret_cast<ElementRun<S, kCount>*>(target) = run;
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i < size) {
        target[i] = run.elements[i];
      }
    }
  }
}

}  // namespace torch_hrr::kernels
