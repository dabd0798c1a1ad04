// Runs the CPU's kernel, which the kernels on the host are compared with.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/registry.h"

namespace torch_hrr::kernels {

template <typename Params>
void run_rows_on_cpu(const RowKernel<Params>& kernel, const Params& params, int64_t rows) {
  std::vector<char> memory(static_cast<std::size_t>(kernel.scratch(params)) + 64);
  void* scratch = memory.data();
  std::size_t space = memory.size();
  kernel.run(params, 0, rows, std::align(64, space - 64, scratch, space));
}

}  // namespace torch_hrr::kernels
