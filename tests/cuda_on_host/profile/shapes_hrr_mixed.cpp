// The kernels of rows of any length in shared memory.
#include "tests/cuda_on_host/shim.h"

#include "kernels/hrr/launch_mixed.cuh"
#include "tests/cuda_on_host/hrr_maps.h"
#include "tests/cuda_on_host/hrr_mixed.h"
#include "tests/cuda_on_host/hrr_problems.h"
#include "tests/cuda_on_host/profile/shapes.h"

namespace torch_hrr::cuda_on_host::profile {

namespace {

using namespace torch_hrr::kernels;
using namespace torch_hrr::kernels::hrr_testing;

void profile_products(std::vector<Profile>& all, int64_t rows, int64_t dim) {
  const MixedTableOf<float> table(dim);
  const NamedArray named_table{"table", table.plan(), Role::kTable};
  const Rows<float> a(rows, dim, 1);
  const Rows<float> b(rows, dim, 2);
  auto out = poisoned<float>(a.values.size());
  BindParams params = binding_params(a, b, out, rows);
  params.plan.table = table.plan();
  profile(all, "bind", shape_of(rows, dim),
          {{"a", params.a}, {"b", params.b}, {"out", params.out, Role::kResult}, named_table},
          [&] { launch_mixed<float>(Storage::kFloat, params, HostLauncher{}); });
  Gradients<float> gradients(rows, dim, 1);
  BindBackwardParams backward = gradients.params();
  backward.plan.table = table.plan();
  profile(all, "bind_backward", shape_of(rows, dim),
          {{"grad", backward.grad},
           {"a", backward.a},
           {"b", backward.b},
           {"grad_a", backward.grad_a, Role::kResult},
           {"grad_b", backward.grad_b, Role::kResult},
           named_table},
          [&] { launch_mixed<float>(Storage::kFloat, backward, HostLauncher{}); });
}

void profile_spectra(std::vector<Profile>& all, int64_t rows, int64_t dim) {
  const MixedTableOf<float> table(dim);
  const NamedArray named_table{"table", table.plan(), Role::kTable};
  const Rows<float> a = tame_rows<float>(rows, dim, 1);
  auto out = poisoned<float>(a.values.size());
  SpectralMapParams map = map_params(SpectralMap::kInverse, a, a, rows);
  map.out = out.data();
  map.plan.table = table.plan();
  profile(all, "inverse", shape_of(rows, dim), {{"a", map.a}, {"out", map.out, Role::kResult}, named_table},
          [&] { launch_mixed<float>(Storage::kFloat, map, HostLauncher{}); });
  for (const bool inverse : {false, true}) {
    PackedSpectrumParams packed = packed_params(a, rows, inverse);
    packed.out = out.data();
    packed.plan.table = table.plan();
    profile(all, inverse ? "from_spectrum" : "spectrum", shape_of(rows, dim),
            {{"in", packed.in}, {"out", packed.out, Role::kResult}, named_table},
            [&] { launch_mixed<float>(Storage::kFloat, packed, HostLauncher{}); });
  }
  const Rows<float> b(rows, dim, 2);
  SpectrumBindParams binding = spectrum_bind_params(a, b.values.data(), rows);
  binding.out = out.data();
  binding.plan.table = table.plan();
  profile(all, "bind_spectrum", shape_of(rows, dim),
          {{"a", binding.a}, {"spectrum", binding.spectrum}, {"out", binding.out, Role::kResult}, named_table},
          [&] { launch_mixed<float>(Storage::kFloat, binding, HostLauncher{}); });

  constexpr int64_t kItems = 4;
  auto product = poisoned<float>(static_cast<std::size_t>(rows / kItems * dim));
  MultibindParams multibind = multibind_params(a, rows / kItems, kItems);
  multibind.out = product.data();
  multibind.plan.table = table.plan();
  profile(all, "multibind", shape_of(multibind.rows, kItems, dim),
          {{"vectors", multibind.vectors}, {"out", multibind.out, Role::kResult}, named_table},
          [&] { launch_mixed<float>(Storage::kFloat, multibind, HostLauncher{}); });
}

}  // namespace

void profile_hrr_mixed(std::vector<Profile>& all) {
  profile_products(all, 4, 5000);
  profile_spectra(all, 16, 1000);
}

}  // namespace torch_hrr::cuda_on_host::profile
