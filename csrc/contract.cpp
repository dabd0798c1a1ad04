// Checks of out arguments.
#include "csrc/contract.h"

#include <ATen/MemoryOverlap.h>

#include <utility>

#include "csrc/overlap.h"

namespace torch_hrr {
namespace {

// Whether the bytes from the first to the last element of two tensors meet; strides are never negative.
bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) {
    return false;
  }
  const auto bytes = [](const at::Tensor& tensor) {
    int64_t last = 0;
    for (int64_t d = 0; d < tensor.dim(); ++d) {
      last += (tensor.size(d) - 1) * tensor.stride(d);
    }
    const auto* first = static_cast<const char*>(tensor.const_data_ptr());
    return std::pair(first, first + (last + 1) * tensor.element_size());
  };
  const auto [begin_a, end_a] = bytes(a);
  const auto [begin_b, end_b] = bytes(b);
  return begin_a < end_b && begin_b < end_a;
}

template <typename Int>
void check_out_metadata(const char* op, const at::Tensor& out, const ResultContract<Int>& contract,
                        c10::ArrayRef<Argument> inputs) {
  check_floating(op, {{"out", out}});
  check_same_device(op, inputs.front(), {"out", out});
  TORCH_CHECK_TYPE(out.scalar_type() == contract.dtype, op, ": out must have dtype ", contract.dtype, ", got ",
                   out.scalar_type());
  const c10::ArrayRef<Int> sizes = sizes_of<Int>(out);
  TORCH_CHECK_VALUE(same_sizes<Int>(sizes, contract.sizes), op, ": out must have sizes ",
                    c10::ArrayRef<Int>(contract.sizes), ", got ", sizes);
}

}  // namespace

void check_overlap(const char* op, const Argument& written, c10::ArrayRef<Argument> inputs) {
  TORCH_CHECK(at::has_internal_overlap(written.tensor) != at::MemOverlap::Yes, op, ": ", written.name,
              " must not overlap itself, got an expanded tensor");
  for (const Argument& input : inputs) {
    if (input.tensor.defined()) {
      TORCH_CHECK(!share_memory(written.tensor, input.tensor), op, ": ", written.name, " must not share memory with ",
                  input.name, ", got overlapping tensors");
    }
  }
}

void check_out(const char* op, const at::Tensor& out, const ResultContract<int64_t>& contract,
               c10::ArrayRef<Argument> inputs) {
  check_out_metadata(op, out, contract, inputs);
  check_overlap(op, {"out", out}, inputs);
}

void check_out(const char* op, const at::Tensor& out, const ResultContract<c10::SymInt>& contract,
               c10::ArrayRef<Argument> inputs) {
  check_out_metadata(op, out, contract, inputs);
}

}  // namespace torch_hrr
