// Stack switching: a few instructions on x86-64, ucontext elsewhere (which enters the kernel at every switch).
#include "tests/cuda_on_host/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include "tests/cuda_on_host/sanitizers.h"

namespace torch_hrr::cuda_on_host {

namespace {

// Sanitized frames are several times larger. Pages are committed as they are touched.
constexpr std::size_t kStackBytes = 256 * 1024;
constexpr std::size_t kGuardBytes = 64 * 1024;  // at least a page on every system, below the stack

Fiber* running = nullptr;

}  // namespace

#if defined(KERNEL_FIBER_X86)

// Saves the callee-saved registers and the stack pointer, loads the others' and returns on that stack.
extern "C" void hrr_switch_stack(void** save, void* load);
asm(R"(
.text
.p2align 4
.globl hrr_switch_stack
.hidden hrr_switch_stack
.type hrr_switch_stack, @function
hrr_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size hrr_switch_stack, .-hrr_switch_stack
)");

#endif

Fiber::Fiber() {
  void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  memory_ = static_cast<unsigned char*>(memory);
  mprotect(memory_, kGuardBytes, PROT_NONE);
  race_context_ = new_race_context();
}

Fiber::~Fiber() {
  forget_stack(memory_ + kGuardBytes, kStackBytes);
  delete_race_context(race_context_);
  munmap(memory_, kGuardBytes + kStackBytes);
}

void Fiber::start(Entry entry, void* argument) {
  entry_ = entry;
  argument_ = argument;
  fake_stack_inside_ = nullptr;
#if defined(KERNEL_FIBER_X86)
  // Of the call before, frames that have not returned; those below have taken their marks with them.
  if (inside_ != nullptr) {
    const auto* const pointer = static_cast<const unsigned char*>(inside_);
    forget_stack(pointer, static_cast<std::size_t>(memory_ + kGuardBytes + kStackBytes - pointer));
  }
  // As if hrr_switch_stack had been called from main: six registers, the address to return to, and a null return
  // address for main itself, which leaves the stack aligned as the ABI wants at a function's first instruction.
  void** top = reinterpret_cast<void**>(memory_ + kGuardBytes + kStackBytes - 8);
  top[0] = nullptr;
  top[-1] = reinterpret_cast<void*>(&Fiber::main);
  for (int i = 2; i <= 7; ++i) {
    top[-i] = nullptr;
  }
  inside_ = top - 7;
#else
  forget_stack(memory_ + kGuardBytes, kStackBytes);
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = memory_ + kGuardBytes;
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  makecontext(&inside_, &Fiber::main, 0);
#endif
}

void Fiber::resume() {
  running = this;
  begin_switch(&fake_stack_outside_, memory_ + kGuardBytes, kStackBytes);
  race_context_outside_ = current_race_context();
  switch_race_context(race_context_);
#if defined(KERNEL_FIBER_X86)
  hrr_switch_stack(&outside_, inside_);
#else
  swapcontext(&outside_, &inside_);
#endif
  end_switch(fake_stack_outside_, nullptr, nullptr);
}

void Fiber::switch_out(bool finished) {
  begin_switch(finished ? nullptr : &fake_stack_inside_, outside_stack_, outside_stack_size_);
  switch_race_context(race_context_outside_);
#if defined(KERNEL_FIBER_X86)
  hrr_switch_stack(&inside_, outside_);
#else
  swapcontext(&inside_, &outside_);
#endif
}

void Fiber::switch_in() {
  end_switch(fake_stack_inside_, &outside_stack_, &outside_stack_size_);
}

void Fiber::suspend() {
  switch_out(false);
  switch_in();
}

void Fiber::publish(void* token) {
  void* const caller = current_race_context();
  switch_race_context(race_context_);
  release(token);
  switch_race_context(caller);
}

void Fiber::main() {
  Fiber* fiber = running;
  fiber->switch_in();
  fiber->entry_(fiber->argument_);
  fiber->switch_out(true);
  std::abort();  // a finished fiber is not resumed
}

}  // namespace torch_hrr::cuda_on_host
