// Divides a workspace into the arrays through which a chain of kernels communicates.
#pragma once

#include <cstdint>

namespace torch_hrr::kernels {

// Hands out arrays one after another, each aligned to the 32 bytes of a sector if `memory` is; with nullptr it only
// counts the bytes.
class WorkspaceCarver {
 public:
  explicit WorkspaceCarver(void* memory) : memory_(static_cast<unsigned char*>(memory)) {}

  template <typename T>
  T* take(int64_t count) {
    constexpr int64_t kAlignment = 32;
    auto* const array = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
    used_ += (count * static_cast<int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
    return array;
  }
  int64_t used() const {
    return used_;
  }

 private:
  unsigned char* memory_;
  int64_t used_ = 0;
};

}  // namespace torch_hrr::kernels
