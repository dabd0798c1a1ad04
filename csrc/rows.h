// From tensors to rows: broadcasting maps, scratch memory and threads for the CPU kernels.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <algorithm>
#include <array>

#include "csrc/checks.h"
#include "kernels/rows.h"
#include "kernels/storage.h"

namespace torch_hrr {

// The tensor in `dtype` with unit stride in its last dimension; itself where it is so already.
inline at::Tensor with_unit_rows(const at::Tensor& tensor, at::ScalarType dtype) {
  const at::Tensor typed = tensor.scalar_type() == dtype ? tensor : tensor.to(dtype);
  return typed.size(-1) <= 1 || typed.stride(-1) == 1 ? typed : typed.contiguous();
}

inline kernels::Storage storage_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return kernels::Storage::kDouble;
    case at::kHalf:
      return kernels::Storage::kHalf;
    case at::kBFloat16:
      return kernels::Storage::kBFloat16;
    default:
      return kernels::Storage::kFloat;
  }
}

// An operand of a row map: its leading dimensions end `trailing` dimensions before its last one.
struct RowOperand {
  const at::Tensor* tensor;
  int64_t trailing;
};

// Collapses the leading dimensions `sizes` of the operands into a row map; false if more than kMaxRowDims are left.
template <size_t N>
bool make_row_map(c10::ArrayRef<int64_t> sizes, const std::array<RowOperand, N>& operands, kernels::RowMap& map) {
  static_assert(N <= kernels::kMaxOperands);
  map.ndim = 0;
  const auto rank = static_cast<int64_t>(sizes.size());
  for (int64_t d = 0; d < rank; ++d) {
    if (sizes[static_cast<size_t>(d)] == 1) {
      continue;
    }
    std::array<int64_t, N> strides{};
    for (size_t i = 0; i < N; ++i) {
      if (operands[i].tensor == nullptr) {
        continue;
      }
      const at::Tensor& tensor = *operands[i].tensor;
      const int64_t own = d - (rank - (tensor.dim() - operands[i].trailing));
      strides[i] = own < 0 || tensor.size(own) == 1 ? 0 : tensor.stride(own);
    }
    // The previous dimension continues this one if, for every operand, one step there equals a full run here.
    bool joins = map.ndim > 0;
    for (size_t i = 0; joins && i < N; ++i) {
      joins = map.strides[i][map.ndim - 1] == strides[i] * sizes[static_cast<size_t>(d)];
    }
    if (!joins && map.ndim == kernels::kMaxRowDims) {
      return false;
    }
    const int slot = joins ? map.ndim - 1 : map.ndim++;
    map.sizes[slot] = (joins ? map.sizes[slot] : 1) * sizes[static_cast<size_t>(d)];
    for (size_t i = 0; i < N; ++i) {
      map.strides[i][slot] = strides[i];
    }
  }
  return true;
}

inline int64_t product_of(c10::ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) {
    product *= size;
  }
  return product;
}

// A 64-byte aligned buffer: one that this thread keeps between calls or, for very long rows, one of its own.
struct Scratch {
  explicit Scratch(int64_t bytes);

  c10::DataPtr owned;
  void* memory;
};

// Runs kernel(begin, end, scratch) over [0, rows) on torch's threads, in chunks of about kElementsPerChunk elements.
template <typename Kernel>
void for_row_ranges(int64_t rows, int64_t elements_per_row, int64_t scratch_bytes, const Kernel& kernel) {
  constexpr int64_t kElementsPerChunk = 32768;
  const int64_t grain = std::max<int64_t>(1, kElementsPerChunk / std::max<int64_t>(1, elements_per_row));
  at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    const Scratch scratch(scratch_bytes);
    kernel(begin, end, scratch.memory);
  });
}

}  // namespace torch_hrr
