// Writes what the kernels of each operator and shape ask of memory, as JSON, of all operators or of those whose name
// contains the argument: cuda_on_host_profile [OPERATOR] > counts.json
#include <iostream>
#include <string>

#include "tests/cuda_on_host/profile/shapes.h"

namespace torch_hrr::cuda_on_host::profile {

namespace {

std::string wanted;

}  // namespace

bool is_wanted(const std::string& op) {
  return op.find(wanted) != std::string::npos;
}

}  // namespace torch_hrr::cuda_on_host::profile

int main(int count, char** arguments) {
  using namespace torch_hrr::cuda_on_host::profile;
  if (count > 1) {
    wanted = arguments[1];
  }
  std::vector<Profile> all;
  profile_hrr(all);
  profile_hrr_spectra(all);
  profile_hrr_bins(all);
  profile_hrr_mixed(all);
  profile_assembly(all);
  profile_encoding(all);
  profile_field(all);
  profile_hierarchy(all);
  std::cout << "[\n";
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::cout << to_json(all[i]) << (i + 1 < all.size() ? ",\n" : "\n");
  }
  std::cout << "]\n";
}
