// How the elements of a tensor are stored: the run-time name of the types that the kernels are compiled for.
#pragma once

#include <cstdint>

namespace torch_hrr::kernels {

enum class Storage : int32_t { kFloat, kDouble, kHalf, kBFloat16 };

}  // namespace torch_hrr::kernels
