// An operator described once: one trait yields the kernels of every dispatch key (the lanes).
//
//   struct BindNormalize : Operator {
//     static constexpr const char* kName = "bind_normalize";           // as in the schema; kOverload where it has one
//     static constexpr Operand kOperands[] = {{"a", 1}, {"b", 1}};      // its tensors, in schema order
//     using Signature = Tensor(const Tensor& a, const Tensor& b, double eps);
//     static constexpr bool kHasOut = true;                             // also an overload .out
//     static constexpr bool kAutocast = true;
//     static constexpr Derivative kDerivative = Derivative::kFormula;   // required
//     template <typename Int> static ResultContract<Int> contract(a, b, eps);  // the checks; Int: int64_t or SymInt
//     static void run(const ResultContract<int64_t>&, const Tensor& out, a, b, eps);  // fills what the lane allocated
//     struct Formula { double eps; ... };                               // csrc/autograd.h
//   };
//   TORCH_LIBRARY_FRAGMENT(torch_hrr, m) { register_operators<BindNormalize>(m); }
//
// A formula is built from the arguments that are not tensors, or from all arguments by a static function formula().
// Derivative::kComposition needs compose(), a static function of all arguments, instead: the same result from
// differentiable operators, called only when a derivative is asked for. An operator whose result alone autocast decides
// has a static function autocast(type, all arguments), which returns the arguments to call it with. An operator that
// returns nothing writes into the operands that are marked `written`. It has check() in place of contract(), for Meta
// too, and run() takes what check() returns as its first argument.
#pragma once

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <array>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "csrc/autograd.h"
#include "csrc/c_shim.h"
#include "csrc/contract.h"
#include "csrc/dispatch.h"

namespace torch_hrr {

// For Operand::trailing: an operand that has no batch under vmap, such as a table or a key.
constexpr int kNotBatched = -1;
// For one that may have a dimension more or less: under vmap every operand of the operator gets the batch in front.
constexpr int kBatchedTogether = -3;
// For one whose presence forbids vmap: the numbering of random numbers goes over the whole batch.
constexpr int kNoBatchAtAll = -2;

struct Operand {
  const char* name;
  int trailing;          // how many of its last dimensions are no batch; those before broadcast with the others'
  bool cast = true;      // by autocast
  bool written = false;  // in place
};

enum class Derivative { kFormula, kComposition, kNone };

// Defaults of a trait.
struct Operator {
  static constexpr const char* kOverload = "";
  static constexpr bool kHasOut = false;
  static constexpr bool kAutocast = false;
};

// A trait must state its derivative: there is no default.
template <typename Op>
concept StatesDerivative = requires {
  { Op::kDerivative } -> std::convertible_to<Derivative>;
};

namespace lanes {

inline const at::Tensor& tensor_of(const at::Tensor& tensor) {
  return tensor;
}
inline const at::Tensor& tensor_of(const std::optional<at::Tensor>& tensor) {
  static const at::Tensor absent;
  return tensor.has_value() ? *tensor : absent;
}

template <typename T>
constexpr bool is_tensor = std::is_same_v<T, at::Tensor> || std::is_same_v<T, std::optional<at::Tensor>>;

// visit(tensor) for every tensor argument and every tensor of a list; absent ones are undefined.
template <typename Visit, typename T>
void visit_tensors(const Visit& visit, const T& argument) {
  if constexpr (is_tensor<T>) {
    visit(tensor_of(argument));
  } else if constexpr (std::is_same_v<T, at::TensorList>) {
    for (const at::Tensor& tensor : argument) {
      visit(tensor);
    }
  }
}

template <typename... Args>
variable_list tensors_of(const Args&... args) {
  variable_list tensors;
  tensors.reserve(sizeof...(args));
  (visit_tensors([&](const at::Tensor& tensor) { tensors.push_back(tensor); }, args), ...);
  return tensors;
}

template <typename... Args>
bool any_requires_grad(const Args&... args) {
  bool any = false;
  (visit_tensors([&](const at::Tensor& tensor) { any = any || requires_grad(tensor); }, args), ...);
  return any && at::GradMode::is_enabled();
}
template <typename... Args>
bool any_has_tangent(const Args&... args) {
  bool any = false;
  (visit_tensors([&](const at::Tensor& tensor) { any = any || torch::autograd::isFwGradDefined(tensor); }, args), ...);
  return any;
}

// visit(operand, tensor) for every tensor argument; a list is one operand.
template <typename Op, typename Visit, typename... Args>
void for_each_operand(const Visit& visit, const Args&... args) {
  const Operand* operand = Op::kOperands;
  const auto one = [&](const auto& argument) {
    using T = std::remove_cvref_t<decltype(argument)>;
    if constexpr (is_tensor<T> || std::is_same_v<T, at::TensorList>) {
      visit_tensors([&](const at::Tensor& tensor) { visit(*operand, tensor); }, argument);
      ++operand;
    }
  };
  (one(args), ...);
}

// Checked under autograd, since a sparse or nested argument never reaches our kernels: the dispatcher's error would
// name a backend, not the argument.
template <typename Op, typename... Args>
void check_layouts(const Args&... args) {
  for_each_operand<Op>(
      [](const Operand& operand, const at::Tensor& tensor) {
        check_strided(Op::kName, {operand.name, tensor});
      },
      args...);
}

// A SymInt as the integer that device kernels take; other arguments unchanged.
template <typename T>
decltype(auto) concrete(const T& argument) {
  if constexpr (std::is_same_v<T, c10::SymInt>) {
    return argument.guard_int(__FILE__, __LINE__);
  } else if constexpr (std::is_same_v<T, std::optional<c10::SymInt>>) {
    return argument.has_value() ? std::optional<int64_t>(concrete(*argument)) : std::nullopt;
  } else {
    return (argument);
  }
}

template <typename T, typename... Rest>
const at::Tensor& first_tensor(const T& first, const Rest&... rest) {
  if constexpr (is_tensor<T>) {
    return tensor_of(first);
  } else {
    return first_tensor(rest...);
  }
}

// Asks Linux to back a large new result in main memory by pages of 2 MiB: its first use faults 512 times less often.
void prefer_huge_pages(const at::Tensor& result);

template <typename Int>
at::Tensor allocate_one(const ResultContract<Int>& contract, const at::TensorOptions& options) {
  if constexpr (std::is_same_v<Int, c10::SymInt>) {
    return at::empty_symint(contract.sizes, options.dtype(contract.dtype));
  } else {
    at::Tensor result = at::empty(contract.sizes, options.dtype(contract.dtype));
    prefer_huge_pages(result);
    return result;
  }
}

// The i-th result's contract: its own from an array, or the one that all results share.
template <typename Contract>
const auto& contract_at(const Contract& contract, size_t i) {
  if constexpr (requires { contract.sizes; }) {
    return contract;
  } else {
    return contract[i];
  }
}

template <typename Result>
struct Results {
  template <typename Contract>
  static Result allocate(const Contract& contract, const at::TensorOptions& options) {
    return allocate_one(contract_at(contract, 0), options);
  }
  static variable_list list(const Result& result) {
    return {result};
  }
  template <typename Function>
  static Result map(const Result& result, const Function& function) {
    return function(result, 0);
  }
};
template <typename... Tensors>
struct Results<std::tuple<Tensors...>> {
  static constexpr size_t kCount = sizeof...(Tensors);
  using Tuple = std::tuple<Tensors...>;
  template <typename Contract>
  static Tuple allocate(const Contract& contract, const at::TensorOptions& options) {
    return [&]<size_t... i>(std::index_sequence<i...>) {
      return Tuple{allocate_one(contract_at(contract, i), options)...};
    }
    (std::make_index_sequence<kCount>{});
  }
  static variable_list list(const Tuple& results) {
    return std::apply([](const Tensors&... each) { return variable_list{each...}; }, results);
  }
  template <typename Function>
  static Tuple map(const Tuple& results, const Function& function) {
    return [&]<size_t... i>(std::index_sequence<i...>) {
      return Tuple{function(std::get<i>(results), i)...};
    }
    (std::make_index_sequence<kCount>{});
  }
};

// From all arguments, or from those that are not tensors.
template <typename Op, typename... Args>
typename Op::Formula make_formula(const Args&... args) {
  if constexpr (requires { Op::formula(args...); }) {
    return Op::formula(args...);
  } else {
    const auto number = [](const auto& argument) {
      using T = std::remove_cvref_t<decltype(argument)>;
      if constexpr (is_tensor<T>) {
        return std::tuple<>();
      } else {
        static_assert(std::is_same_v<T, c10::SymInt> || std::is_arithmetic_v<T>,
                      "a node outlives the call: formula() makes values of strings and lists");
        return std::tuple<T>(argument);
      }
    };
    return std::apply([](auto&&... numbers) { return typename Op::Formula{numbers...}; },
                      std::tuple_cat(number(args)...));
  }
}

// Tells Python of an operator, for its batching rules (torch_hrr_operators in csrc/operator.cpp), and code of
// AOTInductor of its C shim, if it has one (torch_hrr_c_shim).
void report(const char* name, const char* overload, c10::ArrayRef<Operand> operands, AnyFunction shim = nullptr);

// Throws if a derivative is asked for, otherwise calls below() with autograd excluded. `what` names the argument that
// is written.
template <typename Call, typename... Args>
void refuse_derivatives(const char* op, const char* what, const Call& below, const Args&... args) {
  TORCH_CHECK(!any_requires_grad(args...), op, ": ", what,
              " must not be given where a gradient is asked for, got an argument that requires grad");
  TORCH_CHECK(!any_has_tangent(args...), op, ": ", what,
              " must not be given where a tangent is asked for, got a dual tensor");
  const at::AutoDispatchBelowAutograd below_autograd;
  below();
}

// As torch's own operators: an inference tensor has no version that would tell of the write.
inline void check_writable(const char* op, const char* name, const at::Tensor& tensor) {
  TORCH_CHECK(!tensor.defined() || !tensor.is_inference() || c10::InferenceMode::is_enabled(), op, ": ", name,
              " must not be an inference tensor outside inference mode");
}
inline void bump_version(const at::Tensor& tensor) {
  if (tensor.defined() && !tensor.is_inference()) {
    torch::autograd::impl::bump_version(tensor);
  }
}

template <typename Op>
consteval bool casts_all() {
  bool all = true;
  for (const Operand& operand : Op::kOperands) {
    all = all && operand.cast;
  }
  return all;
}

// Operands that are not cast do not affect the result's type.
template <c10::DeviceType kDevice, typename Op, typename... Args>
auto with_autocast(const Args&... args) {
  const Autocast<kDevice> cast;
  const Operand* operand = Op::kOperands;
  variable_list rows;
  const auto one = [&](const auto& argument) {
    using T = std::remove_cvref_t<decltype(argument)>;
    if constexpr (is_tensor<T>) {
      if ((operand++)->cast) {
        T moved = cast(argument);
        if constexpr (!casts_all<Op>()) {
          rows.push_back(tensor_of(moved));
        }
        return moved;
      }
    }
    return argument;
  };
  // Braces: the operands are visited from left to right.
  const std::tuple<Args...> moved{one(args)...};
  auto results = std::apply([](const Args&... each) { return call<Op>(each...); }, moved);
  if constexpr (!casts_all<Op>()) {
    at::ScalarType type = rows[0].scalar_type();
    for (const at::Tensor& row : rows) {
      type = c10::promoteTypes(type, row.scalar_type());
    }
    results = Results<decltype(results)>::map(results, [&](const at::Tensor& x, size_t) { return x.to(type); });
  }
  return results;
}

}  // namespace lanes

// The lanes as plain functions with exactly the signatures that the dispatcher expects.
template <typename Op, typename Signature = typename Op::Signature>
struct Lanes;

template <typename Op, typename Result, typename... A>
struct Lanes<Op, Result(A...)> {
  using Results = lanes::Results<Result>;
  using OutSignature = void(A..., at::Tensor&);

  template <typename... Args>
  static Result compute(const Args&... args) {
    const auto contract = Op::template contract<int64_t>(args...);
    Result results = Results::allocate(contract, lanes::first_tensor(args...).options());
    Op::run(contract, results, args...);
    return results;
  }

  // CPU and CUDA: run() finds the device.
  static Result kernel(A... args) {
    return compute(lanes::concrete(args)...);
  }

  static Result meta(A... args) {
    // Checked before the options are asked of a tensor that may be undefined.
    const auto contract = Op::template contract<c10::SymInt>(args...);
    return Results::allocate(contract, lanes::first_tensor(args...).options());
  }

  static Result autograd(A... args) {
    lanes::check_layouts<Op>(args...);
    if constexpr (Op::kDerivative == Derivative::kNone) {
      if (lanes::any_requires_grad(args...) || lanes::any_has_tangent(args...)) {
        // The contract goes first: an argument that is wrong in itself is the better error.
        (void)Op::template contract<c10::SymInt>(args...);
        TORCH_CHECK(false, Op::kName, ": has no derivative, got an argument that requires grad");
      }
      return below_autograd(args...);
    } else {
      const bool with_grad = lanes::any_requires_grad(args...);
      const bool with_tangent = lanes::any_has_tangent(args...);
      if (!with_grad && !with_tangent) {
        return below_autograd(args...);
      }
      if constexpr (Op::kDerivative == Derivative::kComposition) {
        // Checked before anything is composed.
        const auto contract = Op::template contract<c10::SymInt>(args...);
        return Results::map(Op::compose(args...), [&](const at::Tensor& x, size_t i) {
          const auto& own = lanes::contract_at(contract, i);
          return x.to(own.dtype).expand_symint(own.sizes).contiguous();
        });
      } else {
        Result results = below_autograd(args...);
        const auto formula = lanes::make_formula<Op>(args...);
        const variable_list inputs = lanes::tensors_of(args...);
        record_derivatives(Op::kName, formula, inputs, Results::list(results), with_grad, with_tangent);
        return results;
      }
    }
  }

  template <c10::DeviceType kDevice>
  static Result autocast(A... args) {
    if constexpr (requires(at::ScalarType type) { Op::autocast(type, args...); }) {
      const Autocast<kDevice> below;
      return std::apply([](const auto&... own) { return call<Op>(own...); },
                        Op::autocast(at::autocast::get_autocast_dtype(kDevice), args...));
    } else {
      return lanes::with_autocast<kDevice, Op>(args...);
    }
  }

  static void out(A... args, at::Tensor& out) {
    const auto contract = Op::template contract<int64_t>(lanes::concrete(args)...);
    check(out, contract, args...);
    if (out.is_contiguous()) {
      return Op::run(contract, out, lanes::concrete(args)...);
    }
    out.copy_(compute(lanes::concrete(args)...));
  }
  static void out_meta(A... args, at::Tensor& out) {
    check(out, Op::template contract<c10::SymInt>(args...), args...);
  }
  static void out_negative(A... args, at::Tensor& out) {
    // Before copies without the mark hide what shares memory.
    if (out.is_meta()) {
      out_meta(args..., out);
    } else {
      check(out, Op::template contract<int64_t>(lanes::concrete(args)...), args...);
    }
    write_plain(out, [&](at::Tensor& plain) { call_out(resolved(args)..., plain); });
  }
  static void out_autograd(A... args, at::Tensor& out) {
    lanes::check_layouts<Op>(args...);
    check_strided(Op::kName, {"out", out});
    lanes::refuse_derivatives(
        Op::kName, "out", [&] { call_out(args..., out); }, out, args...);
  }
  static void out_version(A... args, at::Tensor& out) {
    lanes::check_writable(Op::kName, "out", out);
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      call_out(args..., out);
    }
    lanes::bump_version(out);
  }

  static void add(torch::Library& m) {
    using Key = c10::DispatchKey;
    if constexpr (Op::kDerivative == Derivative::kFormula) {
      static_assert(HasBackward<typename Op::Formula> && HasTangent<typename Op::Formula>,
                    "a formula has backward and jvp as csrc/autograd.h says");
    }
    const std::string name = qualified("");
    m.impl(name.c_str(), Key::CPU, &kernel);
#if defined(TORCH_HRR_WITH_CUDA)
    m.impl(name.c_str(), Key::CUDA, &kernel);
#endif
    m.impl(name.c_str(), Key::Meta, &meta);
    m.impl(name.c_str(), Key::Autograd, &autograd);
    if constexpr (Op::kAutocast) {
      m.impl(name.c_str(), Key::AutocastCPU, &autocast<c10::DeviceType::CPU>);
      m.impl(name.c_str(), Key::AutocastCUDA, &autocast<c10::DeviceType::CUDA>);
    }
    if constexpr (Op::kHasOut) {
      const std::string out_name = qualified("out");
      m.impl(out_name.c_str(), Key::CPU, &out);
#if defined(TORCH_HRR_WITH_CUDA)
      m.impl(out_name.c_str(), Key::CUDA, &out);
#endif
      m.impl(out_name.c_str(), Key::Meta, &out_meta);
      m.impl(out_name.c_str(), Key::Negative, &out_negative);
      m.impl(out_name.c_str(), Key::Autograd, &out_autograd);
      m.impl(out_name.c_str(), Key::ADInplaceOrView, &out_version);
    }
    lanes::report(Op::kName, Op::kOverload, Op::kOperands,
                  lanes::c_shim<Op>(static_cast<typename Op::Signature*>(nullptr)));
  }

  template <typename... Args>
  static void call_out(Args&&... args) {
    static const auto op = typed_operator<OutSignature>(Op::kName, "out");
    op.call(std::forward<Args>(args)...);
  }

 private:
  static Result below_autograd(const std::remove_cvref_t<A>&... args) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call<Op>(args...);
  }
  template <typename Contract>
  static void check(const at::Tensor& out, const Contract& contract, const std::remove_cvref_t<A>&... args) {
    c10::SmallVector<Argument, 4> inputs;
    lanes::for_each_operand<Op>(
        [&](const Operand& operand, const at::Tensor& tensor) {
          inputs.push_back({operand.name, tensor});
        },
        args...);
    check_out(Op::kName, out, contract, inputs);
  }
  static std::string qualified(const char* overload) {
    const std::string own = *overload != '\0' ? overload : Op::kOverload;
    return own.empty() ? Op::kName : Op::kName + std::string(".") + own;
  }
};

// Operators that write in place, into the operands marked `written`.
template <typename Op, typename... A>
struct Lanes<Op, void(A...)> {
  static void kernel(A... args) {
    Op::run(Op::check(lanes::concrete(args)...), lanes::concrete(args)...);
  }
  static void meta(A... args) {
    (void)Op::check(lanes::concrete(args)...);
  }
  static void autograd(A... args) {
    lanes::check_layouts<Op>(args...);
    lanes::refuse_derivatives(
        Op::kName, "an argument written in place", [&] { call<Op>(args...); }, args...);
  }
  static void version(A... args) {
    const auto for_each_written = [&](const auto& visit) {
      lanes::for_each_operand<Op>(
          [&](const Operand& operand, const at::Tensor& tensor) {
            if (operand.written) {
              visit(operand.name, tensor);
            }
          },
          args...);
    };
    for_each_written(
        [](const char* name, const at::Tensor& tensor) { lanes::check_writable(Op::kName, name, tensor); });
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      call<Op>(args...);
    }
    for_each_written([](const char*, const at::Tensor& tensor) { lanes::bump_version(tensor); });
  }

  static void add(torch::Library& m) {
    using Key = c10::DispatchKey;
    static_assert(Op::kDerivative == Derivative::kNone, "an operator that writes in place has no derivative");
    m.impl(Op::kName, Key::CPU, &kernel);
#if defined(TORCH_HRR_WITH_CUDA)
    m.impl(Op::kName, Key::CUDA, &kernel);
#endif
    m.impl(Op::kName, Key::Meta, &meta);
    m.impl(Op::kName, Key::Autograd, &autograd);
    m.impl(Op::kName, Key::ADInplaceOrView, &version);
    lanes::report(Op::kName, "", Op::kOperands);
  }
};

template <StatesDerivative... Ops>
void register_operators(torch::Library& m) {
  (Lanes<Ops>::add(m), ...);
}

// The .out overload of an operator through the dispatcher; out is the last argument.
template <typename Op, typename... Args>
void call_out(Args&&... args) {
  Lanes<Op>::call_out(std::forward<Args>(args)...);
}

}  // namespace torch_hrr
