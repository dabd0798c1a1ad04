// What an operator returns (sizes and dtypes of its results, for every device and Meta), and the check of out
// arguments.
#pragma once

#include "csrc/checks.h"

namespace torch_hrr {

// Sizes and dtype of a result. An operator's contract is one of these for all of its results, or an array of them.
template <typename Int>
struct ResultContract {
  Sizes<Int> sizes;
  at::ScalarType dtype;
};

inline at::ScalarType promote(const at::Tensor& a, const at::Tensor& b) {
  return c10::promoteTypes(a.scalar_type(), b.scalar_type());
}

// Checks that `out` has exactly this shape, dtype and device and shares no memory with the inputs or itself.
void check_out(const char* op, const at::Tensor& out, const ResultContract<int64_t>& contract,
               c10::ArrayRef<Argument> inputs);
// The same for Meta: only shape and dtype.
void check_out(const char* op, const at::Tensor& out, const ResultContract<c10::SymInt>& contract,
               c10::ArrayRef<Argument> inputs);

}  // namespace torch_hrr
