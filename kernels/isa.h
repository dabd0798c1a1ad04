// Which instruction set this process uses.
#pragma once

namespace torch_hrr::kernels {

enum class Isa : int { kScalar, kAvx2, kAvx512 };

// The best instruction set that this build and this processor both have, or the one named by the environment variable
// TORCH_HRR_ISA (scalar, avx2, avx512). Chosen once, at the first call; throws std::runtime_error if the variable
// names one that is unknown or not available.
Isa active_isa();

// The best instruction set of this processor, whether this build has it or not.
Isa processor_isa();

const char* isa_name(Isa isa);

// Bytes of the widest vectors of its kernels.
constexpr int vector_bytes(Isa isa) {
  return isa == Isa::kAvx512 ? 64 : isa == Isa::kAvx2 ? 32 : 16;
}

}  // namespace torch_hrr::kernels
