// Launches of the connectome's kernels.
#include "kernels/assembly/connectome.cuh"

namespace torch_hrr::kernels {
namespace {

// What functions that choose kernels and grids pass them to.
auto on_stream(CudaStream stream) {
  return [stream](const char* name, auto kernel, dim3 grid, dim3 block, std::size_t shared_bytes, const auto& params) {
    launch(name, kernel, grid, block, shared_bytes, stream, params);
  };
}

}  // namespace

void launch_deliver(const DeliverLaunch& params, CudaStream stream) {
  launch_deliver_with(params, on_stream(stream));
}

void launch_match(const MatchLaunch& params, CudaStream stream) {
  launch_match_with(params, on_stream(stream));
}

void launch_stimulus_counts(const StimulusLaunch& params, CudaStream stream) {
  launch_stimulus_counts_with(params, on_stream(stream));
}

}  // namespace torch_hrr::kernels
