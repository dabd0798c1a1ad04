// Per-thread scratch memory.
#include "csrc/rows.h"

#include <c10/core/CPUAllocator.h>

namespace torch_hrr {
namespace {

constexpr int64_t kMaxKeptBytes = int64_t{4} << 20;

c10::DataPtr allocate(int64_t bytes) {
  return c10::GetDefaultCPUAllocator()->allocate(static_cast<size_t>(bytes));
}

// A thread that kept nothing would pay page faults at every call.
void* kept_memory(int64_t bytes) {
  thread_local c10::DataPtr memory;
  thread_local int64_t capacity = 0;
  if (capacity < bytes) {
    capacity = 0;
    const int64_t wanted = std::max<int64_t>(bytes, 64 * 1024);
    memory = allocate(wanted);
    capacity = wanted;
  }
  return memory.get();
}

}  // namespace

Scratch::Scratch(int64_t bytes) {
  if (bytes <= kMaxKeptBytes) {
    memory = kept_memory(bytes);
  } else {
    owned = allocate(bytes);
    memory = owned.get();
  }
}

}  // namespace torch_hrr
