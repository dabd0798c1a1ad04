// Launches of sinusoids on the current CUDA stream.
#include "csrc/encoding/waves.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "csrc/rows.h"
#include "kernels/encoding/cuda_launch.h"

namespace torch_hrr::encoding::cuda {
namespace {

template <typename Params, typename Frequencies>
void launch(const Params& params, const Frequencies& frequencies, const at::Tensor& out) {
  const c10::cuda::CUDAGuard guard(out.device());
  kernels::launch_sinusoids(storage_of(out), params, frequencies, c10::cuda::getCurrentCUDAStream().stream());
}

}  // namespace

void execute(const kernels::SinusoidParams& params, const TurnTable& turns, const at::Tensor& out) {
  launch(params, turns.arrays(), out);
}
void execute(const kernels::SinusoidParams& params, const kernels::HeldFrequencies& held, const at::Tensor& out) {
  launch(params, held, out);
}
void execute(const kernels::TableParams& params, const TurnTable& turns, const at::Tensor& out) {
  launch(params, turns.arrays(), out);
}
void execute(const kernels::RotationParams& params, const TurnTable& turns, const at::Tensor& out) {
  launch(params, turns.arrays(), out);
}
void execute(const kernels::RotationParams& params, const kernels::HeldFrequencies& held, const at::Tensor& out) {
  launch(params, held, out);
}
void execute(const kernels::AngleGradientParams& params, const kernels::HeldFrequencies& held, const at::Tensor& out) {
  const c10::cuda::CUDAGuard guard(out.device());
  kernels::launch_angle_gradient(params, held, c10::cuda::getCurrentCUDAStream().stream());
}

}  // namespace torch_hrr::encoding::cuda
