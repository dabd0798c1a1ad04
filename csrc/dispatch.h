// Small pieces of the lanes: calls of operators, optional tensors, lazy negation, autocast.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <utility>

namespace torch_hrr {

// The typed handle of an operator of this library.
template <typename Signature>
auto typed_operator(const char* name, const char* overload) {
  const std::string qualified = std::string("torch_hrr::") + name;
  return c10::Dispatcher::singleton().findSchemaOrThrow(qualified.c_str(), overload).typed<Signature>();
}

// Calls an operator through the dispatcher.
template <typename Op, typename... Args>
auto call(Args&&... args) {
  static const auto op = typed_operator<typename Op::Signature>(Op::kName, Op::kOverload);
  return op.call(std::forward<Args>(args)...);
}

inline std::optional<at::Tensor> optional_of(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

// The Negative kernel of an out form. torch's own fallback for lazy negation expects an operator to return the tensor
// that it writes; ours return nothing, so they materialise their arguments themselves.
template <typename Call>
void write_plain(at::Tensor& out, const Call& call) {
  if (!out.is_neg()) {
    return call(out);
  }
  at::Tensor plain = out.resolve_neg();
  call(plain);
  out.copy_(plain);
}
// The same values without the mark.
inline at::Tensor resolved(const at::Tensor& tensor) {
  return tensor.resolve_neg();
}
inline std::optional<at::Tensor> resolved(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() ? std::optional<at::Tensor>(tensor->resolve_neg()) : std::nullopt;
}
template <typename Number>
const Number& resolved(const Number& number) {
  return number;
}

// The sum of two parts of a derivative, of which either may be absent.
inline at::Tensor sum_of_defined(const at::Tensor& x, const at::Tensor& y) {
  return x.defined() && y.defined() ? x + y : (x.defined() ? x : y);
}

// Tensors in the autocast dtype of a device; float64 and absent ones are left alone.
template <c10::DeviceType kDevice>
struct Autocast {
  c10::impl::ExcludeDispatchKeyGuard guard{
      c10::DispatchKeySet(at::autocast::get_autocast_dispatch_key_from_device_type(kDevice))};

  at::Tensor operator()(const at::Tensor& tensor) const {
    // Other layouts are left to the operator's own check.
    const bool castable = tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_nested();
    return castable ? at::autocast::cached_cast(at::autocast::get_autocast_dtype(kDevice), tensor, kDevice) : tensor;
  }
  std::optional<at::Tensor> operator()(const std::optional<at::Tensor>& tensor) const {
    return tensor.has_value() ? std::optional<at::Tensor>((*this)(*tensor)) : std::nullopt;
  }
};

}  // namespace torch_hrr
