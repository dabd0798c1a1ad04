// The kernels of spectra of rows of any length: Bluestein's sum in double, and the maps of a library's bins.
#include "tests/cuda_on_host/shim.h"

#include "kernels/hrr/launch_chirp.cuh"
#include "kernels/hrr/library_bins.cuh"
#include "tests/cuda_on_host/hrr_maps.h"
#include "tests/cuda_on_host/profile/shapes.h"

namespace torch_hrr::cuda_on_host::profile {

namespace {

using namespace torch_hrr::kernels;
using namespace torch_hrr::kernels::hrr_testing;

// A prime, whose sum takes transforms of 2048 points.
constexpr int64_t kRows = 16;
constexpr int64_t kDim = 1009;
using OneLength = Lengths<11, 11>;

template <typename Launches>
void profile_chirp(std::vector<Profile>& all, const char* op, const std::string& shape, const DeviceChirp& chirp,
                   std::vector<NamedArray> arrays, const void* out, const Launches& launches) {
  arrays.push_back({"out", out, Role::kResult});
  arrays.push_back({"chirp", chirp.numbers(), Role::kTable});
  arrays.push_back({"twiddles", twiddle_table<double>(), Role::kTable});
  profile(all, op, shape, arrays, launches);
}

void profile_chirps(std::vector<Profile>& all) {
  const std::string shape = shape_of(kRows, kDim);
  const DeviceChirp chirp(kDim);
  const Rows<double> a = tame_rows<double>(kRows, kDim, 1);
  const Rows<double> v(kRows, kDim, 2);
  auto out = poisoned<double>(a.values.size());
  const auto map = [&](const char* op, SpectralMap kind) {
    SpectralMapParams params = chirp.planned(map_params(kind, a, v, kRows));
    params.out = out.data();
    std::vector<NamedArray> arguments = {{"a", a.values.data()}};
    if (takes_direction(kind)) {
      arguments.push_back({"v", v.values.data()});
    }
    profile_chirp(all, op, shape, chirp, arguments, out.data(),
                  [&] { launch_chirp<OneLength>(params, HostLauncher{}); });
  };
  map("inverse double", SpectralMap::kInverse);
  map("inverse_backward double", SpectralMap::kInverseBackward);

  for (const bool inverse : {false, true}) {
    PackedSpectrumParams packed = chirp.planned(packed_params(a, kRows, inverse));
    packed.out = out.data();
    profile_chirp(all, inverse ? "from_spectrum double" : "spectrum double", shape, chirp, {{"in", packed.in}},
                  packed.out, [&] { launch_chirp<OneLength>(packed, HostLauncher{}); });
  }

  constexpr int64_t kItems = 4;
  auto product = poisoned<double>(static_cast<std::size_t>(kRows / kItems * kDim));
  MultibindParams multibind = chirp.planned(multibind_params(a, kRows / kItems, kItems));
  multibind.out = product.data();
  profile_chirp(all, "multibind double", shape_of(multibind.rows, kItems, kDim), chirp,
                {{"vectors", multibind.vectors}}, product.data(),
                [&] { launch_chirp<OneLength>(multibind, HostLauncher{}); });
}

void profile_library_bins(std::vector<Profile>& all, int64_t rows, int64_t dim) {
  LibraryBins bins(rows, dim);
  profile(all, "inverse, a library's bins", shape_of(rows, dim),
          {{"bins", bins.values.data(), Role::kState}, {"norms", bins.norms.data()}, {"scales", bins.scales.data()}},
          [&] { launch_library_bins(bins.params(bins.values, SpectralMap::kInverse, false), HostLauncher{}); });
}

}  // namespace

void profile_hrr_bins(std::vector<Profile>& all) {
  profile_chirps(all);
  profile_library_bins(all, 4, 10'000);
}

}  // namespace torch_hrr::cuda_on_host::profile
