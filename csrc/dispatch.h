// Small pieces that every registration file uses: typed handles, storage types, autocast.
#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace torch_hrr {

// The typed handle of an operator of this library; keep it in a static.
template <typename Signature>
auto typed_operator(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Signature>();
}

inline at::Tensor tensor_or_undefined(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() ? *tensor : at::Tensor();
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
inline std::optional<at::Tensor> resolve_neg(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() ? std::optional<at::Tensor>(tensor->resolve_neg()) : std::nullopt;
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
