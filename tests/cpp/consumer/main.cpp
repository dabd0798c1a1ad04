// Runs a TorchScript file, takes gradients, and makes sure that no Python is in the process.
//
// usage: consumer DIRECTORY, which holds encoder.pt and raw float32 files: values, fillers, expected and
// roles_grad (the gradient of the sum of the squared result with respect to the module's roles).
#include <torch/script.h>
#include <torch_hrr/torch_hrr.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

constexpr int64_t kBatch = 3;
constexpr int64_t kItems = 4;
constexpr int64_t kDim = 96;

void require(bool condition, const std::string& what) {
  if (!condition) {
    std::cerr << "consumer: " << what << "\n";
    std::exit(1);
  }
}

at::Tensor read_floats(const std::string& path, std::vector<int64_t> sizes) {
  const at::Tensor tensor = at::empty(sizes, at::kFloat);
  std::ifstream file(path, std::ios::binary);
  const auto bytes = static_cast<std::streamsize>(tensor.nbytes());
  file.read(static_cast<char*>(tensor.mutable_data_ptr()), bytes);
  require(file.gcount() == bytes && file.peek() == EOF,
          path + " must hold " + std::to_string(tensor.numel()) + " floats");
  return tensor;
}

void require_close(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  require(got.sizes() == want.sizes(), what + " has another shape");
  const double error = (got - want).abs().max().item<double>();
  const double scale = want.abs().max().item<double>();
  require(error <= 1e-5 * scale, what + " is off by " + std::to_string(error) + " of " + std::to_string(scale));
}

void require_no_python() {
  std::ifstream maps("/proc/self/maps");
  require(maps.good(), "/proc/self/maps must be readable");
  for (std::string line; std::getline(maps, line);) {
    require(line.find("libpython") == std::string::npos && line.find("libtorch_python") == std::string::npos,
            "Python is in the process: " + line);
  }
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "one argument, the directory of the models, is needed");
  const std::string directory = std::string(argv[1]) + "/";
  const at::Tensor values = read_floats(directory + "values", {kBatch, kItems, kDim});
  const at::Tensor fillers = read_floats(directory + "fillers", {kBatch, kItems, kDim});
  const at::Tensor expected = read_floats(directory + "expected", {kBatch, kDim});
  const at::Tensor roles_grad = read_floats(directory + "roles_grad", {kItems, kDim});

  torch::jit::Module module = torch::jit::load(directory + "encoder.pt");
  const at::Tensor result = module.forward({values, fillers}).toTensor();
  require_close(result.detach(), expected, "the TorchScript result");
  result.square().sum().backward();
  require_close(module.attr("roles").toTensor().grad(), roles_grad, "the gradient through TorchScript");

  // The gradient of sum_n g[n] (a conv b)[n] with respect to a is the correlation of g with b.
  const at::Tensor a = values.clone().requires_grad_();
  const at::Tensor upstream = at::cos(fillers);
  torch_hrr::bind(a, fillers).backward(upstream);
  require_close(a.grad(), torch_hrr::unbind(upstream, fillers), "the gradient of bind");
  const at::Tensor delta = at::zeros({kDim});
  delta[0] = 1;
  require_close(torch_hrr::bind(values, delta), values, "bind with the delta vector");

  require_no_python();
  std::cout << torch_hrr_build_info() << "consumer ok\n";
  return 0;
}
