// What the operators that map a row's spectrum share: a call in its schema's words, contract, computation.
#pragma once

#include "csrc/hrr/contracts.h"
#include "csrc/operator.h"
#include "kernels/hrr/spectral_map.h"

namespace torch_hrr::hrr {

// A call of one of the maps, in its schema's words; v and exponent are undefined where the map takes none.
struct MapCall {
  const char* name;
  kernels::SpectralMap kind;
  at::Tensor a;
  at::Tensor v;
  at::Tensor exponent;
  double eps = 0;
  int64_t order = 0;
  const char* v_name = "grad";
  bool is_power_itself = false;  // rather than one of its derivatives
};

// A number in a tensor may stay on the CPU; wherever it is, it takes no part in type promotion.
inline bool is_number(const at::Tensor& exponent) {
  return exponent.defined() && exponent.dim() == 0 && exponent.is_cpu();
}

template <typename Int>
ResultContract<Int> map_contract(const MapCall& call) {
  const Argument a{"a", call.a};
  const bool directed = kernels::takes_direction(call.kind);
  ResultContract<Int> result{{}, at::kFloat};
  if (directed) {
    result = bind_contract<Int>(call.name, a, {call.v_name, call.v}, call.eps);
  } else {
    result = row_contract<Int>(call.name, a);
    check_eps(call.name, call.eps);
  }
  if (call.kind == kernels::SpectralMap::kPower || call.kind == kernels::SpectralMap::kPowerBackward) {
    const Argument exponent{"exponent", call.exponent};
    if (is_number(call.exponent)) {
      check_floating(call.name, {exponent});
    } else {
      check_floating(call.name, {a, exponent});
    }
    if (call.exponent.dim() > 0) {
      result.dtype = c10::promoteTypes(result.dtype, call.exponent.scalar_type());
    }
    constexpr int64_t kMaxOrder = 64;
    TORCH_CHECK_VALUE(call.order >= 0, call.name, ": order must be at least 0, got ", call.order);
    TORCH_CHECK_VALUE(call.order <= kMaxOrder, call.name, ": order must be at most ", kMaxOrder, ", got ", call.order);
    const Int dim = result.sizes.back();
    result.sizes.pop_back();
    broadcast_into<Int>(call.name, sizes_of<Int>(call.exponent), "exponent and the leading dimensions of a",
                        result.sizes);
    result.sizes.push_back(dim);
  }
  check_numel<Int>(call.name, result.sizes);
  return result;
}

void run_map(const MapCall& call, const ResultContract<int64_t>& contract, const at::Tensor& out);

// The operators' traits: Op::map() makes the call of the schema's arguments.
template <typename Op>
struct MapOperator : Operator {
  template <typename Int, typename... Args>
  static ResultContract<Int> contract(const Args&... args) {
    return map_contract<Int>(Op::map(args...));
  }
  template <typename... Args>
  static void run(const ResultContract<int64_t>& contract, const at::Tensor& out, const Args&... args) {
    run_map(Op::map(args...), contract, out);
  }
};

}  // namespace torch_hrr::hrr
