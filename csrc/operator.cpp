// What operators report of themselves, and the pages of their results.
#include "csrc/operator.h"

#include <map>

#include "kernels/huge_pages.h"

namespace torch_hrr::lanes {
namespace {

// Registration runs when the library is loaded, in one thread.
std::string& reported() {
  static auto& text = *new std::string();
  return text;
}

std::map<std::string, AnyFunction>& shims() {
  static auto& functions = *new std::map<std::string, AnyFunction>();
  return functions;
}

// In place of an operator that is not there: where functions clean up after themselves, its arguments do no harm.
AOTITorchError missing() {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(
      TORCH_CHECK(false, "torch_hrr: the package calls an operator that this version of the library does not have"));
}

}  // namespace

void report(const char* name, const char* overload, c10::ArrayRef<Operand> operands, AnyFunction shim) {
  if (shim != nullptr) {
    shims()[*overload != '\0' ? std::string(name) + '.' + overload : name] = shim;
  }
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

// The C shim of an operator by its name, with its overload if that has one.
extern "C" __attribute__((visibility("default"))) torch_hrr::lanes::AnyFunction torch_hrr_c_shim(const char* name) {
  const auto found = torch_hrr::lanes::shims().find(name);
  return found != torch_hrr::lanes::shims().end()
             ? found->second
             : reinterpret_cast<torch_hrr::lanes::AnyFunction>(&torch_hrr::lanes::missing);
}
