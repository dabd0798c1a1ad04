// The CPU entry points of the assembly family, one table an instruction set.
#pragma once

#include "kernels/assembly/winners.h"

namespace torch_hrr::kernels {

// Every entry computes output rows [begin, end) with a 64-byte aligned scratch buffer of the size its companion names.
struct AssemblyKernels {
  int64_t (*winners_scratch)(const WinnersParams&);
  void (*winners)(const WinnersParams&, int64_t begin, int64_t end, void* scratch);
};

// The table for the instruction set chosen for this process (isa.h).
const AssemblyKernels& assembly_kernels();

}  // namespace torch_hrr::kernels
