// What each file of the family puts into its instruction set's table.
#pragma once

#include "kernels/assembly/tables.h"

namespace torch_hrr::kernels {
HRR_ISA_BEGIN

void add_connectome(AssemblyKernels& kernels);
void add_projection(AssemblyKernels& kernels);
void add_winners(AssemblyKernels& kernels);
void add_soft_cap(AssemblyKernels& kernels);

HRR_ISA_END
}  // namespace torch_hrr::kernels
