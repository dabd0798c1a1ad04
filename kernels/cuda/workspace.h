// Divides a workspace among the arrays that a chain of kernels leaves for each other.
#pragma once

#include <cstdint>

namespace torch_hrr::kernels {

// Hands out arrays one after the other, each aligned to 16 bytes as the memory is; without memory it only counts their
// bytes.
class WorkspaceCarver {
 public:
  explicit WorkspaceCarver(void* memory) : memory_(static_cast<unsigned char*>(memory)) {}

  template <typename T>
  T* take(int64_t count) {
    constexpr int64_t kAlignment = 16;
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
