// Per-thread scratch memory.
#include "csrc/rows.h"

#include <c10/core/CPUAllocator.h>

namespace torch_hrr {

void* thread_scratch(int64_t bytes) {
  // Row lengths are bounded, so this is too; growing by doubling keeps a thread from paying page faults at every call.
  thread_local c10::DataPtr memory;
  thread_local int64_t capacity = 0;
  if (capacity < bytes) {
    capacity = 0;
    const int64_t wanted = std::max<int64_t>(bytes, 64 * 1024);
    memory = c10::GetDefaultCPUAllocator()->allocate(static_cast<size_t>(wanted));
    capacity = wanted;
  }
  return memory.get();
}

} // namespace torch_hrr
