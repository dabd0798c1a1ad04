// Memory in large pages, of which it takes few to fill it.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace torch_hrr {

// Asks for large pages where memory that has not been touched holds whole ones: a hint, which may be refused.
inline void prefer_huge_pages([[maybe_unused]] const void* memory, [[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  constexpr uintptr_t kPage = uintptr_t{2} << 20;
  const auto first = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t begin = (first + kPage - 1) / kPage * kPage;
  const uintptr_t end = (first + bytes) / kPage * kPage;
  if (begin < end) {
    (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
#endif
}

}  // namespace torch_hrr
