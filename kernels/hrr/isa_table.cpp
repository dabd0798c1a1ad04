// The HRR table of one instruction set; compiled once per instruction set.
#include "kernels/hrr/families.h"

namespace torch_hrr::kernels {
HRR_ISA_BEGIN
namespace {

template <typename S>
const HrrKernels* table() {
  static const HrrKernels kernels = [] {
    HrrKernels made{};
    add_binding<S>(made);
    add_binding_backward<S>(made);
    add_superposition<S>(made);
    add_spectral_maps<S>(made);
    add_packed_spectra<S>(made);
    return made;
  }();
  return &kernels;
}

}  // namespace

const HrrKernels& hrr_kernels_of_isa(Storage storage) {
  switch (storage) {
    case Storage::kDouble:
      return *table<double>();
    case Storage::kHalf:
      return *table<Half>();
    case Storage::kBFloat16:
      return *table<BFloat16>();
    case Storage::kFloat:
      break;
  }
  return *table<float>();
}

HRR_ISA_END
}  // namespace torch_hrr::kernels
