// The checked kernel launcher of .cu files: limits, dynamic shared memory above 48 KiB, errors that name the kernel.
//
//   launch("family_kernel", family_kernel<float>, grid_for(rows), dim3(256), shared_bytes, stream, params);
//
// Throws std::runtime_error before anything runs if the launch does not fit the current device; errors of the kernel
// itself surface at the caller's next synchronising call. Can be captured in a CUDA graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#elif !defined(KERNEL_CUDA_ON_HOST)
#error "kernels/cuda/launch.cuh is compiled by nvcc, or by a host compiler after tests/cuda_on_host/shim.h"
#endif

namespace torch_hrr::kernels {

constexpr int64_t kMaxGridX = 2147483647;
constexpr int64_t kMaxGridYZ = 65535;
constexpr int64_t kMaxBlockXY = 1024;
constexpr int64_t kMaxBlockZ = 64;
constexpr std::size_t kDefaultSharedBytes = 48 * 1024;

// Parameters of a kernel: 32,764 bytes from sm_70 and CUDA 12.1 on, else 4096. The host shim takes the larger limit.
#if defined(__CUDACC__) && (CUDART_VERSION < 12010 || !defined(__CUDA_ARCH_LIST__))
constexpr std::size_t kMaxParameterBytes = 4096;
#elif defined(__CUDACC__)
constexpr int kArchitectures[] = {__CUDA_ARCH_LIST__};  // ascending
constexpr std::size_t kMaxParameterBytes = kArchitectures[0] >= 700 ? 32764 : 4096;
#else
constexpr std::size_t kMaxParameterBytes = 32764;
#endif

struct LaunchLimits {
  int64_t threads_per_block = 1024;
  std::size_t shared_bytes = kDefaultSharedBytes;
};

// Blocks for `work` items at `per_block` each, at most max_blocks: a kernel whose work may exceed that strides by
// gridDim.x. No work gives 0 blocks, which launch refuses, so the caller must return first.
inline dim3 grid_for(int64_t work, int64_t per_block = 1, int64_t max_blocks = kMaxGridX) {
  const int64_t blocks = work / per_block + (work % per_block != 0 ? 1 : 0);
  return dim3(static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks));
}

inline std::string to_text(dim3 shape) {
  return std::to_string(shape.x) + "x" + std::to_string(shape.y) + "x" + std::to_string(shape.z);
}

// Whole KiB as "96 KiB", anything else as "98305 bytes".
inline std::string bytes_to_text(std::size_t bytes) {
  return bytes % 1024 == 0 ? std::to_string(bytes / 1024) + " KiB" : std::to_string(bytes) + " bytes";
}

inline void check_launch(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes,
                         const LaunchLimits& limits) {
  const auto fail = [name](const std::string& text) { throw std::runtime_error(std::string(name) + ": " + text); };
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
    fail("the grid must not be empty, got " + to_text(grid));
  }
  if (grid.x > kMaxGridX || grid.y > kMaxGridYZ || grid.z > kMaxGridYZ) {
    fail("the grid must be at most 2147483647x65535x65535, got " + to_text(grid));
  }
  const bool block_fits = block.x <= kMaxBlockXY && block.y <= kMaxBlockXY && block.z <= kMaxBlockZ;
  const uint64_t threads = static_cast<uint64_t>(block.x) * block.y * block.z;
  if (!block_fits || threads == 0 || threads > static_cast<uint64_t>(limits.threads_per_block)) {
    fail("the block must have 1 to " + std::to_string(limits.threads_per_block) +
         " threads (at most 64 along z), got " + to_text(block));
  }
  if (shared_bytes > limits.shared_bytes) {
    fail(bytes_to_text(shared_bytes) + " of shared memory exceed the device's limit of " +
         bytes_to_text(limits.shared_bytes));
  }
}

// A kernel's parameters are copied to the device byte by byte.
template <typename... Params>
constexpr bool parameters_fit() {
  return (std::is_trivially_copyable_v<Params> && ... && true) && (sizeof(Params) + ... + 0) <= kMaxParameterBytes;
}

#if defined(__CUDACC__)

inline void check_cuda(const char* name, const char* call, cudaError_t error) {
  if (error != cudaSuccess) {
    // Cleared, or the next check of an unrelated call would report it again.
    (void)cudaGetLastError();
    throw std::runtime_error(std::string(name) + ": " + call + ": " + cudaGetErrorString(error));
  }
}

// Limits of the current device; each thread asks the runtime once per device.
inline LaunchLimits device_limits(const char* name) {
  struct Known {
    bool asked = false;
    LaunchLimits limits;
  };
  constexpr int kDevices = 64;
  thread_local Known known[kDevices];
  int device = 0;
  check_cuda(name, "cudaGetDevice", cudaGetDevice(&device));
  if (device < kDevices && known[device].asked) {
    return known[device].limits;
  }
  int threads = 0;
  int shared_bytes = 0;
  check_cuda(name, "cudaDeviceGetAttribute", cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerBlock, device));
  check_cuda(name, "cudaDeviceGetAttribute",
             cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  const LaunchLimits limits{threads, static_cast<std::size_t>(shared_bytes)};
  if (device < kDevices) {
    known[device] = {true, limits};
  }
  return limits;
}

template <typename... Params, typename... Args>
void launch(const char* name, void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, const Args&... args) {
  static_assert(parameters_fit<Params...>(),
                "launch: parameters must be trivially copyable and within kMaxParameterBytes");
  static_assert(sizeof...(Params) == sizeof...(Args), "launch: one argument for each parameter of the kernel");
  check_launch(name, grid, block, shared_bytes, device_limits(name));
  const void* function = reinterpret_cast<const void*>(kernel);
  if (shared_bytes > kDefaultSharedBytes) {
    check_cuda(
        name, "cudaFuncSetAttribute",
        cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  }
  const auto start = [&](Params... params) {
    void* addresses[] = {const_cast<void*>(static_cast<const void*>(&params))..., nullptr};
    return cudaLaunchKernel(function, grid, block, addresses, shared_bytes, stream);
  };
  check_cuda(name, "launch", start(static_cast<Params>(args)...));
}

// Passed to the functions that choose kernels and grids; tests pass them a launcher of the host shim.
struct DeviceLauncher {
  cudaStream_t stream;

  template <typename... Params, typename... Args>
  void operator()(const char* name, void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes,
                  const Args&... args) const {
    launch(name, kernel, grid, block, shared_bytes, stream, args...);
  }
};

#endif

}  // namespace torch_hrr::kernels
