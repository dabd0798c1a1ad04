// multibind: the product of all items of a row, of any number.
#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/unbind.h>
#include <ATen/ops/zeros_like.h>

#include "csrc/hrr/contracts.h"
#include "csrc/hrr/execute.h"
#include "csrc/hrr/library_fft.h"
#include "csrc/hrr/operators.h"
#include "csrc/operator.h"
#include "csrc/rows.h"
#include "csrc/types.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;

// [..., K, D]: for each k the product of the vectors before it and after it.
Tensor products_of_others(const Tensor& vectors) {
  const std::vector<Tensor> items = at::unbind(vectors, -2);
  const size_t count = items.size();
  std::vector<Tensor> others(count);
  Tensor before;
  for (size_t k = 1; k < count; ++k) {
    before = before.defined() ? torch_hrr::bind(before, items[k - 1]) : items[0];
    others[k] = before;
  }
  Tensor after;
  for (size_t k = count - 1; k-- > 0;) {
    after = after.defined() ? torch_hrr::bind(after, items[k + 1]) : items[count - 1];
    others[k] = others[k].defined() ? torch_hrr::bind(others[k], after) : after;
  }
  return at::stack(others, -2);
}

struct Multibind : Operator {
  static constexpr const char* kName = "multibind";
  static constexpr Operand kOperands[] = {{"vectors", 2}};
  using Signature = Tensor(const Tensor& vectors);
  static constexpr bool kAutocast = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static SumContract<Int> contract(const Tensor& vectors) {
    return sum_contract<Int>(kName, {{"vectors", vectors}}, std::nullopt, 0);
  }

  static void run(const SumContract<int64_t>& contract, const Tensor& out, const Tensor& vectors) {
    const c10::ArrayRef<int64_t> batch = contract.batch();
    kernels::MultibindParams params;
    params.rows = product_of(batch);
    params.items = contract.items;
    params.dim = contract.sizes.back();
    if (params.rows == 0) {
      return;
    }
    if (params.items == 0) {
      out.zero_().select(-1, 0).fill_(1);
      return;
    }
    if (params.items == 1) {
      // A row that is not finite is a NaN row here too.
      const Tensor row = in_compute_type(vectors.select(-2, 0));
      out.copy_(row + row.mul(0).sum(-1, /*keepdim=*/true));
      return;
    }
    if (!has_kernel_spectrum(params.dim, out, contract.dtype)) {
      out.copy_(library_multibind(vectors));
      return;
    }
    const at::ScalarType row_type = spectrum_row_type(params.dim, out, contract.dtype);
    const Rows<1> rows(batch, {{{with_unit_rows(vectors, row_type), 2}}});
    params.map = rows.map();
    params.vectors = rows.data(0);
    params.item_stride = rows.stride(0, -2);
    execute_in(row_type, params, out);
  }

  struct Formula {
    int64_t items;

    bool reads(size_t, const Wanted&) const {
      return items > 1;
    }
    variable_list backward(const Saved& inputs, const Tensor& grad, const Wanted&) const {
      const Tensor g = in_compute_type(grad).unsqueeze(-2);
      switch (items) {
        case 0:
          return {g.narrow(-2, 0, 0)};
        case 1:
          return {g};
        default:
          return {torch_hrr::unbind(g, products_of_others(in_compute_type(inputs[0])))};
      }
    }
    Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
      const Tensor moved = in_compute_type(tangents[0]);
      if (items < 2) {
        return moved.sum(-2);
      }
      return torch_hrr::bind_superpose(products_of_others(in_compute_type(inputs[0])), moved);
    }
  };
  // K decides how many operators are called, so it is a constant of a compiled graph.
  static Formula formula(const Tensor& vectors) {
    return {vectors.sym_size(-2).guard_int(__FILE__, __LINE__)};
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<Multibind>(m);
}

}  // namespace
}  // namespace torch_hrr::hrr

namespace torch_hrr {

at::Tensor multibind(const at::Tensor& vectors) {
  return call<hrr::Multibind>(vectors);
}

}  // namespace torch_hrr
