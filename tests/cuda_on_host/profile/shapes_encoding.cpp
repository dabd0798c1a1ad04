// The kernels of encodings as the operators launch them.
#include "tests/cuda_on_host/shim.h"

#include "kernels/encoding/frequency_ladder.h"
#include "kernels/encoding/launch_rotation.cuh"
#include "tests/cuda_on_host/profile/shapes.h"

namespace torch_hrr::cuda_on_host::profile {

namespace {

using namespace torch_hrr::kernels;

struct Ladder {
  std::vector<uint64_t> fraction, whole, offset;

  explicit Ladder(int64_t dim) {
    for (const FixedPoint& turn : frequency_ladder(dim, 10000, 1)) {
      fraction.push_back(turn.fraction);
      whole.push_back(turn.whole);
      offset.push_back(0);
    }
  }
  TurnArrays arrays() const {
    return {fraction.data(), whole.data(), offset.data()};
  }
};

template <typename S>
struct Rows {
  std::vector<int64_t> positions;
  std::vector<S> out;
  SinusoidParams params;

  Rows(int64_t rows, int64_t dim, bool interleaved = true) : out(poisoned<S>(static_cast<std::size_t>(rows * dim))) {
    for (int64_t r = 0; r < rows; ++r) {
      positions.push_back(r);
    }
    params = {{positions.data(), PositionType::kInt64, rows}, out.data(), rows, dim, interleaved};
  }
};

template <typename S>
void profile_encoding(std::vector<Profile>& all, const std::string& type, Storage storage, int64_t rows, int64_t dim,
                      bool interleaved = true) {
  const Rows<S> of(rows, dim, interleaved);
  const Ladder ladder(dim);
  profile(all, "sinusoidal_encoding " + type, shape_of(rows, dim) + (interleaved ? "" : " half"),
          {{"positions", of.positions.data()}, {"out", of.out.data(), Role::kResult}},
          [&] { launch_sinusoids_with(storage, of.params, ladder.arrays(), HostLauncher{}); });
}

void profile_features(std::vector<Profile>& all, int64_t rows, int64_t frequencies) {
  const Rows<float> of(rows, 2 * frequencies);
  const std::vector<float> held = normal_elements(frequencies, 1);
  HeldFrequencies numbers;
  numbers.frequencies = held.data();
  profile(all, "sinusoidal_features", shape_of(rows, frequencies),
          {{"positions", of.positions.data()}, {"frequencies", held.data()}, {"out", of.out.data(), Role::kResult}},
          [&] { launch_sinusoids_with(Storage::kFloat, of.params, numbers, HostLauncher{}); });
}

void profile_angle_gradient(std::vector<Profile>& all, int64_t rows, int64_t frequencies) {
  const Rows<float> of(rows, 2 * frequencies);
  const std::vector<float> held = normal_elements(frequencies, 1);
  const std::vector<float> grad = normal_elements(2 * rows * frequencies, 2);
  auto out = poisoned<float>(static_cast<std::size_t>(rows * frequencies));
  HeldFrequencies numbers;
  numbers.frequencies = held.data();
  AngleGradientParams params;
  params.sinusoid = of.params;
  params.sinusoid.out = out.data();
  params.grad = grad.data();
  profile(all, "sinusoidal_features backward", shape_of(rows, frequencies),
          {{"grad", grad.data()},
           {"positions", of.positions.data()},
           {"frequencies", held.data()},
           {"out", out.data(), Role::kResult}},
          [&] { launch_angle_gradient_with(params, numbers, HostLauncher{}); });
}

// Queries [batch, heads, length, dim] at positions [length].
template <typename S>
void profile_rotation(std::vector<Profile>& all, const std::string& type, Storage storage, int64_t heads,
                      int64_t length, int64_t dim, bool interleaved) {
  const Ladder ladder(dim);
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < length; ++i) {
    positions.push_back(i);
  }
  std::vector<S> x;
  for (const float element : normal_elements(heads * length * dim, 1)) {
    x.push_back(static_cast<S>(element));
  }
  auto out = poisoned<S>(x.size());
  RotationParams params;
  params.x = x.data();
  params.out = out.data();
  params.positions = {positions.data(), PositionType::kInt64, length};
  params.dim = params.turned = dim;
  params.interleaved = interleaved;
  params.places.ndim = params.repeats.ndim = 1;
  params.places.sizes[0] = params.place_count = length;
  params.repeats.sizes[0] = params.repeat_count = heads;
  for (int operand = 0; operand < 2; ++operand) {
    params.places.strides[operand][0] = dim;
    params.repeats.strides[operand][0] = length * dim;
  }
  params.places.strides[2][0] = 1;
  profile(all, "rotate " + type, shape_of(heads, length, dim) + (interleaved ? "" : " half"),
          {{"x", x.data()}, {"positions", positions.data()}, {"out", out.data(), Role::kResult}},
          [&] { launch_rotation_with(storage, params, ladder.arrays(), HostLauncher{}); });
}

// Every row of the table once.
template <typename S>
void profile_embedding(std::vector<Profile>& all, const std::string& type, Storage storage, int64_t rows, int64_t dim) {
  const Rows<S> of(rows, dim);
  const Ladder ladder(dim);
  const std::vector<float> normal = normal_elements(rows * dim, 1);
  std::vector<S> table;
  table.reserve(normal.size());
  for (const float x : normal) {
    table.push_back(static_cast<S>(x));
  }
  const std::vector<int64_t> tokens(of.positions.rbegin(), of.positions.rend());
  TableParams params;
  params.sinusoid = of.params;
  params.sinusoid.positions = {nullptr, PositionType::kInt64, rows};
  params.table = table.data();
  params.table_storage = storage;
  params.table_rows = rows;
  params.table_stride = dim;
  params.tokens = tokens.data();
  profile(all, "embed_positions " + type, shape_of(rows, dim),
          {{"tokens", tokens.data()}, {"table", table.data()}, {"out", of.out.data(), Role::kResult}},
          [&] { launch_sinusoids_with(storage, params, ladder.arrays(), HostLauncher{}); });
}

}  // namespace

void profile_encoding(std::vector<Profile>& all) {
  profile_encoding<float>(all, "float", Storage::kFloat, 2048, 1024);
  profile_encoding<float>(all, "float", Storage::kFloat, 128, 1024, false);
  profile_encoding<BFloat16>(all, "bfloat16", Storage::kBFloat16, 128, 1024);
  profile_encoding<double>(all, "double", Storage::kDouble, 128, 512);
  profile_features(all, 128, 512);
  profile_angle_gradient(all, 128, 512);
  profile_rotation<float>(all, "float", Storage::kFloat, 32, 256, 128, false);
  profile_rotation<BFloat16>(all, "bfloat16", Storage::kBFloat16, 32, 256, 128, false);
  profile_rotation<BFloat16>(all, "bfloat16", Storage::kBFloat16, 32, 128, 64, true);
  profile_embedding<float>(all, "float", Storage::kFloat, 128, 512);
  profile_embedding<BFloat16>(all, "bfloat16", Storage::kBFloat16, 128, 512);
}

}  // namespace torch_hrr::cuda_on_host::profile
