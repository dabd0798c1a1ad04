// The CUDA entry points of fields. Plain C++: includes no CUDA header.
//
// Pointers are device pointers. Work is queued on the stream and nothing is synchronised or allocated, so calls can be
// captured in a graph. An empty field launches nothing; a failed launch throws std::runtime_error.
#pragma once

#include "kernels/cuda/stream.h"
#include "kernels/field/control.h"
#include "kernels/field/evolve.h"
#include "kernels/field/gradient.h"
#include "kernels/field/moments.h"
#include "kernels/storage.h"

namespace torch_hrr::kernels {

// At least one step. `workspace` is as large as the field; one step needs none.
void launch_evolve(Storage storage, const EvolveParams& params, const EvolveNumbers& numbers, int64_t steps,
                   void* workspace, CudaStream stream);
void launch_gradient(Storage storage, const GradientParams& params, CudaStream stream);
// `workspace`: of each robot as many elements as control_workspace says.
void launch_control(Storage storage, const ControlParams& params, int64_t* workspace, CudaStream stream);
void launch_moments(Storage storage, const MomentsParams& params, CudaStream stream);

}  // namespace torch_hrr::kernels
