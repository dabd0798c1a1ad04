// What clang's ThreadSanitizer and block coverage call in instrumented code, in place of their own runtimes; and
// operator new, whose allocations begin where a GPU's would and are known.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <new>

#include "tests/cuda_on_host/profile/recorder.h"

namespace torch_hrr::cuda_on_host::profile {

namespace {

// The registry of operator new must not use it.
template <typename T>
struct Malloc {
  using value_type = T;
  Malloc() = default;
  template <typename U>
  Malloc(const Malloc<U>&) {}
  T* allocate(std::size_t n) {
    return static_cast<T*>(std::malloc(n * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t) {
    std::free(memory);
  }
  template <typename U>
  bool operator==(const Malloc<U>&) const {
    return true;
  }
};

using Allocations =
    std::map<std::uintptr_t, std::size_t, std::less<>, Malloc<std::pair<const std::uintptr_t, std::size_t>>>;

Allocations& allocations() {
  static Allocations& all = *new (std::malloc(sizeof(Allocations))) Allocations;
  return all;
}

constexpr std::size_t kAlignment = 256;
// The allocation that was found last and the gap between two of them, such as a stack: mostly asked for again.
std::pair<std::uintptr_t, std::size_t> last = {0, 0};
std::pair<std::uintptr_t, std::size_t> gap = {0, 0};

void* allocate(std::size_t bytes) {
  if (Notes::taken > 0) {
    void* const memory = std::malloc(bytes > 0 ? bytes : 1);
    if (memory == nullptr) {
      throw std::bad_alloc();
    }
    return memory;
  }
  void* const memory = std::aligned_alloc(kAlignment, divided_up(bytes + 1, kAlignment) * kAlignment);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  allocations()[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
  gap = {0, 0};
  return memory;
}

void release(void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  if (address % kAlignment == 0) {
    allocations().erase(address);
    last = gap = {0, 0};
  }
  std::free(memory);
}

}  // namespace

std::pair<std::uintptr_t, std::size_t> allocation_of(std::uintptr_t address) {
  if (address - last.first < last.second) {
    return last;
  }
  if (address - gap.first < gap.second) {
    return {0, 0};
  }
  const auto next = allocations().upper_bound(address);
  std::uintptr_t end = 0;
  if (next != allocations().begin()) {
    const auto before = std::prev(next);
    end = before->first + before->second;
    if (address < end) {
      last = *before;
      return last;
    }
  }
  gap = {end, (next == allocations().end() ? ~std::uintptr_t{0} : next->first) - end};
  return {0, 0};
}

namespace {

void load(const void* address, std::size_t bytes) {
  Recorder::instance().access(address, bytes, Action::kLoad);
}
void store(const void* address, std::size_t bytes) {
  Recorder::instance().access(address, bytes, Action::kStore);
}

// A structure that is copied as a whole: in pieces as large as its address is aligned.
template <typename Access>
void whole(const void* address, std::size_t bytes, const Access& access) {
  for (std::size_t at = 0; at < bytes;) {
    const char* const piece = static_cast<const char*>(address) + at;
    std::size_t size = 16;
    while (size > bytes - at || reinterpret_cast<std::uintptr_t>(piece) % size != 0) {
      size /= 2;
    }
    access(piece, size);
    at += size;
  }
}

// An access that its type does not align was put together from smaller ones, which a GPU would not do.
template <typename Access>
void in_pieces(const void* address, std::size_t bytes, const Access& access) {
  const std::size_t piece = bytes > 4 ? 4 : bytes / 2;
  for (std::size_t at = 0; at < bytes; at += piece) {
    access(static_cast<const char*>(address) + at, piece);
  }
}

}  // namespace

}  // namespace torch_hrr::cuda_on_host::profile

namespace profile = torch_hrr::cuda_on_host::profile;

void* operator new(std::size_t bytes) {
  return profile::allocate(bytes);
}
void* operator new[](std::size_t bytes) {
  return profile::allocate(bytes);
}
void operator delete(void* memory) noexcept {
  profile::release(memory);
}
void operator delete[](void* memory) noexcept {
  profile::release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  profile::release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  profile::release(memory);
}

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void* call) {
  profile::Recorder::instance().enter_function(call);
}
void __tsan_func_exit() {
  profile::Recorder::instance().leave_function();
}
void __sanitizer_cov_trace_pc_guard(uint32_t* guard) {
  profile::Recorder::instance().enter_block_of_code(guard);
}
void __sanitizer_cov_trace_pc_guard_init(uint32_t*, uint32_t*) {}

#define PROFILE_ACCESS(bytes)                           \
  void __tsan_read##bytes(void* address) {              \
    profile::load(address, bytes);                      \
  }                                                     \
  void __tsan_write##bytes(void* address) {             \
    profile::store(address, bytes);                     \
  }                                                     \
  void __tsan_unaligned_read##bytes(void* address) {    \
    profile::in_pieces(address, bytes, profile::load);  \
  }                                                     \
  void __tsan_unaligned_write##bytes(void* address) {   \
    profile::in_pieces(address, bytes, profile::store); \
  }
PROFILE_ACCESS(1)
PROFILE_ACCESS(2)
PROFILE_ACCESS(4)
PROFILE_ACCESS(8)
PROFILE_ACCESS(16)
#undef PROFILE_ACCESS

void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// The build renames memcpy and memset of instrumented code to these.
void* profile_memcpy(void* to, const void* from, std::size_t bytes) {
  profile::whole(from, bytes, profile::load);
  profile::whole(to, bytes, profile::store);
  return std::memcpy(to, from, bytes);
}
void* profile_memmove(void* to, const void* from, std::size_t bytes) {
  profile::whole(from, bytes, profile::load);
  profile::whole(to, bytes, profile::store);
  return std::memmove(to, from, bytes);
}
void* profile_memset(void* to, int value, std::size_t bytes) {
  profile::whole(to, bytes, profile::store);
  return std::memset(to, value, bytes);
}

// The shim's atomics read, compute and exchange; the exchange is what a GPU would do.
#define PROFILE_ATOMIC(bits)                                                                                           \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* address, int) {                             \
    return *address;                                                                                                   \
  }                                                                                                                    \
  uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile uint##bits##_t* address, uint##bits##_t expected, \
                                                            uint##bits##_t desired, int, int) {                        \
    profile::Recorder::instance().access(const_cast<uint##bits##_t*>(address), bits / 8, profile::Action::kAtomic);    \
    const uint##bits##_t old = *address;                                                                               \
    if (old == expected) {                                                                                             \
      *address = desired;                                                                                              \
    }                                                                                                                  \
    return old;                                                                                                        \
  }
// The guard of a static variable.
uint8_t __tsan_atomic8_load(const volatile uint8_t* address, int) {
  return *address;
}
PROFILE_ATOMIC(32)
PROFILE_ATOMIC(64)
#undef PROFILE_ATOMIC
}
