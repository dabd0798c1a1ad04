// The state of a batch of brains as a list of tensors, as project_ takes it.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <memory>
#include <vector>

#include "kernels/assembly/rounds.h"
#include "kernels/assembly/rounds_launch.h"

namespace torch_hrr::assembly {

using kernels::Area;
using kernels::Brain;
using kernels::Fiber;
using kernels::Stimulus;

struct State {
  int64_t brains = 0;
  int64_t rounds = 0;  // at most so many are left to any brain
  Brain first;         // the first brain of the batch: the others' arrays follow it
  // What the fibers' connectomes point at: null for a graph of the user's own.
  std::vector<std::shared_ptr<const kernels::GapTables>> tables;
  std::vector<double> densities;
  at::Tensor progress;  // [brains, 1 + fibers]: rounds left, and chunks needed by each fiber

  // What a GPU runs; `gaps` are the tables of the fibers there.
  kernels::RoundsLaunch launch(const std::vector<kernels::DeviceGapTables>& gaps) const;
};

// Reads the list in the order in which torch_hrr/assembly/_state.py writes it; every tensor's type, sizes and device
// (that of the first) are checked; `op` is named in errors.
State read_state(const char* op, at::TensorList tensors, at::IntArrayRef layout, c10::ArrayRef<double> rates,
                 int64_t seed);
// No two of the tensors share memory.
void check_apart(const char* op, std::initializer_list<at::TensorList> lists);

#if defined(TORCH_HRR_WITH_CUDA)
namespace cuda {
// Queues the rounds of every brain on the current stream; no synchronisation but for the upload of a density's tables
// on its first use on a device, which must not be captured in a graph. A replay is the next call with these tensors:
// rounds are numbered within a call, and progress alone says how many are left.
void project(const State& state);
// counts [brains, n] = the sums of a stimulus, by a table that is on the host.
void stimulus_counts(const kernels::BinomialTable& table, const std::vector<uint64_t>& thresholds, int64_t seed,
                     int64_t fiber, const at::Tensor& counts);
}  // namespace cuda
#endif

}  // namespace torch_hrr::assembly
