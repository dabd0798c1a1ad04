// Fields [..., D, H, W, C] as the operators check them and as kernels take them.
#pragma once

#include <ATen/core/Tensor.h>

#include "csrc/contract.h"
#include "csrc/rows.h"
#include "kernels/field/control.h"
#include "kernels/field/evolve.h"
#include "kernels/field/gradient.h"
#include "kernels/field/moments.h"

namespace torch_hrr::field {

constexpr int64_t kFieldDims = 4;

// The sizes of a floating tensor [..., D, H, W, C].
template <typename Int>
Sizes<Int> field_sizes(const char* op, const at::Tensor& field) {
  check_floating(op, {{"field", field}});
  check_rank(op, {"field", field}, kFieldDims, "[..., D, H, W, C]");
  const c10::ArrayRef<Int> sizes = sizes_of<Int>(field);
  return Sizes<Int>(sizes.begin(), sizes.end());
}

// inner: dimensions of the field between its batch and its depth
inline kernels::FieldShape shape_of(const at::Tensor& field, int64_t inner = 0) {
  const auto leading = static_cast<size_t>(field.dim() - kFieldDims - inner);
  return {product_of(field.sizes().slice(0, leading)), field.size(-4), field.size(-3), field.size(-2), field.size(-1)};
}

}  // namespace torch_hrr::field
