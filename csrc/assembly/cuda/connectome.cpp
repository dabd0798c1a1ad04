// Gap tables on GPUs and the launches of the connectome on the current CUDA stream.
#include "csrc/assembly/connectome.h"

#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#include <mutex>
#include <utility>

#include "csrc/assembly/gap_tables.h"
#include "kernels/assembly/connectome_launch.h"

namespace torch_hrr::assembly::cuda {

// The first kMaxTables of a process (32 MiB) are kept until it ends, for a captured graph may hold their addresses, and
// never freed: the CUDA context may be gone before the statics are. Later ones live as long as their caller keeps them.
at::Tensor gap_tables(double p, c10::Device device) {
  constexpr size_t kMaxTables = 4096;
  static std::mutex mutex;
  static auto& kept = *new std::map<std::pair<int64_t, double>, at::Tensor>();
  const std::lock_guard<std::mutex> lock(mutex);
  const std::pair<int64_t, double> name{device.index(), p};
  if (const auto found = kept.find(name); found != kept.end()) {
    return found->second;
  }
  kernels::GapTables host = *assembly::gap_tables(p);
  const at::Tensor table = at::from_blob(&host, {static_cast<int64_t>(sizeof(host))}, at::kByte).to(device);
  if (kept.size() < kMaxTables) {
    kept.emplace(name, table);
  }
  return table;
}

void connectome_inputs(const at::Tensor& winners, double p, uint64_t key, const at::Tensor& counts) {
  const c10::cuda::CUDAGuard guard(counts.device());
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
  kernels::launch_deliver(params, c10::cuda::getCurrentCUDAStream().stream());
}

}  // namespace torch_hrr::assembly::cuda
