// What operators report of themselves, and the pages of their results.
#include "csrc/operator.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace torch_hrr::lanes {
namespace {

// Registration runs when the library is loaded, in one thread.
std::string& reported() {
  static auto& text = *new std::string();
  return text;
}

}  // namespace

void report(const char* name, const char* overload, c10::ArrayRef<Operand> operands) {
  std::string& text = reported();
  text += name;
  text += '.';
  text += *overload != '\0' ? overload : "default";
  for (const Operand& operand : operands) {
    text += ' ';
    text += std::to_string(operand.trailing);
  }
  text += '\n';
}

void prefer_huge_pages([[maybe_unused]] const at::Tensor& result) {
#if defined(__linux__)
  // From this size on the C library maps every allocation anew and unmaps it afterwards, so no other memory is touched.
  constexpr size_t kLarge = size_t{32} << 20;
  constexpr uintptr_t kPage = uintptr_t{2} << 20;
  if (result.nbytes() >= kLarge && result.is_cpu()) {
    const auto first = reinterpret_cast<uintptr_t>(result.const_data_ptr());
    const uintptr_t begin = (first + kPage - 1) / kPage * kPage;
    const uintptr_t end = (first + result.nbytes()) / kPage * kPage;
    // A hint: where it is refused, small pages serve.
    (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
#endif
}

}  // namespace torch_hrr::lanes

// A line an operator that vmap may batch: name.overload, then for each tensor argument in order the number of
// dimensions that are not batch.
extern "C" __attribute__((visibility("default"))) const char* torch_hrr_operators() {
  return torch_hrr::lanes::reported().c_str();
}
