// Gradients without Python: what an operator of each system was given is found again from what it returned, by descent
// along its derivative, which is first compared with differences of the loss. Exit status 1 if either is wrong.
//
// usage: recover
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/optim/lbfgs.h>
#include <torch_hrr/torch_hrr.h>

#include <exception>
#include <functional>
#include <iomanip>
#include <iostream>
#include <tuple>
#include <vector>

namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct Problem {
  const char* system;
  const char* sought;
  std::function<Tensor(const Tensors&)> observe;
  Tensors truth;
  double distance;  // of the start from the truth, in standard deviations of noise
};

Tensor normal(at::IntArrayRef sizes) {
  return at::randn(sizes, at::kDouble);
}

std::vector<Problem> problems() {
  const Tensor role = torch_hrr::unitary(normal({256}));
  const Tensor positions = at::arange(0, 200, at::kDouble) / 40;
  const Tensor field = normal({1, 6, 6, 6, 1});
  const Tensor ticks = normal({30, 4});
  return {
      {"hrr",
       "the filler of a role",
       [=](const Tensors& x) { return torch_hrr::bind(role, x[0]); },
       {normal({256})},
       1},
      // Only their differences matter, so the last drive is 0.
      {"assembly",
       "the drives of soft winners",
       [](const Tensors& x) {
         return torch_hrr::k_cap(at::constant_pad_nd(x[0], {0, 1}), 5, 1, "sigmoid", true);
       },
       {normal({19})},
       0.3},
      {"encoding",
       "frequencies and phases",
       [=](const Tensors& x) { return torch_hrr::sinusoidal_features(positions, x[0], x[1]); },
       {at::arange(1, 5, at::kDouble), normal({4})},
       0.1},
      // As logits, of which every number is a decay and a stable diffusion.
      {"field",
       "decay and diffusion",
       [=](const Tensors& x) { return torch_hrr::field_evolve(field, x[0].sigmoid(), x[1].sigmoid() / 6, 4); },
       {at::scalar_tensor(-2, at::kDouble), at::scalar_tensor(1, at::kDouble)},
       0.5},
      {"hierarchy",
       "the weights before learning",
       [=](const Tensors& x) { return std::get<0>(torch_hrr::plastic_scan(ticks, x[0], "oja", 0.02)); },
       {normal({2, 4}) / 2},
       0.3},
  };
}

// The largest relative error of the derivative of the loss along a direction, for several directions.
double derivative_error(const std::function<Tensor(const Tensors&)>& loss, const Tensors& at_point) {
  constexpr double kStep = 1e-5;
  const Tensors gradients = torch::autograd::grad({loss(at_point)}, at_point);
  double error = 0;
  for (int direction = 0; direction < 3; ++direction) {
    Tensors ahead, behind;
    double slope = 0;
    for (size_t i = 0; i < at_point.size(); ++i) {
      const Tensor along = at::randn_like(at_point[i]);
      ahead.push_back(at_point[i].detach() + kStep * along);
      behind.push_back(at_point[i].detach() - kStep * along);
      slope += (gradients[i] * along).sum().item<double>();
    }
    const double difference = (loss(ahead) - loss(behind)).item<double>() / (2 * kStep);
    error = std::max(error, std::abs(slope - difference) / std::max(std::abs(difference), 1e-3));
  }
  return error;
}

bool solve(const Problem& problem) {
  const Tensor observed = problem.observe(problem.truth);
  const auto loss = [&](const Tensors& x) { return (problem.observe(x) - observed).square().sum(); };
  Tensors found;
  for (const Tensor& value : problem.truth) {
    found.push_back((value + problem.distance * at::randn_like(value)).requires_grad_());
  }
  const double error = derivative_error(loss, found);
  torch::optim::LBFGS optimizer(
      found, torch::optim::LBFGSOptions(1).max_iter(200).tolerance_grad(1e-12).tolerance_change(0).line_search_fn(
                 "strong_wolfe"));
  optimizer.step([&] {
    optimizer.zero_grad();
    Tensor value = loss(found);
    value.backward();
    return value;
  });
  double distance = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    distance = std::max(distance, (found[i].detach() - problem.truth[i]).abs().max().item<double>());
  }
  const bool right = error < 1e-6 && distance < 1e-4;
  std::cout << std::left << std::setw(10) << problem.system << std::setw(29) << problem.sought << "derivative off by "
            << std::scientific << std::setprecision(0) << error << ", found within " << distance
            << (right ? "" : "  WRONG") << "\n";
  return right;
}

}  // namespace

int main() {
  try {
    at::manual_seed(0);
    bool right = true;
    for (const Problem& problem : problems()) {
      right = solve(problem) && right;
    }
    return right ? 0 : 1;
  } catch (const c10::Error& error) {
    std::cerr << "recover: " << error.what_without_backtrace() << "\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "recover: " << error.what() << "\n";
    return 1;
  }
}
