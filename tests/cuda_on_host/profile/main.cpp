// Writes what the kernels of each operator and shape ask of memory, as JSON: cuda_profile [OPERATOR] > counts.json
#include <iostream>

#include "tests/cuda_on_host/profile/shapes.h"

int main(int count, char** arguments) {
  using namespace torch_hrr::cuda_on_host::profile;
  if (count > 1) {
    wanted_op() = arguments[1];
  }
  std::vector<Profile> all;
  profile_hrr(all);
  profile_hrr_spectra(all);
  profile_assembly(all);
  std::cout << "[\n";
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::cout << to_json(all[i]) << (i + 1 < all.size() ? ",\n" : "\n");
  }
  std::cout << "]\n";
}
