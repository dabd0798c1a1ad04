// The projection of the README without Python: a program that loads the rounds of a brain, runs them, and saves what
// was learned. The file comes from Python,
//
//   brain = torch_hrr.assembly.Brain(p=0.01, seed=0)
//   brain.add_stimulus("s", size=317)
//   brain.add_area("A", n=100_000, k=317, beta=0.05)
//   torch.jit.script(brain.projection({"s": "A"}, {"A": "A"})).save("projection.pt")
//
// and the program from examples/CMakeLists.txt.
//
// usage: projection FILE ROUNDS [SAVED]
#include <torch/script.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

namespace {

at::Tensor winners_of(torch::jit::Module& module, const char* area) {
  return module.run_method("winners", area).toTensor().cpu();
}

int run(const char* file, int64_t rounds, const char* saved) {
  torch::jit::Module module = torch::jit::load(file);
  std::vector<int64_t> before;
  for (int64_t round = 1; round <= rounds; ++round) {
    module.forward({int64_t{1}});
    const at::Tensor winners = winners_of(module, "A");
    const std::vector<int64_t> now(winners.data_ptr<int64_t>(), winners.data_ptr<int64_t>() + winners.numel());
    std::vector<int64_t> kept;
    std::ranges::set_intersection(before, now, std::back_inserter(kept));
    std::cout << "round " << round << ": " << kept.size() << " of " << now.size() << " winners stay, support "
              << module.run_method("support", "A").toTensor().item<int64_t>() << "\n";
    before = now;
  }
  if (saved != nullptr) {
    module.save(saved);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::cerr << "usage: projection FILE ROUNDS [SAVED]\n";
    return 2;
  }
  try {
    return run(argv[1], std::stoll(argv[2]), argc == 4 ? argv[3] : nullptr);
  } catch (const std::exception& error) {
    std::cerr << "projection: " << error.what() << "\n";
    return 1;
  }
}
