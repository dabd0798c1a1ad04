// Picks the table of the active instruction set.
#include "kernels/assembly/tables.h"

#include "kernels/isa.h"

namespace torch_hrr::kernels {

namespace scalar {
const AssemblyKernels& assembly_kernels_of_isa();
}
#if defined(__x86_64__)
namespace avx2 {
const AssemblyKernels& assembly_kernels_of_isa();
}
namespace avx512 {
const AssemblyKernels& assembly_kernels_of_isa();
}
#endif

const AssemblyKernels& assembly_kernels() {
#if defined(__x86_64__)
  switch (active_isa()) {
    case Isa::kAvx512:
      return avx512::assembly_kernels_of_isa();
    case Isa::kAvx2:
      return avx2::assembly_kernels_of_isa();
    case Isa::kScalar:
      break;
  }
#endif
  return scalar::assembly_kernels_of_isa();
}

}  // namespace torch_hrr::kernels
