// What operators report of themselves, and the pages of their results.
#include "csrc/operator.h"

#include "kernels/huge_pages.h"

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

void prefer_huge_pages(const at::Tensor& result) {
  // From this size on the C library maps every allocation anew and unmaps it afterwards, so no other memory is touched.
  constexpr size_t kLarge = size_t{32} << 20;
  if (result.nbytes() >= kLarge && result.is_cpu()) {
    torch_hrr::prefer_huge_pages(result.const_data_ptr(), result.nbytes());
  }
}

}  // namespace torch_hrr::lanes

// A line an operator that vmap may batch: name.overload, then for each tensor argument in order the number of
// dimensions that are not batch.
extern "C" __attribute__((visibility("default"))) const char* torch_hrr_operators() {
  return torch_hrr::lanes::reported().c_str();
}
