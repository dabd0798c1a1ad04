// multibind: the product of all items of a row, of any number.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

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

// K decides how many operators are called, so it is a constant of a compiled graph.
int64_t items_of(const Tensor& vectors) {
  return vectors.sym_size(-2).guard_int(__FILE__, __LINE__);
}

// [..., K, D] with K >= 2: for each k the product of all other vectors. What the others of a pair share is found from
// the products of pairs, by 2 log2(K) calls of bind.
Tensor products_of_others(const Tensor& vectors) {
  const int64_t items = items_of(vectors);
  if (items == 2) {
    // Unlike flip, these have sharding strategies in every version of torch.
    return at::cat({vectors.narrow(-2, 1, 1), vectors.narrow(-2, 0, 1)}, -2);
  }
  const int64_t pairs = items / 2;
  const Tensor left = vectors.narrow(-2, 0, pairs);
  const Tensor right = vectors.narrow(-2, pairs, pairs);
  const Tensor unpaired = vectors.narrow(-2, 2 * pairs, items - 2 * pairs);
  const Tensor others = products_of_others(at::cat({torch_hrr::bind(left, right), unpaired}, -2));
  const Tensor of_pairs = others.narrow(-2, 0, pairs);
  return at::cat(
      {torch_hrr::bind(of_pairs, right), torch_hrr::bind(of_pairs, left), others.narrow(-2, pairs, items - 2 * pairs)},
      -2);
}

// [..., D] and [..., K, D] give [..., K, D].
template <typename Int>
ResultContract<Int> multibind_backward_contract(const char* op, const Argument& grad, const Argument& vectors) {
  check_floating(op, {vectors, grad});
  check_rank(op, grad, 1, "[..., D]");
  check_rank(op, vectors, 2, "[..., K, D]");
  check_same_last<Int>(op, vectors, grad);
  check_not_empty_last<Int>(op, vectors);
  const c10::ArrayRef<Int> own = sizes_of<Int>(vectors.tensor);
  ResultContract<Int> result{{}, promote(grad.tensor, vectors.tensor)};
  const LeadingDimensions description{grad.name, vectors.name};
  broadcast_into<Int>(op, all_but_last(sizes_of<Int>(grad.tensor)), description, result.sizes);
  broadcast_into<Int>(op, all_but_last(all_but_last(own)), description, result.sizes);
  result.sizes.append(own.end() - 2, own.end());
  check_numel<Int>(op, result.sizes);
  return result;
}

struct MultibindBackward : Operator {
  static constexpr const char* kName = "_multibind_backward";
  static constexpr Operand kOperands[] = {{"grad", 1}, {"vectors", 2}};
  using Signature = Tensor(const Tensor& grad, const Tensor& vectors);
  static constexpr Derivative kDerivative = Derivative::kComposition;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& grad, const Tensor& vectors) {
    return multibind_backward_contract<Int>(kName, {"grad", grad}, {"vectors", vectors});
  }

  static Tensor compose(const Tensor& grad, const Tensor& vectors) {
    const Tensor g = in_compute_type(grad).unsqueeze(-2);
    switch (items_of(vectors)) {
      case 0:
        return g.narrow(-2, 0, 0);
      case 1:
        // A row that is not finite is a NaN row here too.
        return g + g.mul(0).sum(-1, /*keepdim=*/true);
      default:
        return torch_hrr::unbind(g, products_of_others(in_compute_type(vectors)));
    }
  }

  static void run(const ResultContract<int64_t>& contract, const Tensor& out, const Tensor& grad,
                  const Tensor& vectors) {
    const c10::ArrayRef<int64_t> batch = all_but_last(all_but_last<int64_t>(contract.sizes));
    kernels::MultibindBackwardParams params;
    params.rows = product_of(batch);
    params.items = vectors.size(-2);
    params.dim = vectors.size(-1);
    if (out.numel() == 0) {
      return;
    }
    params.plan = plan_rows(params, out, contract.dtype);
    if (params.items == 1 || params.plan.path == kernels::RowPath::kLibrary ||
        params.items > kernels::kMaxMultibindBackwardElements / params.dim) {
      out.copy_(compose(grad, vectors));
      return;
    }
    const Rows<2> rows(batch,
                       {{{with_unit_rows(grad, contract.dtype), 1}, {with_unit_rows(vectors, contract.dtype), 2}}});
    params.map = rows.map();
    params.grad = rows.data(0);
    params.vectors = rows.data(1);
    params.item_stride = rows.stride(1, -2);
    params.out = out.mutable_data_ptr();
    execute_rows_on_cpu(params, params.rows,
                        kernels::kernel_table<kernels::RowKernel<kernels::MultibindBackwardParams>>(storage_of(out)));
  }
};

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
    params.plan = plan_rows(params, out, contract.dtype);
    if (params.plan.path == kernels::RowPath::kLibrary) {
      out.copy_(library_multibind(vectors));
      return;
    }
    const at::ScalarType row_type = row_type_of(params.plan, out, contract.dtype);
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
      if (items < 2) {
        return {grad.unsqueeze(-2).narrow(-2, 0, items)};
      }
      return {call<MultibindBackward>(grad, inputs[0])};
    }
    Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
      const Tensor moved = in_compute_type(tangents[0]);
      if (items < 2) {
        return moved.sum(-2);
      }
      return torch_hrr::bind_superpose(products_of_others(in_compute_type(inputs[0])), moved);
    }
  };
  static Formula formula(const Tensor& vectors) {
    return {items_of(vectors)};
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<Multibind, MultibindBackward>(m);
}

}  // namespace
}  // namespace torch_hrr::hrr

namespace torch_hrr {

at::Tensor multibind(const at::Tensor& vectors) {
  return call<hrr::Multibind>(vectors);
}

}  // namespace torch_hrr
