// Which algorithm the CPU takes for single rows of a length.
#include "kernels/hrr/circular_convolution.h"

namespace torch_hrr::kernels {

Algorithm cpu_algorithm_for(int64_t dim) {
  if (dim <= kMaxDirectDim) {
    return Algorithm::kDirect;
  }
  if (cpu_has_native_bins(dim)) {
    return Algorithm::kNative;
  }
  return dim <= kMaxCpuPaddedDim ? Algorithm::kPadded : Algorithm::kLibrary;
}

bool cpu_has_native_bins(int64_t dim) {
  return row_transform(dim) != RowTransform::kNone;
}

bool cpu_has_bins(int64_t dim) {
  return cpu_has_native_bins(dim) || dim <= kMaxCpuPaddedDim;
}

}  // namespace torch_hrr::kernels
