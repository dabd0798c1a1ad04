// The device of RoundsLauncher on the host, for tests and for the library of operators.
#pragma once

#include "tests/cuda_on_host/shim.h"

#include <algorithm>

#include "kernels/assembly/column_blocks.h"
#include "kernels/assembly/connectome.cuh"
#include "kernels/assembly/launch_rounds.cuh"
#include "kernels/assembly/launch_winners.cuh"

namespace torch_hrr::kernels::assembly_testing {

using cuda_on_host::HostLauncher;

// What RoundsLauncher asks of a device. Blocks and grids may be made smaller, which changes no result, and small areas
// may go the way of large ones.
struct RoundsHost : HostLauncher {
  unsigned threads = 64;  // of a block at most: barriers of many fibers are slow
  unsigned most_x = ~0u;
  unsigned most_y = ~0u;
  bool small = true;
  bool on_cpu = false;  // the CPU's engine in place of kernels
  ParallelFor parallel = nullptr;
  std::size_t shared_limit = kDefaultSharedBytes;
  int64_t* launches = nullptr;  // counts them

  template <typename... Params, typename... Args>
  void operator()(const char* name, void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes,
                  const Args&... args) const {
    if (launches != nullptr) {
      ++*launches;
    }
    HostLauncher::operator()(name, kernel, dim3(std::min(grid.x, most_x), std::min(grid.y, most_y)),
                             dim3(std::min(block.x, threads)), shared_bytes, args...);
  }
  bool takes_small() const {
    return small;
  }
  static int64_t select_bytes(const WinnersParams& params) {
    return WinnersWorkspace<int64_t>::bytes(params.rows, winners_plan(params.rows, params.n));
  }
  void select_top(const WinnersParams& params, void* workspace) const {
    launch_winners_rows<int64_t>(params, winners_plan(params.rows, params.n), workspace, *this, kWinnersThreads,
                                 kMaxGridX, shared_limit);
  }
  void deliver(const DeliverLaunch& params) const {
    launch_deliver_with(params, *this);
  }
};

// Workspaces are made of these: as aligned as a GPU's.
struct alignas(16) WorkspaceUnit {
  unsigned char bytes[16];
};

}  // namespace torch_hrr::kernels::assembly_testing
