// One generic autograd node for every operator: it keeps what a formula reads and asks it for the derivatives.
//
// A formula is a copyable struct that owns its values (no views of strings or lists), with
//   variable_list backward(const Saved&, const at::Tensor& grad, const Wanted&) const   one per input; undefined if
//                                                                                        not wanted
//   at::Tensor jvp(const Saved&, const variable_list& tangents) const                   undefined tangents are zero
// and, where the defaults do not fit,
//   bool reads(size_t input, const Wanted&) const             whether backward reads an input's values; default: all
//   static constexpr size_t kResults                          how many leading results have a derivative; default: 1
//   static constexpr bool kReadsResult                        whether Saved has the first result too; default: no
// With several such results, backward takes a variable_list of gradients, undefined where a result got none, and jvp
// returns a variable_list of tangents. The other results, such as indices, follow the inputs in Saved.
//
// Formulas use differentiable operators, so double backward and forward-over-reverse work. They may return gradients in
// any shape that broadcasts with the input's and in any floating type: the node expands, sums and casts them; and
// tangents in any shape that broadcasts to the result's.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/DimVector.h>
#include <c10/util/SmallVector.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <concepts>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "csrc/checks.h"

namespace torch_hrr {

using torch::autograd::variable_list;
// Which inputs need a gradient.
using Wanted = std::vector<bool>;

using AllSizes = c10::SmallVector<c10::SymDimVector, 3>;

// What a formula sees of a call: the inputs that it reads (the others are undefined), the sizes of all, and the first
// result if kReadsResult (else undefined).
class Saved {
 public:
  Saved(const variable_list& tensors, const AllSizes& sizes, at::Tensor result)
      : tensors_(tensors), sizes_(sizes), result_(std::move(result)) {}

  const at::Tensor& operator[](size_t i) const {
    return tensors_[i];
  }
  const variable_list& tensors() const {
    return tensors_;
  }
  c10::SymIntArrayRef sizes(size_t i) const {
    return sizes_[i];
  }
  const at::Tensor& result() const {
    return result_;
  }

 private:
  const variable_list& tensors_;
  const AllSizes& sizes_;
  at::Tensor result_;
};

template <typename Formula>
consteval size_t differentiable_results() {
  if constexpr (requires { Formula::kResults; }) {
    return Formula::kResults;
  } else {
    return 1;
  }
}

template <typename Formula>
consteval bool reads_result() {
  if constexpr (requires { Formula::kReadsResult; }) {
    return Formula::kReadsResult;
  } else {
    return false;
  }
}

// Bases of formulas. A linear map reads no values; in a bilinear map the gradient of one argument reads the other.
struct LinearFormula {
  bool reads(size_t, const Wanted&) const {
    return false;
  }
};
struct BilinearFormula {
  bool reads(size_t input, const Wanted& wanted) const {
    return wanted[1 - input];
  }
};

template <typename Formula>
concept HasBackward = requires(const Formula& formula, const Saved& saved, const at::Tensor& grad,
                               const Wanted& wanted) {
  { formula.backward(saved, grad, wanted) } -> std::convertible_to<variable_list>;
}
|| requires(const Formula& formula, const Saved& saved, const variable_list& grads, const Wanted& wanted) {
  { formula.backward(saved, grads, wanted) } -> std::convertible_to<variable_list>;
};
template <typename Formula>
concept HasTangent = requires(const Formula& formula, const Saved& saved, const variable_list& tangents) {
  formula.jvp(saved, tangents);
};

// The node's name: "bind_normalize" gives "TorchHrrBindNormalizeBackward".
std::string node_name(const char* op);

// The part of the node that does not depend on the formula.
class DerivativeNode : public torch::autograd::Node {
 public:
  // Keeps the inputs that the formula reads, and the results without a derivative, which have no history.
  void save(const variable_list& inputs, const variable_list& other_results);
  void save_result(const at::Tensor& result);

  variable_list apply(variable_list&& grads) override;
  void release_variables() override;

 private:
  virtual bool reads(size_t input, const Wanted& wanted) const = 0;
  virtual variable_list backward(const Saved& saved, const variable_list& grads, const Wanted& wanted) const = 0;

  std::vector<torch::autograd::SavedVariable> saved_;
  std::optional<torch::autograd::SavedVariable> result_;  // as an output: it holds no reference to this node
  AllSizes sizes_;
  c10::SmallVector<at::ScalarType, 4> types_;  // of the inputs; Undefined for those that are absent
};

template <typename Formula>
class FormulaNode final : public DerivativeNode {
 public:
  FormulaNode(const char* op, Formula formula) : op_(op), formula_(std::move(formula)) {}

  std::string name() const override {
    return node_name(op_);
  }

 private:
  bool reads(size_t input, const Wanted& wanted) const override {
    if constexpr (requires { formula_.reads(input, wanted); }) {
      return formula_.reads(input, wanted);
    }
    return true;
  }
  variable_list backward(const Saved& saved, const variable_list& grads, const Wanted& wanted) const override {
    if constexpr (requires { formula_.backward(saved, grads, wanted); }) {
      return formula_.backward(saved, grads, wanted);
    } else {
      return formula_.backward(saved, grads[0], wanted);
    }
  }

  const char* op_;
  Formula formula_;
};

// Older releases of torch manage Node by shared_ptr, newer ones by intrusive_ptr; the type decides, not a version.
template <typename NodeType, typename Base, typename... Args>
auto make_node(Args&&... args) {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, Base>) {
    return c10::make_intrusive<NodeType>(std::forward<Args>(args)...);
  } else {
    // deleteNode is found through the argument: it exists only where shared_ptr nodes do.
    return std::shared_ptr<NodeType>(new NodeType(std::forward<Args>(args)...), [](auto* node) { deleteNode(node); });
  }
}

// The owning pointer of a node that is already managed.
template <typename Base>
auto pointer_to(Base* node) {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, Base>) {
    return c10::intrusive_ptr<Base>::reclaim_copy(node);
  } else {
    return node->shared_from_this();
  }
}

inline bool requires_grad(const at::Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad();
}

// Records the call in the history of the first kCount results and returns the node.
template <typename Formula>
auto record_history(const char* op, const Formula& formula, const variable_list& inputs, const variable_list& results) {
  constexpr size_t kCount = differentiable_results<Formula>();
  const auto node = make_node<FormulaNode<Formula>, torch::autograd::Node>(op, formula);
  node->save(inputs, variable_list(results.begin() + kCount, results.end()));
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  for (size_t i = 0; i < kCount; ++i) {
    at::Tensor result = results[i];
    torch::autograd::set_history(result, node);
  }
  return node;
}

// The inputs' primals and tangents; the results without a derivative follow the primals.
struct DualInputs {
  DualInputs(const variable_list& inputs, const variable_list& other_results);

  variable_list primals;
  variable_list tangents;
  AllSizes sizes;
};
void set_tangent(const at::Tensor& result, const at::Tensor& tangent);

// Sets the tangents of the first kCount results.
template <typename Formula>
void record_tangents(const Formula& formula, const variable_list& inputs, const variable_list& results) {
  constexpr size_t kCount = differentiable_results<Formula>();
  const DualInputs dual(inputs, variable_list(results.begin() + kCount, results.end()));
  const Saved saved(dual.primals, dual.sizes, reads_result<Formula>() ? results[0] : at::Tensor());
  if constexpr (std::convertible_to<decltype(formula.jvp(saved, dual.tangents)), at::Tensor>) {
    set_tangent(results[0], formula.jvp(saved, dual.tangents));
  } else {
    const variable_list moved = formula.jvp(saved, dual.tangents);
    for (size_t i = 0; i < kCount; ++i) {
      set_tangent(results[i], moved[i]);
    }
  }
}

// Records the history, the tangents or both. The result is saved last, so that it carries them.
template <typename Formula>
void record_derivatives(const char* op, const Formula& formula, const variable_list& inputs,
                        const variable_list& results, bool with_grad, bool with_tangent) {
  decltype(record_history(op, formula, inputs, results)) node;
  if (with_grad) {
    node = record_history(op, formula, inputs, results);
  }
  if (with_tangent) {
    record_tangents(formula, inputs, results);
  }
  if (with_grad && reads_result<Formula>()) {
    node->save_result(results[0]);
  }
}

}  // namespace torch_hrr
