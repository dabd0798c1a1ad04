// Gap tables on GPUs and the launches of the connectome on the current CUDA stream.
#include <span>
#include <utility>

#include "csrc/assembly/gap_tables.h"
#include "csrc/cache.h"
#include "csrc/execute.h"
#include "kernels/assembly/connectome_launch.h"

namespace torch_hrr::assembly::cuda {

at::Tensor gap_tables(double p, c10::Device device) {
  constexpr int64_t kMaxBytes = int64_t{32} << 20;
  static auto& tables = *new DeviceTables<std::pair<c10::DeviceIndex, double>>(kMaxBytes);
  return tables.get({device.index(), p}, [&](const auto&) {
    return torch_hrr::cuda::on_device(std::as_bytes(std::span(assembly::gap_tables(p).get(), 1)), device);
  });
}

void connectome_inputs(const at::Tensor& winners, double p, uint64_t key, const at::Tensor& counts) {
  const at::Tensor tables = gap_tables(p, counts.device());
  counts.zero_();
  kernels::DeliverLaunch params;
  params.gaps = {*assembly::gap_tables(p), static_cast<const kernels::GapTables*>(tables.const_data_ptr())};
  params.key = key;
  params.rows = winners.const_data_ptr<int64_t>();
  params.row_count = winners.size(-1);
  params.n = counts.size(-1);
  params.batches = counts.numel() / params.n;
  params.counts = counts.mutable_data_ptr<int32_t>();
  execute_on_cuda(counts, params);
}

}  // namespace torch_hrr::assembly::cuda
