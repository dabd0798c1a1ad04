// Rows brought into the cache before they are needed.
#pragma once

#include <cstdint>

#include "kernels/macros.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

constexpr int64_t kCacheLineBytes = 64;
template <typename T>
constexpr int64_t kLineNumbers = kCacheLineBytes / static_cast<int64_t>(sizeof(T));

// The line of a result that is to be written.
KERNEL_HOST_DEVICE void prefetch_target(const void* place) {
  __builtin_prefetch(place, 1, 3);
}

// Rows of a batch that fits the second-level cache arrive in time by themselves, and rows beyond 4 KiB would push out
// the spectra in work; between them a row of 2 KiB gains 15 % of its time and one of 4 KiB 8 %.
constexpr int64_t kMinPrefetchBatchBytes = int64_t{1} << 20;
constexpr int64_t kMaxFirstLevelRowBytes = 2048;
constexpr int64_t kMaxPrefetchRowBytes = 4096;

// For `operands` rows at a time.
template <typename S>
bool prefetch_pays(int64_t rows, int64_t dim, int operands) {
  const int64_t bytes = dim * static_cast<int64_t>(sizeof(S));
  return bytes <= kMaxPrefetchRowBytes && rows > kMinPrefetchBatchBytes / (operands * bytes);
}

template <typename S>
KERNEL_HOST_DEVICE void prefetch_row(const S* row, int64_t dim) {
  const int64_t bytes = row == nullptr ? 0 : dim * static_cast<int64_t>(sizeof(S));
  // The level is part of the instruction: a constant each.
  const char* memory = reinterpret_cast<const char*>(row);
  if (bytes <= kMaxFirstLevelRowBytes) {
    for (int64_t i = 0; i < bytes; i += kCacheLineBytes) {
      __builtin_prefetch(memory + i, 0, 3);
    }
  } else {
    for (int64_t i = 0; i < bytes; i += kCacheLineBytes) {
      __builtin_prefetch(memory + i, 0, 2);
    }
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
