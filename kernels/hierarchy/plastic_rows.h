// How the CPU divides a layer that learns: groups of units over threads, tiles of ticks over time.
#pragma once

#include <cstdint>

#include "kernels/hierarchy/plastic.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {

// Units that a thread takes at a time: their outputs of a tick fill a cache line.
constexpr int64_t kPlasticGroup = 16;

// Of float and of double; rows are groups of units of all learners, or learners where units are coupled.
struct PlasticKernels {
  RowKernel<PlasticParams> of_float, of_double;
};

KERNEL_ISA_BEGIN

inline int64_t plastic_groups(const PlasticParams& p) {
  return (p.units + kPlasticGroup - 1) / kPlasticGroup;
}
inline int64_t plastic_rows(const PlasticParams& p) {
  return p.coupled() ? p.learners : p.learners * plastic_groups(p);
}

// Ticks whose inputs stay in the second cache.
template <typename T>
constexpr int64_t plastic_tile(const PlasticParams& p) {
  constexpr int64_t kBytes = 128 * 1024;
  const int64_t ticks = kBytes / (p.batch * p.size * static_cast<int64_t>(sizeof(T)));
  return ticks < 1 ? 1 : ticks < 512 ? ticks : 512;
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
