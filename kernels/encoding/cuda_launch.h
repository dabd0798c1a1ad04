// The CUDA entry points of sinusoids. Plain C++: includes no CUDA header.
//
// Pointers of parameters are device pointers, but the arrays of turns are the host's and are read before the call
// returns. Work is queued on the stream and nothing is synchronised or allocated, so calls can be captured in a graph.
// No rows launch nothing; a failed launch throws std::runtime_error.
#pragma once

#include "kernels/cuda/stream.h"
#include "kernels/encoding/rotation.h"
#include "kernels/storage.h"

namespace torch_hrr::kernels {

// storage: of the result, and of rows to be turned. A table is stored in a type with the same compute type.
void launch_sinusoids(Storage storage, const SinusoidParams& params, const TurnArrays& turns, CudaStream stream);
void launch_sinusoids(Storage storage, const SinusoidParams& params, const HeldFrequencies& held, CudaStream stream);
void launch_sinusoids(Storage storage, const TableParams& params, const TurnArrays& turns, CudaStream stream);
void launch_sinusoids(Storage storage, const RotationParams& params, const TurnArrays& turns, CudaStream stream);
void launch_sinusoids(Storage storage, const RotationParams& params, const HeldFrequencies& held, CudaStream stream);
void launch_angle_gradient(const AngleGradientParams& params, const HeldFrequencies& held, CudaStream stream);

}  // namespace torch_hrr::kernels
