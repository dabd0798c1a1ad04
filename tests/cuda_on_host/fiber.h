// A fiber: a call stack of its own that runs until it suspends itself. One thread of the process runs all of them.
#pragma once

#include <cstddef>

#if defined(__x86_64__) && !defined(KERNEL_FIBER_UCONTEXT)
#define KERNEL_FIBER_X86 1
#else
#include <ucontext.h>
#endif

namespace torch_hrr::cuda_on_host {

class Fiber {
 public:
  using Entry = void (*)(void* argument);

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next resume() calls entry(argument). A previous run that is still suspended is given up: its frames are
  // forgotten, no destructor runs.
  void start(Entry entry, void* argument);

  // Runs the fiber until it suspends or its entry returns; called outside any fiber.
  void resume();

  // Returns to the caller of resume(); called inside the fiber.
  void suspend();

  // Orders all the fiber has done before whatever acquires the token, for ThreadSanitizer; called outside any fiber.
  void publish(void* token);

 private:
  static void main();
  void switch_in();
  void switch_out(bool finished);

  unsigned char* memory_ = nullptr;
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
#if defined(KERNEL_FIBER_X86)
  void* inside_ = nullptr;  // the stack pointer where the fiber stands, and where its resumer stands
  void* outside_ = nullptr;
#else
  ucontext_t inside_;
  ucontext_t outside_;
#endif
  // What AddressSanitizer and ThreadSanitizer need to follow a switch.
  void* fake_stack_inside_ = nullptr;
  void* fake_stack_outside_ = nullptr;
  const void* outside_stack_ = nullptr;
  std::size_t outside_stack_size_ = 0;
  void* race_context_ = nullptr;
  void* race_context_outside_ = nullptr;
};

}  // namespace torch_hrr::cuda_on_host
