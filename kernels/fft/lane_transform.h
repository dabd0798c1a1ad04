// Transforms of short real rows side by side: the formulas stand in lane_plan.h.
//
// Number n of W rows is a vector, with a row in each lane; a spectrum is plan.points such vectors of real parts
// and as many of imaginary ones. W is kLanes or 4, which gives the same bits.
#pragma once

#include "kernels/fft/fft.h"
#include "kernels/fft/lane_plan.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// Where vectors p = 0, 1, ... lie: those of even p and those of odd p, each kind `step` numbers apart.
template <typename Element>
struct LaneVectors {
  Element* even;
  Element* odd;
  int64_t step;

  KERNEL_HOST_DEVICE Element* at(int64_t p) const {
    return (p % 2 == 0 ? even : odd) + p / 2 * step;
  }
};

// vectors <- `count` numbers of each row
template <int W, typename T>
void rows_to_lanes(const T* const* rows, int64_t count, const LaneVectors<T>& vectors);
// rows <- the vectors times scale[lane]. Returns a mask of the lanes with a result that is not finite.
template <int W, typename T>
uint32_t lanes_to_rows(const LaneVectors<const T>& vectors, int64_t count, const T* scale, T* const* rows);

// spectra <- the transforms of the rows
template <int W, typename T>
void lane_forward(const LanePlan<T>& plan, const T* const* rows, Split<T> spectra, Split<T> work);
// rows <- scale[lane] times the unscaled inverse transforms; the spectra are overwritten. Returns what lanes_to_rows
// does.
template <int W, typename T>
uint32_t lane_inverse(const LanePlan<T>& plan, Split<T> spectra, Split<T> work, const T* scale, T* const* rows);

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
