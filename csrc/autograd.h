// One generic autograd node for every operator: it saves the inputs and asks a formula for the derivatives.
//
// A formula is a copyable struct with
//   static constexpr const char* kName;                                  the node's name
//   static constexpr const char* kOperator, *kArguments[];               the schema's names, for errors
//   at::Tensor forward(const at::Tensor&...) const;                     runs below autograd
//   variable_list backward(saved, grad, wanted) const;                   one per input, undefined where not wanted
//   at::Tensor jvp(saved, tangents) const;                               undefined tangents are zero
// where `saved` are the inputs. A forward that returns a std::tuple has derivatives for the first result alone; the
// others, such as indices, follow the inputs in `saved`. Derivatives are
// written in differentiable operators, so that double backward and forward-over-reverse follow. Gradients may come back
// in any shape that broadcasts with the input's and in any floating type: the node expands, sums and casts them.
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "csrc/checks.h"

namespace torch_hrr {

using torch::autograd::variable_list;

// Node is shared_ptr-managed up to some release and an intrusive_ptr target after it; the type decides, not a version.
template <typename NodeType, typename Base>
auto make_node(const std::vector<at::Tensor>& inputs, typename NodeType::FormulaType formula) {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, Base>) {
    return c10::make_intrusive<NodeType>(inputs, std::move(formula));
  } else {
    // deleteNode is found through the argument: it exists only where shared_ptr nodes do.
    return std::shared_ptr<NodeType>(new NodeType(inputs, std::move(formula)), [](auto* node) { deleteNode(node); });
  }
}

template <typename Formula>
struct DerivativeNode : public torch::autograd::Node {
  using FormulaType = Formula;

  // The inputs, then results without a derivative: those have no history, so none of them refers back to this node.
  DerivativeNode(const std::vector<at::Tensor>& saved, Formula formula) : formula_(std::move(formula)) {
    saved_.reserve(saved.size());
    for (const at::Tensor& tensor : saved) {
      saved_.emplace_back(tensor, /*is_output=*/false);
    }
  }

  std::string name() const override {
    return Formula::kName;
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list results(num_outputs());
    if (!grads[0].defined()) {
      return results;
    }
    std::vector<at::Tensor> inputs(saved_.size());
    for (size_t i = 0; i < saved_.size(); ++i) {
      inputs[i] = saved_[i].unpack();
    }
    std::vector<bool> wanted(num_outputs());
    for (size_t i = 0; i < wanted.size(); ++i) {
      wanted[i] = inputs[i].defined() && task_should_compute_output(i);
    }
    results = formula_.backward(inputs, grads[0], wanted);
    for (size_t i = 0; i < results.size(); ++i) {
      if (!wanted[i]) {
        results[i] = at::Tensor();
      } else if (results[i].defined()) {
        // A gradient that is the same along a dimension may come without it.
        const auto common = at::infer_size_symint(results[i].sym_sizes(), inputs[i].sym_sizes());
        results[i] = at::sum_to(results[i].expand_symint(common), inputs[i].sym_sizes()).to(inputs[i].scalar_type());
      }
    }
    return results;
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (torch::autograd::SavedVariable& saved : saved_) {
      saved.reset_data();
    }
  }

 private:
  std::vector<torch::autograd::SavedVariable> saved_;
  Formula formula_;
};

inline bool requires_grad(const at::Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad();
}

// A sparse or nested argument never reaches a kernel of ours: the dispatcher would name its backend, not the argument.
template <typename Formula, typename... Inputs>
void check_layouts(const Inputs&... inputs) {
  const char* const* name = Formula::kArguments;
  (check_strided(Formula::kOperator, {*name++, inputs}), ...);
}

// The result that has a derivative, and after the inputs those that have none.
inline at::Tensor& differentiable_result(at::Tensor& result) {
  return result;
}
template <typename... Others>
at::Tensor& differentiable_result(std::tuple<at::Tensor, Others...>& results) {
  return std::get<0>(results);
}
inline void append_other_results(std::vector<at::Tensor>&, const at::Tensor&) {}
template <typename... Others>
void append_other_results(std::vector<at::Tensor>& saved, const std::tuple<at::Tensor, Others...>& results) {
  std::apply([&](const at::Tensor&, const Others&... others) { (saved.push_back(others), ...); }, results);
}

// The Autograd kernel of an operator; undefined inputs stand for absent optional arguments.
template <typename Formula, typename... Inputs>
auto differentiable(const Formula& formula, const Inputs&... inputs) {
  check_layouts<Formula>(inputs...);
  const bool with_grad = at::GradMode::is_enabled() && (requires_grad(inputs) || ...);
  const bool with_tangent = (torch::autograd::isFwGradDefined(inputs) || ...);
  const auto forward = [&] {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return formula.forward(inputs...);
  };
  auto results = forward();
  at::Tensor& result = differentiable_result(results);
  if (with_grad) {
    std::vector<at::Tensor> saved{inputs...};
    append_other_results(saved, results);
    auto node = make_node<DerivativeNode<Formula>, torch::autograd::Node>(saved, formula);
    node->set_next_edges(torch::autograd::collect_next_edges(inputs...));
    torch::autograd::set_history(result, node);
  }
  if (with_tangent) {
    const auto primal = [](const at::Tensor& input) { return input.defined() ? input._fw_primal(/*level=*/0) : input; };
    const auto tangent = [](const at::Tensor& input) { return input.defined() ? input._fw_grad(/*level=*/0) : input; };
    std::vector<at::Tensor> saved{primal(inputs)...};
    append_other_results(saved, results);
    const at::Tensor moved = formula.jvp(saved, {tangent(inputs)...});
    result._set_fw_grad(moved.to(result.scalar_type()), /*level=*/0, /*is_inplace_op=*/false);
  }
  return results;
}

// First-order backwards are fused and end with this: a derivative of theirs is that of the unfused composition.
template <typename Fused, typename Composition, typename... Inputs>
auto fused_unless_differentiated(const Fused& fused, const Composition& composition, const Inputs&... inputs) {
  if ((at::GradMode::is_enabled() && (requires_grad(inputs) || ...)) ||
      (torch::autograd::isFwGradDefined(inputs) || ...)) {
    return composition();
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return fused();
}

// The Autograd kernel of an out form: it has no derivative, and a result in place changes its version.
template <typename Inner, typename... Inputs>
void not_differentiable_out(const char* op, const Inner& inner, const at::Tensor& out, const Inputs&... inputs) {
  TORCH_CHECK(!(at::GradMode::is_enabled() && (requires_grad(out) || (requires_grad(inputs) || ...))), op,
              ": out must not be given where a gradient is asked for, got an argument that requires grad");
  TORCH_CHECK(!(torch::autograd::isFwGradDefined(out) || (torch::autograd::isFwGradDefined(inputs) || ...)), op,
              ": out must not be given where a tangent is asked for, got a dual tensor");
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    inner();
  }
  if (!out.is_inference()) {
    torch::autograd::impl::bump_version(out);
  }
}

}  // namespace torch_hrr
