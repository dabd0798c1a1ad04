// The run-time name of a storage type.
#pragma once

#include <type_traits>

#include "kernels/numeric.h"
#include "kernels/storage.h"

namespace torch_hrr::kernels {

template <typename S>
constexpr Storage kStorage = std::is_same_v<S, float>    ? Storage::kFloat
                             : std::is_same_v<S, double> ? Storage::kDouble
                             : std::is_same_v<S, Half>   ? Storage::kHalf
                                                         : Storage::kBFloat16;

}  // namespace torch_hrr::kernels
