// Checks of out arguments.
#include "csrc/hrr/contracts.h"

#include <ATen/MemoryOverlap.h>

namespace torch_hrr::hrr {
namespace {

template <typename Int>
void check_out_metadata(const char* op, const at::Tensor& out, const ResultContract<Int>& contract,
                        std::initializer_list<Argument> inputs) {
  check_floating(op, {*inputs.begin(), {"out", out}});
  TORCH_CHECK_TYPE(out.scalar_type() == contract.dtype, op, ": out must have dtype ", contract.dtype, ", got ",
                   out.scalar_type());
  const c10::ArrayRef<Int> sizes = sizes_of<Int>(out);
  bool same = sizes.size() == contract.sizes.size();
  for (size_t i = 0; same && i < sizes.size(); ++i) {
    same = equal(sizes[i], contract.sizes[i]);
  }
  TORCH_CHECK(same, op, ": out must have sizes ", c10::ArrayRef<Int>(contract.sizes), ", got ", sizes);
}

} // namespace

void check_out(const char* op, const at::Tensor& out, const ResultContract<int64_t>& contract,
               std::initializer_list<Argument> inputs) {
  check_out_metadata(op, out, contract, inputs);
  TORCH_CHECK(at::has_internal_overlap(out) != at::MemOverlap::Yes, op,
              ": out must not overlap itself, got an expanded tensor");
  for (const Argument& input : inputs) {
    if (input.tensor.defined()) {
      const at::MemOverlapStatus status = at::get_overlap_status(out, input.tensor);
      TORCH_CHECK(status == at::MemOverlapStatus::No || out.numel() == 0, op, ": out must not share memory with ",
                  input.name, ", got overlapping tensors");
    }
  }
}

void check_out(const char* op, const at::Tensor& out, const ResultContract<c10::SymInt>& contract,
               std::initializer_list<Argument> inputs) {
  check_out_metadata(op, out, contract, inputs);
}

} // namespace torch_hrr::hrr
