// What the library says of itself.
#include <c10/util/StringUtil.h>
#include <torch/version.h>

#include <exception>
#include <string>

#include "csrc/include/torch_hrr/torch_hrr.h"
#include "kernels/isa.h"

const char* torch_hrr_build_info() {
  static const std::string info = [] {
    std::string text =
        c10::str("version=", TORCH_HRR_VERSION, "\ntorch=", TORCH_VERSION, "\ncuda=", TORCH_HRR_CUDA_VERSION,
                 "\nisas=", TORCH_HRR_ISAS, "\nprocessor=", isa_name(torch_hrr::kernels::processor_isa()), "\n");
    try {
      return c10::str(text, "isa=", torch_hrr::kernels::isa_name(torch_hrr::kernels::active_isa()), "\n");
    } catch (const std::exception& error) {
      return c10::str(text, "error=", error.what(), "\n");
    }
  }();
  return info.c_str();
}
