// Detects and selects the instruction set.
#include "kernels/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace torch_hrr::kernels {
namespace {

// What this build has: CMake defines KERNEL_HAS_<isa>.
bool built([[maybe_unused]] Isa isa) {
#if defined(KERNEL_HAS_avx512)
  if (isa == Isa::kAvx512) {
    return true;
  }
#endif
#if defined(KERNEL_HAS_avx2)
  if (isa == Isa::kAvx2) {
    return true;
  }
#endif
  return isa == Isa::kScalar;
}

#if defined(__x86_64__)
// Clang 14's __builtin_cpu_supports does not know f16c.
bool has_f16c() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

bool supported(Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx512:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  return false;
#else
  return isa == Isa::kScalar;
#endif
}

Isa choose() {
  const char* forced = std::getenv("TORCH_HRR_ISA");
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2, Isa::kScalar}) {
    if (forced == nullptr || *forced == '\0') {
      if (built(isa) && supported(isa)) {
        return isa;
      }
    } else if (std::string(forced) == isa_name(isa)) {
      if (!built(isa)) {
        throw std::runtime_error(std::string("TORCH_HRR_ISA: this build has no ") + forced);
      }
      if (!supported(isa)) {
        throw std::runtime_error(std::string("TORCH_HRR_ISA: this processor has no ") + forced);
      }
      return isa;
    }
  }
  throw std::runtime_error(std::string("TORCH_HRR_ISA must be scalar, avx2 or avx512, got ") + forced);
}

}  // namespace

Isa active_isa() {
  static const Isa isa = choose();
  return isa;
}

Isa processor_isa() {
  return supported(Isa::kAvx512) ? Isa::kAvx512 : supported(Isa::kAvx2) ? Isa::kAvx2 : Isa::kScalar;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kScalar:
      break;
  }
  return "scalar";
}

}  // namespace torch_hrr::kernels
