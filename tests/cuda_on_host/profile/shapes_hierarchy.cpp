// The kernels of layers that learn as the operator launches them.
#include "tests/cuda_on_host/shim.h"

#include "kernels/hierarchy/launch_plastic.cuh"
#include "kernels/hierarchy/launch_plastic_backward.cuh"
#include "kernels/hierarchy/launch_plastic_tangent.cuh"
#include "tests/cuda_on_host/profile/shapes.h"

namespace torch_hrr::cuda_on_host::profile {

namespace {

using namespace torch_hrr::kernels;

void profile_plastic(std::vector<Profile>& all, const std::string& op, LearningRule rule, int64_t ticks, int64_t batch,
                     int64_t size, int64_t units) {
  PlasticParams params;
  params.learners = 1;
  params.ticks = ticks;
  params.batch = batch;
  params.units = units;
  params.size = size;
  params.rule = rule;
  params.rate = 1e-3;
  params.tau = 100;
  const std::vector<float> inputs = normal_elements(ticks * batch * size, 1);
  std::vector<float> weight = normal_elements(units * size, 2);
  for (float& w : weight) {
    w *= 0.05f;
  }
  std::vector<float> theta(static_cast<std::size_t>(units), 1);
  auto outputs = poisoned<float>(static_cast<std::size_t>(ticks * batch * units));
  auto residual = poisoned<float>(static_cast<std::size_t>(batch * size));
  params.inputs = inputs.data();
  params.weight = weight.data();
  params.theta = rule == LearningRule::kBcm ? theta.data() : nullptr;
  params.outputs = outputs.data();
  params.residual = residual.data();
  std::vector<NamedArray> arrays = {
      {"inputs", inputs.data()}, {"weight", weight.data(), Role::kResult}, {"outputs", outputs.data(), Role::kResult}};
  if (rule == LearningRule::kBcm) {
    arrays.push_back({"theta", theta.data(), Role::kResult});
  }
  if (params.coupled() && batch > 1) {
    arrays.push_back({"residual", residual.data(), Role::kWorkspace});
  }
  profile(all, op, shape_of(ticks, batch, size, units), arrays,
          [&] { launch_plastic_with<float>(params, HostLauncher{}); });
}

void profile_competing(std::vector<Profile>& all, int64_t ticks, int64_t batch, int64_t size, int64_t units) {
  CompetingParams params;
  PlasticParams& p = params.scan;
  p.learners = 1;
  p.ticks = ticks;
  p.batch = batch;
  p.units = units;
  p.size = size;
  p.rate = 1e-3;
  const std::vector<float> inputs = normal_elements(ticks * batch * size, 1);
  std::vector<float> weight = normal_elements(units * size, 2);
  for (float& w : weight) {
    w *= 0.05f;
  }
  auto outputs = poisoned<float>(static_cast<std::size_t>(ticks * batch * units));
  auto workspace = poisoned<float>(static_cast<std::size_t>(params.workspace_elements()));
  p.inputs = inputs.data();
  p.weight = weight.data();
  p.outputs = outputs.data();
  params.workspace = workspace.data();
  const std::vector<NamedArray> arrays = {{"inputs", inputs.data()},
                                          {"weight", weight.data(), Role::kResult},
                                          {"outputs", outputs.data(), Role::kResult},
                                          {"workspace", workspace.data(), Role::kWorkspace}};
  profile(all, "plastic_scan softhebb", shape_of(ticks, batch, size, units), arrays,
          [&] { launch_competing_with<float>(params, HostLauncher{}); });
}

void profile_plastic_backward(std::vector<Profile>& all, const std::string& op, LearningRule rule, int64_t ticks,
                              int64_t batch, int64_t size, int64_t units, bool for_inputs) {
  PlasticBackwardParams params;
  PlasticParams& p = params.scan;
  p.learners = 1;
  p.ticks = ticks;
  p.batch = batch;
  p.units = units;
  p.size = size;
  p.rule = rule;
  p.rate = 1e-3;
  p.tau = 100;
  const std::vector<float> inputs = normal_elements(ticks * batch * size, 1);
  std::vector<float> weight = normal_elements(units * size, 2);
  for (float& w : weight) {
    w *= 0.05f;
  }
  const std::vector<float> of_outputs = normal_elements(ticks * batch * units, 3);
  std::vector<float> of_weight = normal_elements(units * size, 4);
  auto of_inputs = poisoned<float>(static_cast<std::size_t>(ticks * batch * size));
  p.inputs = inputs.data();
  params.weight = weight.data();
  params.grad_outputs = of_outputs.data();
  params.grad_weight = of_weight.data();
  params.grad_inputs = for_inputs ? of_inputs.data() : nullptr;
  auto workspace = poisoned<float>(static_cast<std::size_t>(plastic_backward_workspace<float>(params)));
  params.workspace = workspace.data();
  std::vector<NamedArray> arrays = {{"inputs", inputs.data()},
                                    {"weight", weight.data()},
                                    {"grad_outputs", of_outputs.data()},
                                    {"grad_weight", of_weight.data(), Role::kResult},
                                    {"workspace", workspace.data(), Role::kWorkspace}};
  if (for_inputs) {
    arrays.push_back({"grad_inputs", of_inputs.data(), Role::kResult});
  }
  profile(all, op, shape_of(ticks, batch, size, units), arrays,
          [&] { launch_plastic_backward_with<float>(params, HostLauncher{}); });
}

void profile_plastic_tangent(std::vector<Profile>& all, const std::string& op, LearningRule rule, int64_t ticks,
                             int64_t batch, int64_t size, int64_t units) {
  PlasticTangentParams params;
  PlasticParams& p = params.scan;
  p.learners = 1;
  p.ticks = ticks;
  p.batch = batch;
  p.units = units;
  p.size = size;
  p.rule = rule;
  p.rate = 1e-3;
  p.tau = 100;
  const std::vector<float> inputs = normal_elements(ticks * batch * size, 1);
  const std::vector<float> of_inputs = normal_elements(ticks * batch * size, 2);
  std::vector<float> weight = normal_elements(units * size, 3);
  for (float& w : weight) {
    w *= 0.05f;
  }
  std::vector<float> of_weight = normal_elements(units * size, 4);
  auto of_outputs = poisoned<float>(static_cast<std::size_t>(ticks * batch * units));
  auto workspace = poisoned<float>(static_cast<std::size_t>(plastic_tangent_workspace<float>(params)));
  p.inputs = inputs.data();
  params.weight = weight.data();
  params.tangent_inputs = of_inputs.data();
  params.tangent_weight = of_weight.data();
  params.tangent_outputs = of_outputs.data();
  params.workspace = workspace.data();
  const std::vector<NamedArray> arrays = {{"inputs", inputs.data()},
                                          {"weight", weight.data()},
                                          {"tangent_inputs", of_inputs.data()},
                                          {"tangent_weight", of_weight.data(), Role::kResult},
                                          {"tangent_outputs", of_outputs.data(), Role::kResult},
                                          {"workspace", workspace.data(), Role::kWorkspace}};
  profile(all, op, shape_of(ticks, batch, size, units), arrays,
          [&] { launch_plastic_tangent_with<float>(params, HostLauncher{}); });
}

}  // namespace

void profile_hierarchy(std::vector<Profile>& all) {
  profile_plastic(all, "plastic_scan oja", LearningRule::kOja, 16, 1, 208, 400);
  profile_plastic(all, "plastic_scan bcm", LearningRule::kBcm, 16, 1, 400, 800);
  profile_plastic(all, "plastic_scan oja", LearningRule::kOja, 4, 16, 208, 400);
  profile_plastic(all, "plastic_scan gha", LearningRule::kGha, 8, 1, 512, 64);
  profile_plastic(all, "plastic_scan subspace", LearningRule::kSubspace, 4, 4, 512, 64);
  profile_competing(all, 8, 1, 512, 64);
  profile_plastic_backward(all, "plastic_scan_backward", LearningRule::kOja, 16, 1, 112, 200, true);
  profile_plastic_backward(all, "plastic_scan_backward weights", LearningRule::kOja, 16, 1, 112, 200, false);
  profile_plastic_backward(all, "plastic_scan_backward gha", LearningRule::kGha, 4, 1, 512, 64, true);
  profile_plastic_backward(all, "plastic_scan_backward subspace", LearningRule::kSubspace, 4, 4, 512, 16, true);
  profile_plastic_tangent(all, "plastic_scan_tangent", LearningRule::kOja, 16, 1, 112, 200);
  profile_plastic_tangent(all, "plastic_scan_tangent gha", LearningRule::kGha, 4, 1, 512, 64);
  profile_plastic_tangent(all, "plastic_scan_tangent subspace", LearningRule::kSubspace, 4, 4, 512, 16);
}

}  // namespace torch_hrr::cuda_on_host::profile
