// The HRR kernels of one spectrum a row, as the operators launch them.
#include "tests/cuda_on_host/shim.h"

#include "kernels/hrr/launch_spectra.cuh"
#include "tests/cuda_on_host/hrr_maps.h"
#include "tests/cuda_on_host/profile/shapes.h"

namespace torch_hrr::cuda_on_host::profile {

namespace {

using namespace torch_hrr::kernels;
using namespace torch_hrr::kernels::hrr_testing;

constexpr int64_t kRows = 16;
constexpr int64_t kDim = 1024;
using OneLength = Lengths<9, 9>;

template <typename Launches>
void profile_rows(std::vector<Profile>& all, const char* op, const std::string& shape, std::vector<NamedArray> arrays,
                  const void* out, const Launches& launches) {
  arrays.push_back({"out", out, Role::kResult});
  arrays.push_back({"twiddles", twiddle_table<float>(), Role::kTable});
  profile(all, op, shape, arrays, launches);
}

}  // namespace

void profile_hrr_spectra(std::vector<Profile>& all) {
  const std::string shape = shape_of(kRows, kDim);
  const Rows<float> a = tame_rows<float>(kRows, kDim, 1);
  const Rows<float> v(kRows, kDim, 2);
  auto out = poisoned<float>(a.values.size());
  const auto map = [&](const char* op, SpectralMap kind) {
    SpectralMapParams params = planned<float>(map_params(kind, a, v, kRows));
    params.out = out.data();
    std::vector<NamedArray> arguments = {{"a", a.values.data()}};
    if (takes_direction(kind)) {
      arguments.push_back({"v", v.values.data()});
    }
    profile_rows(all, op, shape, arguments, out.data(),
                 [&] { launch_spectra<float, OneLength>(Storage::kFloat, params, HostLauncher{}); });
  };
  map("inverse", SpectralMap::kInverse);
  map("inverse_backward", SpectralMap::kInverseBackward);
  map("unitary", SpectralMap::kUnitary);
  map("bind_power", SpectralMap::kPower);

  for (const bool inverse : {false, true}) {
    PackedSpectrumParams packed = planned<float>(packed_params(a, kRows, inverse));
    packed.out = out.data();
    profile_rows(all, inverse ? "from_spectrum" : "spectrum", shape, {{"in", a.values.data()}}, out.data(),
                 [&] { launch_spectra<float, OneLength>(Storage::kFloat, packed, HostLauncher{}); });
  }

  SpectrumBindParams spectrum = planned<float>(spectrum_bind_params(a, v.values.data(), kRows));
  spectrum.out = out.data();
  profile_rows(all, "bind_spectrum", shape, {{"a", a.values.data()}, {"spectrum", v.values.data()}}, out.data(),
               [&] { launch_spectra<float, OneLength>(Storage::kFloat, spectrum, HostLauncher{}); });

  constexpr int64_t kItems = 4;
  MultibindParams multibind = planned<float>(multibind_params(a, kRows / kItems, kItems));
  auto product = poisoned<float>(static_cast<std::size_t>(multibind.rows * kDim));
  multibind.out = product.data();
  profile_rows(all, "multibind", shape_of(multibind.rows, kItems, kDim), {{"vectors", a.values.data()}}, product.data(),
               [&] { launch_spectra<float, OneLength>(Storage::kFloat, multibind, HostLauncher{}); });
}

}  // namespace torch_hrr::cuda_on_host::profile
