// The analytic frequencies of an encoding, scale base^(-2i/dim), as turns per position.
#pragma once

#include <vector>

#include "kernels/encoding/turns.h"

namespace torch_hrr::kernels {

// Frequencies i = 0 to (dim - 1) / 2, at most 2^60. Those up to 2^20 are the nearest multiple of 2^-64 turns or the
// one beside it; larger ones have some 95 correct bits. base is positive.
std::vector<FixedPoint> frequency_ladder(int64_t dim, double base, double scale);

}  // namespace torch_hrr::kernels
