// The connectome on a GPU: parameters.
//
// Batches are rows of neurons with counts of their own. All of them share one key or, where `keys` is given, each has
// its own. A neuron outside 0 to 2^31 - 1 is skipped, so lists of several lengths are padded with -1.
#pragma once

#include <cstdint>

#include "kernels/assembly/connectome.h"
#include "kernels/cuda/call.h"

namespace torch_hrr::kernels {

// Tables on the device, and those of their fields that the host needs.
struct DeviceGapTables {
  const GapTables* tables = nullptr;
  int64_t width = 0;
  bool two_level = false;
  bool empty = true;

  DeviceGapTables() = default;
  DeviceGapTables(const GapTables& host, const GapTables* device)
      : tables(device), width(host.width), two_level(host.two_level != 0), empty(host.empty != 0) {}
};

// counts[b, j] += sign of r for every edge from rows[b, r] to column j < n; the order does not matter.
struct DeliverLaunch {
  DeviceGapTables gaps;
  uint64_t key = 0;
  const uint64_t* keys = nullptr;  // [batches], or null: `key`
  const int64_t* rows = nullptr;   // [batches, row_count]
  // [batches], on the device: how many of the rows there are; or null: all.
  const int32_t* row_counts = nullptr;
  int64_t batches = 1;
  int64_t row_count = 0;
  int64_t n = 0;
  int32_t sign = 1;
  const int32_t* signs = nullptr;  // [batches, row_count], or null: `sign`
  int32_t* counts = nullptr;       // [batches, n]
};
void queue(const CudaCall& call, const DeliverLaunch& params);

// counts[b, j] = stimulus_count(table, key, j) for columns j < n; table.thresholds lies on the device.
struct StimulusLaunch {
  BinomialTable table;
  uint64_t key = 0;
  const uint64_t* keys = nullptr;
  int64_t batches = 1;
  int64_t n = 0;
  int32_t* counts = nullptr;
};
void queue(const CudaCall& call, const StimulusLaunch& params);

}  // namespace torch_hrr::kernels
