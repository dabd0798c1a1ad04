// The conversions of kernels/convert.h as plain functions, one set an instruction set.
#pragma once

#include <cstdint>

#include "kernels/numeric.h"

namespace torch_hrr::kernels {

struct ConvertRows {
  void (*widen_half)(const Half* source, int64_t count, float* target);
  void (*widen_bfloat16)(const BFloat16* source, int64_t count, float* target);
  void (*narrow_half)(const float* source, int64_t count, float scale, Half* target);
  void (*narrow_bfloat16)(const float* source, int64_t count, float scale, BFloat16* target);
};

}  // namespace torch_hrr::kernels
