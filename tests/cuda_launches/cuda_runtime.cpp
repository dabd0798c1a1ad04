// A CUDA runtime that records launches and runs nothing: what the launch code of .cu files is linked with here.
//
// Every object of nvcc registers its kernels by name before main starts. A launch is remembered by that name, its block
// and its shared memory; the device that the launch code asks about is the smallest one that is supported.
#include "tests/cuda_launches/cuda_runtime.h"

#include <cuda_runtime_api.h>

#include <map>

namespace torch_hrr::cuda_launches {
namespace {

// Function-local, as kernels are registered by the constructors of other files.
std::map<const void*, std::string>& names() {
  static std::map<const void*, std::string> all;
  return all;
}
std::set<Launch>& recorded() {
  static std::set<Launch> all;
  return all;
}

}  // namespace

std::set<std::string> registered_kernels() {
  std::set<std::string> all;
  for (const auto& [function, name] : names()) {
    all.insert(name);
  }
  return all;
}

const std::set<Launch>& launches() {
  return recorded();
}

}  // namespace torch_hrr::cuda_launches

using torch_hrr::cuda_launches::kDeviceSharedBytes;
using torch_hrr::cuda_launches::kDeviceThreads;
using torch_hrr::cuda_launches::names;
using torch_hrr::cuda_launches::recorded;

extern "C" {

// What nvcc's own code calls when a program starts; its headers declare these for its own use alone.
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {
  names()[host_function] = name;
}

// What `kernel<<<...>>>` would call: here kernels start through cudaLaunchKernel alone.
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*) {
  return cudaErrorNotSupported;
}
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) {
  return cudaErrorNotSupported;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return cudaErrorNotSupported;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "not known to the recording runtime";
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = kDeviceThreads;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kDeviceSharedBytes;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int) {
  return names().count(function) != 0 ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}
cudaError_t cudaLaunchKernel(const void* function, dim3, dim3 block, void**, std::size_t shared_bytes, cudaStream_t) {
  const auto found = names().find(function);
  if (found == names().end()) {
    return cudaErrorInvalidDeviceFunction;
  }
  recorded().insert({found->second, static_cast<int>(block.x * block.y * block.z), shared_bytes});
  return cudaSuccess;
}

}  // extern "C"
