// The kernels of fields as the operators launch them.
#include "tests/cuda_on_host/shim.h"

#include "kernels/field/launch_control.cuh"
#include "kernels/field/launch_gradient.cuh"
#include "kernels/field/launch_moments.cuh"
#include "tests/cuda_on_host/field_control.h"
#include "tests/cuda_on_host/profile/shapes.h"

namespace torch_hrr::cuda_on_host::profile {

namespace {

using namespace torch_hrr::kernels;

using Shape = FieldShape;

template <typename S>
void profile_evolve(std::vector<Profile>& all, const std::string& op, Storage storage, const Shape& shape,
                    Stencil stencil = Stencil::kLaplace, double noise = 0, int64_t steps = 1) {
  EvolveParams params;
  static_cast<Shape&>(params) = shape;
  params.stencil = stencil;
  params.noise = noise;
  params.rate = 0.1;
  std::vector<S> field;
  for (const float x : normal_elements(shape.elements(), 1)) {
    field.push_back(static_cast<S>(x));
  }
  auto out = poisoned<S>(field.size());
  params.field = field.data();
  params.out = out.data();
  auto workspace = poisoned<S>(steps > 1 ? field.size() : 0);
  EvolveOptions options;
  options.most_shared = kMaxSharedBytes;
  const std::string name = steps > 1 ? op + ", " + std::to_string(steps) + " steps" : op;
  std::vector<NamedArray> arrays = {{"field", field.data()}, {"out", out.data(), Role::kResult}};
  if (steps > 1) {
    arrays.push_back({"workspace", workspace.data(), Role::kWorkspace});
  }
  profile(all, name, shape_of(shape.batch, shape.depth, shape.height, shape.width, shape.channels), arrays,
          [&] { launch_evolve_with(storage, params, {}, steps, workspace.data(), HostLauncher{}, options); });
}

template <typename S>
void profile_gradient(std::vector<Profile>& all, const std::string& op, Storage storage, const Shape& shape,
                      GradientKind kind) {
  GradientParams params;
  static_cast<Shape&>(params) = shape;
  params.kind = kind;
  const int64_t count = shape.elements();
  std::vector<S> in;
  for (const float x : normal_elements(kind == GradientKind::kTransposed ? 3 * count : count, 1)) {
    in.push_back(static_cast<S>(x));
  }
  auto out = poisoned<S>(static_cast<size_t>(kind == GradientKind::kDerivatives ? 3 * count : count));
  params.in = in.data();
  params.out = out.data();
  profile(all, op, shape_of(shape.batch, shape.depth, shape.height, shape.width, shape.channels),
          {{"in", in.data()}, {"out", out.data(), Role::kResult}},
          [&] { launch_gradient_with(storage, params, HostLauncher{}); });
}

template <typename S>
void profile_moments(std::vector<Profile>& all, const std::string& op, Storage storage, int64_t places,
                     int64_t channels) {
  MomentsParams params;
  params.items = 1;
  params.places = places;
  params.channels = channels;
  params.small = 0.01;
  std::vector<S> field;
  for (const float x : normal_elements(places * channels, 1)) {
    field.push_back(static_cast<S>(x));
  }
  auto out = poisoned<compute_t<S>>(static_cast<size_t>(params.rows() * kMoments * channels));
  params.field = field.data();
  params.out = out.data();
  profile(all, op, shape_of(places, channels), {{"field", field.data()}, {"out", out.data(), Role::kResult}},
          [&] { launch_moments_with(storage, params, HostLauncher{}); });
}

// Robots in the middle of an episode, with metrics.
template <typename T>
void profile_control(std::vector<Profile>& all, const std::string& op, Storage storage, int64_t robots, bool dense) {
  ControlParams settings = control_settings({8, 8, 8}, 8, 2);
  settings.rows = robots;
  settings.sensors = 4;
  settings.dense = dense;
  const auto drawn = [](int64_t count, unsigned seed) {
    std::vector<T> made;
    for (const float x : normal_elements(count, seed)) {
      made.push_back(static_cast<T>(x));
    }
    return made;
  };
  ControlRobots<T> held(settings);
  held.field = drawn(static_cast<int64_t>(held.field.size()), 1);
  held.weights = drawn(static_cast<int64_t>(held.weights.size()), 2);
  held.out = poisoned<T>(held.out.size());
  for (int64_t robot = 0; robot < robots; ++robot) {
    held.state[static_cast<size_t>(robot * settings.state_size() + ControlHead::kBegun)] = 1;
  }
  std::vector<T> places = drawn(robots * settings.maps * 3 * (settings.sensors + 1), 3);
  for (size_t i = static_cast<size_t>(settings.sensors); i < places.size();
       i += static_cast<size_t>(settings.sensors) + 1) {
    places[i] += T(3.5);
  }
  const std::vector<T> sensory = drawn(robots * settings.sensors, 4);
  const std::vector<T> reward(static_cast<size_t>(robots), T(1));
  const std::vector<T> ended(static_cast<size_t>(robots));
  auto workspace = poisoned<int64_t>(static_cast<size_t>(robots * control_workspace(settings)));
  const ControlParams params = held.with(places, sensory, reward, ended);
  profile(all, op, shape_of(robots, 8, 8, 8, params.channels),
          {{"field", held.field.data(), Role::kResult},
           {"weights", held.weights.data(), Role::kResult},
           {"state", held.state.data(), Role::kResult},
           {"prediction", held.prediction.data(), Role::kResult},
           {"key", held.key.data(), Role::kResult},
           {"places", places.data()},
           {"sensory", sensory.data()},
           {"reward", reward.data()},
           {"ended", ended.data()},
           {"out", held.out.data(), Role::kResult},
           {"workspace", workspace.data(), Role::kWorkspace}},
          [&] { launch_control_with(storage, params, workspace.data(), HostLauncher{}); });
}

}  // namespace

void profile_field(std::vector<Profile>& all) {
  profile_evolve<float>(all, "field_evolve float", Storage::kFloat, {1, 32, 32, 32, 16});
  profile_evolve<float>(all, "field_evolve float box", Storage::kFloat, {1, 32, 32, 32, 16}, Stencil::kBox);
  profile_evolve<float>(all, "field_evolve float noise", Storage::kFloat, {1, 32, 32, 32, 16}, Stencil::kLaplace, 0.1);
  profile_evolve<float>(all, "field_evolve float", Storage::kFloat, {4, 16, 32, 32, 16});
  profile_evolve<float>(all, "field_evolve float", Storage::kFloat, {1, 16, 16, 16, 8}, Stencil::kLaplace, 0, 10);
  profile_evolve<float>(all, "field_evolve float", Storage::kFloat, {1, 32, 32, 32, 1});
  profile_evolve<BFloat16>(all, "field_evolve bfloat16", Storage::kBFloat16, {1, 32, 32, 32, 32});
  profile_evolve<double>(all, "field_evolve double", Storage::kDouble, {1, 32, 32, 32, 8});
  profile_gradient<float>(all, "field_gradient float", Storage::kFloat, {1, 16, 32, 32, 8}, GradientKind::kDerivatives);
  profile_gradient<float>(all, "gradient_magnitude float", Storage::kFloat, {1, 16, 32, 32, 8},
                          GradientKind::kMagnitude);
  profile_gradient<float>(all, "field_gradient backward float", Storage::kFloat, {1, 16, 32, 32, 8},
                          GradientKind::kTransposed);
  profile_gradient<BFloat16>(all, "field_gradient bfloat16", Storage::kBFloat16, {1, 16, 32, 32, 16},
                             GradientKind::kDerivatives);
  profile_moments<float>(all, "field_moments float", Storage::kFloat, 32768, 64);
  profile_control<float>(all, "field_control float", Storage::kFloat, 64, false);
  profile_control<float>(all, "field_control float dense", Storage::kFloat, 64, true);
  profile_moments<BFloat16>(all, "field_moments bfloat16", Storage::kBFloat16, 32768, 64);
}

}  // namespace torch_hrr::cuda_on_host::profile
