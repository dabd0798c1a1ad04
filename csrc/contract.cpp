// Checks of out arguments.
#include "csrc/contract.h"

#include <ATen/MemoryOverlap.h>

#include <algorithm>

#include "csrc/overlap.h"

namespace torch_hrr {
namespace {

// The bytes from the first to the last element of a tensor, none of an empty or absent one; strides are never negative.
struct Bytes {
  const char* begin = nullptr;
  const char* end = nullptr;

  bool meet(const Bytes& other) const {
    return begin < other.end && other.begin < end;
  }
};
Bytes bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0) {
    return {};
  }
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    last += (tensor.size(d) - 1) * tensor.stride(d);
  }
  const auto* begin = static_cast<const char*>(tensor.const_data_ptr());
  return {begin, begin + (last + 1) * tensor.element_size()};
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

void check_overlap(const char* op, c10::ArrayRef<Argument> arguments, size_t written) {
  c10::SmallVector<Bytes, 8> bytes;
  for (size_t i = 0; i < arguments.size(); ++i) {
    bytes.push_back(bytes_of(arguments[i].tensor));
    TORCH_CHECK(i >= written || at::has_internal_overlap(arguments[i].tensor) != at::MemOverlap::Yes, op, ": ",
                arguments[i].name, " must not overlap itself, got an expanded tensor");
    for (size_t k = 0; k < std::min(i, written); ++k) {
      TORCH_CHECK(!bytes[k].meet(bytes[i]), op, ": ", arguments[k].name, " must not share memory with ",
                  arguments[i].name, ", got overlapping tensors");
    }
  }
}

void check_out(const char* op, const at::Tensor& out, const ResultContract<int64_t>& contract,
               c10::ArrayRef<Argument> inputs) {
  check_out_metadata(op, out, contract, inputs);
  c10::SmallVector<Argument, 5> arguments{{"out", out}};
  arguments.append(inputs.begin(), inputs.end());
  check_overlap(op, arguments, 1);
}

void check_out(const char* op, const at::Tensor& out, const ResultContract<c10::SymInt>& contract,
               c10::ArrayRef<Argument> inputs) {
  check_out_metadata(op, out, contract, inputs);
}

}  // namespace torch_hrr
