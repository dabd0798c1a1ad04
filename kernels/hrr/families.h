// What each file of the family puts into its instruction set's table.
#pragma once

#include "kernels/hrr/tables.h"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {
HRR_ISA_BEGIN

template <typename S>
void add_binding(HrrKernels& kernels);
template <typename S>
void add_binding_backward(HrrKernels& kernels);
template <typename S>
void add_superposition(HrrKernels& kernels);
template <typename S>
void add_spectral_maps(HrrKernels& kernels);
template <typename S>
void add_packed_spectra(HrrKernels& kernels);

HRR_ISA_END
}  // namespace torch_hrr::kernels
