// What the recording CUDA runtime of cuda_runtime.cpp has seen.
#pragma once

#include <compare>
#include <cstddef>
#include <set>
#include <string>

namespace torch_hrr::cuda_launches {

// A block of compute capability 8.6, 8.9 or 12.0 has the least shared memory of all that are supported.
constexpr int kDeviceThreads = 1024;
constexpr int kDeviceSharedBytes = 99 * 1024;

struct Launch {
  std::string kernel;  // its mangled name
  int threads = 0;     // of a block
  std::size_t shared_bytes = 0;

  auto operator<=>(const Launch&) const = default;
};

std::set<std::string> registered_kernels();
const std::set<Launch>& launches();

}  // namespace torch_hrr::cuda_launches
