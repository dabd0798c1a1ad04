// Compiled once per instruction set, apart from the tests: their own templates must not be compiled for AVX-512.
#include "convert_rows.h"

#include "kernels/convert.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

ConvertRows convert_rows_of_isa() {
  return {[](const Half* source, int64_t count, float* target) { widen_row<Half>(source, count, target); },
          [](const BFloat16* source, int64_t count, float* target) { widen_row<BFloat16>(source, count, target); },
          [](const float* source, int64_t count, float scale, Half* target) {
            narrow_row<Half>(source, count, scale, target);
          },
          [](const float* source, int64_t count, float scale, BFloat16* target) {
            narrow_row<BFloat16>(source, count, scale, target);
          }};
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
