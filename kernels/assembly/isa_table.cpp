// The assembly table of one instruction set; compiled once per instruction set.
#include "kernels/assembly/families.h"

namespace torch_hrr::kernels {
HRR_ISA_BEGIN

const AssemblyKernels& assembly_kernels_of_isa() {
  static const AssemblyKernels kernels = [] {
    AssemblyKernels made{};
    add_connectome(made);
    add_projection(made);
    add_winners(made);
    add_soft_cap(made);
    return made;
  }();
  return kernels;
}

HRR_ISA_END
}  // namespace torch_hrr::kernels
