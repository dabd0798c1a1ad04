// Rounds of brains and the sums of stimuli on the current CUDA stream.
#include <span>
#include <vector>

#include "csrc/assembly/gap_tables.h"
#include "csrc/assembly/state.h"
#include "csrc/execute.h"

namespace torch_hrr::assembly::cuda {

void project(const State& state) {
  const c10::Device device = state.progress.device();
  std::vector<at::Tensor> tables;
  std::vector<kernels::DeviceGapTables> gaps;
  for (size_t f = 0; f < state.tables.size(); ++f) {
    gaps.emplace_back();
    if (state.tables[f] != nullptr) {
      tables.push_back(gap_tables(state.densities[f], device));
      gaps.back() = {*state.tables[f], static_cast<const kernels::GapTables*>(tables.back().const_data_ptr())};
    }
  }
  execute_on_cuda(state.progress, state.launch(gaps));
}

void stimulus_counts(const kernels::BinomialTable& table, const std::vector<uint64_t>& thresholds, int64_t seed,
                     int64_t fiber, const at::Tensor& counts) {
  const c10::Device device = counts.device();
  std::vector<uint64_t> keys;
  for (int64_t b = 0; b < counts.size(0); ++b) {
    keys.push_back(
        kernels::connectome_key(static_cast<uint64_t>(seed), static_cast<uint64_t>(b), static_cast<uint64_t>(fiber)));
  }
  const at::Tensor device_thresholds = torch_hrr::cuda::on_device(std::as_bytes(std::span(thresholds)), device);
  const at::Tensor device_keys = torch_hrr::cuda::on_device(std::as_bytes(std::span(keys)), device);
  kernels::StimulusLaunch params;
  params.table = table;
  params.table.thresholds = static_cast<const uint64_t*>(device_thresholds.const_data_ptr());
  params.keys = static_cast<const uint64_t*>(device_keys.const_data_ptr());
  params.batches = counts.size(0);
  params.n = counts.size(1);
  params.counts = counts.mutable_data_ptr<int32_t>();
  execute_on_cuda(counts, params);
}

}  // namespace torch_hrr::assembly::cuda
