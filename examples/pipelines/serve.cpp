// Serves an exported model without Python: TorchScript from a .pt file, AOTInductor's from a .pt2 package.
//
// usage: serve MODEL ROWS WIDTH, where ROWS holds float32 numbers, WIDTH to a row, as digits.py writes them. Prints a
// line a row: its class, and what the model returned.
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/script.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

int64_t positive(const std::string& text) {
  size_t end = 0;
  const int64_t number = std::isdigit(static_cast<unsigned char>(text[0])) != 0 ? std::stoll(text, &end) : 0;
  if (number < 1 || end != text.size()) {
    throw std::invalid_argument("WIDTH must be a whole number above 0, got " + text);
  }
  return number;
}

at::Tensor read_rows(const std::string& path, int64_t width) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::invalid_argument(path + " cannot be read");
  }
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  const int64_t row = width * static_cast<int64_t>(sizeof(float));
  if (bytes == 0 || bytes % row != 0) {
    throw std::invalid_argument(path + " must hold rows of " + std::to_string(width) + " floats, got " +
                                std::to_string(bytes) + " bytes");
  }
  const at::Tensor rows = at::empty({bytes / row, width}, at::kFloat);
  file.read(reinterpret_cast<char*>(rows.mutable_data_ptr<float>()), bytes);
  return rows;
}

at::Tensor run(const std::string& model, const at::Tensor& rows) {
  const c10::InferenceMode inference;
  if (std::filesystem::path(model).extension() == ".pt2") {
    return torch::inductor::AOTIModelPackageLoader(model).run({rows}).at(0);
  }
  return torch::jit::load(model).forward({rows}).toTensor();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: serve MODEL ROWS WIDTH\n";
    return 2;
  }
  // Without it a package reads beyond rows that are too short.
  setenv("AOTI_RUNTIME_CHECK_INPUTS", "1", 0);
  try {
    const at::Tensor results = run(argv[1], read_rows(argv[2], positive(argv[3]))).contiguous();
    const at::Tensor classes = results.argmax(-1);
    std::cout.precision(std::numeric_limits<float>::max_digits10);
    for (int64_t i = 0; i < results.size(0); ++i) {
      std::cout << classes[i].item<int64_t>();
      for (int64_t j = 0; j < results.size(1); ++j) {
        std::cout << ' ' << results.const_data_ptr<float>()[i * results.size(1) + j];
      }
      std::cout << "\n";
    }
    return 0;
  } catch (const c10::Error& error) {
    std::cerr << "serve: " << error.what_without_backtrace() << "\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "serve: " << error.what() << "\n";
    return 1;
  }
}
