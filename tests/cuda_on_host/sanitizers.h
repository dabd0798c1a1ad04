// Which sanitizers this file is compiled with, and their fiber interfaces as functions that do nothing without them.
#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KERNEL_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define KERNEL_ADDRESS_SANITIZER 1
#endif

// shim.cpp and fiber.cpp are themselves not instrumented for races (the scheduler runs in every fiber), so the build
// says whether the kernels are: KERNEL_THREAD_SANITIZER.
#if defined(KERNEL_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(KERNEL_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace torch_hrr::cuda_on_host {

#if defined(KERNEL_ADDRESS_SANITIZER)
inline void begin_switch(void** fake_stack_save, const void* stack, std::size_t size) {
  __sanitizer_start_switch_fiber(fake_stack_save, stack, size);
}
inline void end_switch(void* fake_stack, const void** old_stack, std::size_t* old_size) {
  __sanitizer_finish_switch_fiber(fake_stack, old_stack, old_size);
}
inline void forget_stack(const void* stack, std::size_t size) {
  __asan_unpoison_memory_region(stack, size);
}
#else
inline void begin_switch(void**, const void*, std::size_t) {}
inline void end_switch(void*, const void**, std::size_t*) {}
inline void forget_stack(const void*, std::size_t) {}
#endif

#if defined(KERNEL_THREAD_SANITIZER)
constexpr bool kFindsRaces = true;
inline void* new_race_context() {
  return __tsan_create_fiber(0);
}
inline void delete_race_context(void* context) {
  __tsan_destroy_fiber(context);
}
inline void* current_race_context() {
  return __tsan_get_current_fiber();
}
inline void switch_race_context(void* context) {
  __tsan_switch_to_fiber(context, __tsan_switch_to_fiber_no_sync);
}
inline void release(void* token) {
  __tsan_release(token);
}
inline void acquire(void* token) {
  __tsan_acquire(token);
}
#else
constexpr bool kFindsRaces = false;
inline void* new_race_context() {
  return nullptr;
}
inline void delete_race_context(void*) {}
inline void* current_race_context() {
  return nullptr;
}
inline void switch_race_context(void*) {}
inline void release(void*) {}
inline void acquire(void*) {}
#endif

}  // namespace torch_hrr::cuda_on_host
