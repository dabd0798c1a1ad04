// Picks the table of the active instruction set.
#include "kernels/hrr/tables.h"

#include "kernels/isa.h"

namespace torch_hrr::kernels {

namespace scalar {
const HrrKernels& hrr_kernels_of_isa(Storage storage);
}
#if defined(__x86_64__)
namespace avx2 {
const HrrKernels& hrr_kernels_of_isa(Storage storage);
}
namespace avx512 {
const HrrKernels& hrr_kernels_of_isa(Storage storage);
}
#endif

const HrrKernels& hrr_kernels(Storage storage) {
#if defined(__x86_64__)
  switch (active_isa()) {
    case Isa::kAvx512:
      return avx512::hrr_kernels_of_isa(storage);
    case Isa::kAvx2:
      return avx2::hrr_kernels_of_isa(storage);
    case Isa::kScalar:
      break;
  }
#endif
  return scalar::hrr_kernels_of_isa(storage);
}

}  // namespace torch_hrr::kernels
