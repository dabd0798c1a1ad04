// Definitions of the launches of hrr_testing.h, for the files that instantiate them: hrr_launches_*.cpp.
#pragma once

#include "tests/cuda_on_host/hrr_testing.h"

#include <type_traits>

#include "kernels/hrr/launch_product.cuh"
#include "kernels/hrr/launch_spectra.cuh"
#include "kernels/hrr/launch_superposition.cuh"

namespace torch_hrr::kernels::hrr_testing {

// In double: a warp's rows and a block's row, both widths of a run of elements.
template <typename S>
using TestedLengths = std::conditional_t<std::is_same_v<S, double>, Lengths<8, 9>, AllLengths>;

// launch(lengths) for products, of which the shortest are tested, too.
template <typename S, typename Launch>
void with_tested_lengths(const RowPlan& plan, const Launch& launch) {
  if constexpr (std::is_same_v<S, double>) {
    if (plan.length == 32) {
      return launch(Lengths<4, 4>{});
    }
  }
  launch(TestedLengths<S>{});
}

template <typename S>
void run_binding(const BindParams& params, const Schedule& schedule, int threads) {
  const BindSuperposeParams record = sum_of_one(planned<S>(params));
  with_tested_lengths<S>(record.plan, [&](auto lengths) {
    launch_product<compute_t<S>, false, decltype(lengths)>("bind", kStorage<S>, record, params.product,
                                                           HostLauncher{schedule}, threads);
  });
}

template <typename S>
void run_bind_superpose(const BindSuperposeParams& params, const Schedule& schedule, int threads) {
  const BindSuperposeParams record = planned<S>(params);
  with_tested_lengths<S>(record.plan, [&](auto lengths) {
    launch_product<compute_t<S>, true, decltype(lengths)>("bind_superpose", kStorage<S>, record, Product::kConvolution,
                                                          HostLauncher{schedule}, threads);
  });
}

template <typename S>
void run_backward(const BindBackwardParams& params, const Schedule& schedule, int threads) {
  const BindBackwardParams gradients = planned<S>(params);
  with_tested_lengths<S>(gradients.plan, [&](auto lengths) {
    launch_product_backward<compute_t<S>, decltype(lengths)>(kStorage<S>, gradients, HostLauncher{schedule}, threads);
  });
}

template <typename S>
void run_superposition(const SuperpositionParams& params, const Schedule& schedule, int64_t max_blocks) {
  const SuperpositionPlan plan = superposition_plan(params.items, params.dim, sizeof(S));
  auto workspace =
      poisoned<compute_t<S>>(static_cast<size_t>(superposition_workspace_elements(plan, params.rows, params.dim)));
  launch_superposition(kStorage<S>, params, workspace.data(), HostLauncher{schedule}, max_blocks);
}

template <typename S>
void run_spectral_map_kernel(const SpectralMapParams& params, const Schedule& schedule, int threads) {
  launch_spectra<compute_t<S>, TestedLengths<S>>(kStorage<S>, planned<S>(params), HostLauncher{schedule}, threads);
}

template <typename S>
void run_multibind_kernel(const MultibindParams& params, const Schedule& schedule, int threads) {
  launch_spectra<compute_t<S>, TestedLengths<S>>(kStorage<S>, planned<S>(params), HostLauncher{schedule}, threads);
}

template <typename S>
void run_packed_spectrum_kernel(const PackedSpectrumParams& params, const Schedule& schedule, int threads) {
  launch_spectra<compute_t<S>, TestedLengths<S>>(kStorage<S>, planned<S>(params), HostLauncher{schedule}, threads);
}

template <typename S>
void run_bind_spectrum_kernel(const SpectrumBindParams& params, const Schedule& schedule, int threads) {
  launch_spectra<compute_t<S>, TestedLengths<S>>(kStorage<S>, planned<S>(params), HostLauncher{schedule}, threads);
}

}  // namespace torch_hrr::kernels::hrr_testing
