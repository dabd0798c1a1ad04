// Loads a TorchScript file and runs it. Nothing here names torch_hrr: linking its target must be enough.
#include <torch/script.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: loader FILE\n";
    return 2;
  }
  torch::jit::Module module = torch::jit::load(argv[1]);
  const at::Tensor result = module.forward({at::ones({2, 4, 96}), at::ones({2, 4, 96})}).toTensor();
  std::cout << "loader ok " << result.sizes() << "\n";
  return 0;
}
