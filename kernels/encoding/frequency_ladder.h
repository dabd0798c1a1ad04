// The analytic frequencies of an encoding, scale base^(-2i/dim), as turns per position.
#pragma once

#include <vector>

#include "kernels/encoding/turns.h"

namespace torch_hrr::kernels {

// Frequencies i = 0 to (dim - 1) / 2, each to the nearest multiple of 2^-64 turns or the one beside it. base is
// positive and the frequencies are at most 2^60.
std::vector<FixedPoint> frequency_ladder(int64_t dim, double base, double scale);

}  // namespace torch_hrr::kernels
