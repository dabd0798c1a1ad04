// The CUDA entry point of layers that learn. Plain C++: includes no CUDA header.
//
// Pointers are device pointers. Work is queued on the stream and nothing is synchronised or allocated, so calls can be
// captured in a graph. There are learners, ticks and units; a failed launch throws std::runtime_error.
#pragma once

#include "kernels/cuda/stream.h"
#include "kernels/hierarchy/competition.h"
#include "kernels/hierarchy/plastic.h"
#include "kernels/hierarchy/plastic_backward.h"
#include "kernels/hierarchy/plastic_tangent.h"
#include "kernels/storage.h"

namespace torch_hrr::kernels {

// Of float or of double.
void launch_plastic(Storage storage, const PlasticParams& params, CudaStream stream);
void launch_competing(Storage storage, const CompetingParams& params, CudaStream stream);

// The gradient, and the elements of its workspace.
int64_t plastic_backward_workspace(Storage storage, const PlasticBackwardParams& params);
void launch_plastic_backward(Storage storage, const PlasticBackwardParams& params, CudaStream stream);

// Likewise the tangents.
int64_t plastic_tangent_workspace(Storage storage, const PlasticTangentParams& params);
void launch_plastic_tangent(Storage storage, const PlasticTangentParams& params, CudaStream stream);

}  // namespace torch_hrr::kernels
