// The part of the autograd node that is the same for every operator.
#include "csrc/autograd.h"

#include <ATen/ExpandUtils.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cctype>

namespace torch_hrr {
namespace {

AllSizes sizes_of_all(const variable_list& tensors) {
  AllSizes sizes;
  sizes.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    sizes.emplace_back(tensor.defined() ? c10::SymDimVector(tensor.sym_sizes()) : c10::SymDimVector());
  }
  return sizes;
}

}  // namespace

std::string node_name(const char* op) {
  std::string name = "TorchHrr";
  bool begins = true;
  for (const char* at = op; *at != '\0'; ++at) {
    if (*at == '_') {
      begins = true;
      continue;
    }
    name += begins ? static_cast<char>(std::toupper(static_cast<unsigned char>(*at))) : *at;
    begins = false;
  }
  return name + "Backward";
}

void DerivativeNode::save(const variable_list& inputs, const variable_list& other_results) {
  Wanted wanted(inputs.size());
  types_.resize(inputs.size(), at::ScalarType::Undefined);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) {
      wanted[i] = inputs[i].requires_grad();
      types_[i] = inputs[i].scalar_type();
    }
  }
  sizes_ = sizes_of_all(inputs);
  saved_.reserve(inputs.size() + other_results.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    saved_.emplace_back(inputs[i].defined() && reads(i, wanted) ? inputs[i] : at::Tensor(), /*is_output=*/false);
  }
  // Without a derivative they have no history: none of them refers back to this node.
  for (const at::Tensor& result : other_results) {
    saved_.emplace_back(result, /*is_output=*/false);
  }
}

void DerivativeNode::save_result(const at::Tensor& result) {
  result_.emplace(result, /*is_output=*/true);
}

variable_list DerivativeNode::apply(variable_list&& grads) {
  const std::lock_guard<std::mutex> lock(mutex_);
  variable_list results(num_outputs());
  bool any = false;
  for (const at::Tensor& grad : grads) {
    any = any || grad.defined();
  }
  if (!any) {
    return results;
  }
  variable_list tensors;
  tensors.reserve(saved_.size());
  for (const torch::autograd::SavedVariable& saved : saved_) {
    tensors.push_back(saved.unpack());
  }
  Wanted wanted(num_outputs());
  for (size_t i = 0; i < wanted.size(); ++i) {
    wanted[i] = types_[i] != at::ScalarType::Undefined && task_should_compute_output(i);
  }
  {
    // The inputs' dtypes have decided what a derivative is computed in, not the block that asks for it.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const at::Tensor result =
        result_.has_value() ? result_->unpack(pointer_to<torch::autograd::Node>(this)) : at::Tensor();
    results = backward(Saved(tensors, sizes_, result), grads, wanted);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!wanted[i]) {
      results[i] = at::Tensor();
    } else if (results[i].defined()) {
      // A gradient that is the same along a dimension may come without it.
      const auto common = at::infer_size_symint(results[i].sym_sizes(), sizes_[i]);
      results[i] = at::sum_to(results[i].expand_symint(common), c10::SymIntArrayRef(sizes_[i])).to(types_[i]);
    }
  }
  return results;
}

void DerivativeNode::release_variables() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (torch::autograd::SavedVariable& saved : saved_) {
    saved.reset_data();
  }
  if (result_.has_value()) {
    result_->reset_data();
  }
}

DualInputs::DualInputs(const variable_list& inputs, const variable_list& other_results) : sizes(sizes_of_all(inputs)) {
  for (const at::Tensor& input : inputs) {
    primals.push_back(input.defined() ? input._fw_primal(/*level=*/0) : input);
    tangents.push_back(input.defined() ? input._fw_grad(/*level=*/0) : input);
  }
  primals.insert(primals.end(), other_results.begin(), other_results.end());
}

void set_tangent(const at::Tensor& result, const at::Tensor& tangent) {
  if (tangent.defined()) {
    // A tangent that is the same along a dimension may come without it.
    const at::Tensor whole = tangent.expand_symint(result.sym_sizes()).to(result.scalar_type());
    result._set_fw_grad(whole, /*level=*/0, /*is_inplace_op=*/false);
  }
}

}  // namespace torch_hrr
