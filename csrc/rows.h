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

// The tensor in `dtype` with unit stride in its last dimension; returned as it is where it already fits.
inline at::Tensor with_unit_rows(const at::Tensor& tensor, at::ScalarType dtype) {
  const at::Tensor typed = tensor.scalar_type() == dtype ? tensor : tensor.to(dtype);
  return typed.size(-1) <= 1 || typed.stride(-1) == 1 ? typed : typed.contiguous();
}

inline kernels::Storage storage_of(at::ScalarType type) {
  switch (type) {
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
inline kernels::Storage storage_of(const at::Tensor& tensor) {
  return storage_of(tensor.scalar_type());
}

// Operands of a kernel that runs over rows: their leading dimensions broadcast to `batch`, and a row map locates each
// row.
template <size_t N>
class Rows {
  static_assert(N <= kernels::kMaxOperands);

 public:
  // A tensor, which may be undefined, and how many of its last dimensions are not batch. Tensors are kept alive.
  struct Operand {
    at::Tensor tensor;
    int64_t trailing;
  };

  // A kernel may take maps of fewer dimensions than kMaxRowDims.
  Rows(c10::ArrayRef<int64_t> batch, std::array<Operand, N> operands, int most_dims = kernels::kMaxRowDims)
      : operands_(std::move(operands)), most_dims_(most_dims) {
    // Where too many dimensions are left, operands are made contiguous one by one until the map fits.
    for (size_t i = 0; !fits(batch) && i < N; ++i) {
      at::Tensor& tensor = operands_[i].tensor;
      if (tensor.defined()) {
        const c10::ArrayRef<int64_t> own =
            tensor.sizes().slice(static_cast<size_t>(tensor.dim() - operands_[i].trailing));
        Sizes<int64_t> sizes(batch.begin(), batch.end());
        sizes.append(own.begin(), own.end());
        tensor = tensor.expand(sizes).contiguous();
      }
    }
  }

  const kernels::RowMap& map() const {
    return map_;
  }
  const at::Tensor& operator[](size_t i) const {
    return operands_[i].tensor;
  }
  // nullptr for an operand that is absent
  const void* data(size_t i) const {
    return operands_[i].tensor.defined() ? operands_[i].tensor.const_data_ptr() : nullptr;
  }
  // Of a dimension that is not batch, negative as in torch; 0 where it broadcasts or the operand is absent.
  int64_t stride(size_t i, int64_t dim) const {
    const at::Tensor& tensor = operands_[i].tensor;
    return !tensor.defined() || tensor.size(dim) == 1 ? 0 : tensor.stride(dim);
  }

 private:
  // Collapses the batch dimensions into the map; false if too many are left.
  bool fits(c10::ArrayRef<int64_t> batch) {
    map_.ndim = 0;
    const auto rank = static_cast<int64_t>(batch.size());
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t size = batch[static_cast<size_t>(d)];
      if (size == 1) {
        continue;
      }
      std::array<int64_t, N> strides{};
      for (size_t i = 0; i < N; ++i) {
        const at::Tensor& tensor = operands_[i].tensor;
        // One without elements may have no address to step from.
        if (!tensor.defined() || tensor.numel() == 0) {
          continue;
        }
        const int64_t own = d - (rank - (tensor.dim() - operands_[i].trailing));
        strides[i] = own < 0 || tensor.size(own) == 1 ? 0 : tensor.stride(own);
      }
      // Two dimensions merge if, for every operand, one step in the previous one equals a full run in this one.
      bool joins = map_.ndim > 0;
      for (size_t i = 0; joins && i < N; ++i) {
        joins = map_.strides[i][map_.ndim - 1] == strides[i] * size;
      }
      if (!joins && map_.ndim == most_dims_) {
        return false;
      }
      const int slot = joins ? map_.ndim - 1 : map_.ndim++;
      map_.sizes[slot] = (joins ? map_.sizes[slot] : 1) * size;
      for (size_t i = 0; i < N; ++i) {
        map_.strides[i][slot] = strides[i];
      }
    }
    return true;
  }

  std::array<Operand, N> operands_;
  int most_dims_;
  kernels::RowMap map_;
};

inline int64_t product_of(c10::ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) {
    product *= size;
  }
  return product;
}

// A 64-byte aligned buffer: one that the thread keeps between calls or, for very long rows, a temporary one.
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
