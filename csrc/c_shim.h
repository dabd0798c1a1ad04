// The C functions by which code that AOTInductor generated calls an operator without boxing its arguments.
//
// Such code takes operators of libraries through C functions with arguments of plain types (its "C shims"). One
// template makes them of the signatures in the traits; torch_hrr_c_shim (csrc/operator.cpp) finds one by the operator's
// name, and torch_hrr.io.inductor_configs declares them to AOTInductor by their schemas.
#pragma once

#include <c10/core/SymInt.h>
#include <c10/util/string_view.h>
#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "csrc/dispatch.h"

namespace torch_hrr::lanes {

// An argument's plain type, and the argument made of it.
template <typename T>
struct PlainType;
template <>
struct PlainType<at::Tensor> {
  using Type = AtenTensorHandle;
  static at::Tensor argument(Type handle) {
    return *torch::aot_inductor::tensor_handle_to_tensor_pointer(handle);
  }
};
template <>
struct PlainType<std::string_view> {
  using Type = const char*;
  static std::string_view argument(Type text) {
    return text;
  }
};
template <typename T>
requires std::is_same_v<T, int64_t> || std::is_same_v<T, double>
struct PlainType<T> {
  using Type = T;
  static T argument(T number) {
    return number;
  }
};
template <>
struct PlainType<c10::SymInt> {
  using Type = int64_t;
  static c10::SymInt argument(Type number) {
    return number;
  }
};
template <typename T>
requires std::is_same_v<T, bool> || std::is_same_v<T, at::ScalarType>
struct PlainType<T> {
  using Type = int32_t;
  static T argument(Type number) {
    return static_cast<T>(number);
  }
};
template <typename T>
struct PlainType<std::optional<T>> {
  using Type = const typename PlainType<T>::Type*;
  static std::optional<T> argument(Type pointer) {
    return pointer == nullptr ? std::nullopt : std::optional<T>(PlainType<T>::argument(*pointer));
  }
};

template <typename Result>
constexpr size_t kResults = 1;
template <typename... Tensors>
constexpr size_t kResults<std::tuple<Tensors...>> = sizeof...(Tensors);

template <size_t>
using ResultHandle = AtenTensorHandle*;

template <typename Op, typename Signature, typename Results>
struct CShim;
template <typename Op, typename Result, typename... A, size_t... i>
struct CShim<Op, Result(A...), std::index_sequence<i...>> {
  static AOTITorchError run(typename PlainType<std::remove_cvref_t<A>>::Type... args, ResultHandle<i>... handles) {
    AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
      Result results = call<Op>(PlainType<std::remove_cvref_t<A>>::argument(args)...);
      const auto give = [](AtenTensorHandle* handle, at::Tensor& tensor) {
        *handle = torch::aot_inductor::new_tensor_handle(std::move(tensor));
      };
      if constexpr (sizeof...(i) == 1) {
        (give(handles, results), ...);
      } else {
        (give(handles, std::get<i>(results)), ...);
      }
    });
  }
};

using AnyFunction = void (*)();

// The function as one of any type.
template <typename Op, typename Result, typename... A>
AnyFunction c_shim(Result (*)(A...)) {
  using Results = std::make_index_sequence<kResults<Result>>;
  return reinterpret_cast<AnyFunction>(&CShim<Op, Result(A...), Results>::run);
}

}  // namespace torch_hrr::lanes
