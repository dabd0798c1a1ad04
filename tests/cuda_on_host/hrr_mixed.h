// The tables of lengths that mixed_fft.cuh transforms, for tests of its kernels.
#pragma once

#include "tests/cuda_on_host/shim.h"

#include <vector>

#include "kernels/fft/mixed_plan.h"

namespace torch_hrr::kernels::hrr_testing {

// What csrc uploads for a length, in memory of exactly its size.
template <typename T>
class MixedTableOf {
 public:
  explicit MixedTableOf(int64_t dim) : memory_(mixed_table_bytes<T>(mixed_plan(dim))) {
    // operator new aligns as the head of a table needs.
    static_assert(alignof(MixedPlan) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    fill_mixed_table<T>(mixed_plan(dim), memory_.data());
  }
  const MixedPlan* plan() const {
    return reinterpret_cast<const MixedPlan*>(memory_.data());
  }

 private:
  std::vector<char> memory_;
};

}  // namespace torch_hrr::kernels::hrr_testing
