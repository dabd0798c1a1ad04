// Prints the best instruction set of this processor, for builds with TORCH_HRR_ISAS=native.
#include <cstdio>

#include "kernels/isa.cpp"

int main() {
  std::puts(torch_hrr::kernels::isa_name(torch_hrr::kernels::processor_isa()));
}
