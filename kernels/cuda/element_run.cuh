// Several neighbouring elements of a row in one load or store, where the address allows it.
#pragma once

#include "kernels/cuda/block.cuh"

namespace torch_hrr::kernels {

template <typename S, int kCount>
struct alignas(sizeof(S) * kCount < 16 ? sizeof(S) * kCount : 16) ElementRun {
  S elements[kCount];
};

template <typename S, int kCount>
HRR_DEVICE bool is_run_aligned(const S* row) {
  return reinterpret_cast<std::uintptr_t>(row) % alignof(ElementRun<S, kCount>) == 0;
}

}  // namespace torch_hrr::kernels
