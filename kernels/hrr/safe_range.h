// Which rows may be computed as they stand.
#pragma once

#include "kernels/macros.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// Squared norms in this range lose nothing to overflow or underflow; a row outside is computed again from inputs that
// were scaled by powers of two. The decision depends on the row alone.
template <typename T>
constexpr T kLowestSafe = sizeof(T) == 4 ? static_cast<T>(0x1p-60) : static_cast<T>(0x1p-900);
template <typename T>
constexpr T kHighestSafe = sizeof(T) == 4 ? static_cast<T>(0x1p100) : static_cast<T>(0x1p900);
template <typename T>
KERNEL_HOST_DEVICE bool safe_squared_norm(T squared) {
  return squared >= kLowestSafe<T> && squared <= kHighestSafe<T>;
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
