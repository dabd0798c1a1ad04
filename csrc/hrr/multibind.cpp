// multibind: CPU and CUDA, Meta, derivatives, autocast, registration.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/unbind.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "csrc/autograd.h"
#include "csrc/dispatch.h"
#include "csrc/hrr/contracts.h"
#include "csrc/hrr/execute.h"
#include "csrc/hrr/library_fft.h"
#include "csrc/hrr/normalization.h"
#include "csrc/hrr/operators.h"
#include "csrc/rows.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;
using c10::SymInt;

Tensor compute(const Tensor& vectors) {
  const auto contract = items_contract<int64_t>("multibind", {{"vectors", vectors}}, std::nullopt, 0);
  const c10::ArrayRef<int64_t> sizes = contract.sizes;
  const c10::ArrayRef<int64_t> batch = sizes.slice(0, sizes.size() - 2);
  const Tensor out = at::empty(without_items(contract).sizes, vectors.options());
  kernels::MultibindParams params;
  params.rows = product_of(batch);
  params.items = sizes[sizes.size() - 2];
  params.dim = sizes.back();
  if (params.rows == 0) {
    return out;
  }
  if (params.items == 0) {
    out.zero_().select(-1, 0).fill_(1);
    return out;
  }
  if (params.items == 1) {
    // A row that is not finite is a NaN row here too.
    const Tensor row = in_compute_type(vectors.select(-2, 0));
    return out.copy_(row + row.mul(0).sum(-1, /*keepdim=*/true));
  }
  if (!has_kernel_spectrum(params.dim, out)) {
    return out.copy_(library_multibind(vectors));
  }
  const at::ScalarType row_type = spectrum_row_type(params.dim, out, contract.dtype);
  Tensor rows = with_unit_rows(vectors, row_type);
  if (!make_row_map<1>(batch, {RowOperand{&rows, 2}}, params.map)) {
    rows = rows.contiguous();
    make_row_map<1>(batch, {RowOperand{&rows, 2}}, params.map);
  }
  params.vectors = rows.const_data_ptr();
  params.item_stride = rows.stride(-2);
  return execute_in(row_type, params, out);
}

Tensor compute_meta(const Tensor& vectors) {
  const auto contract = items_contract<SymInt>("multibind", {{"vectors", vectors}}, std::nullopt, 0);
  return at::empty_symint(without_items(contract).sizes, vectors.options());
}

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

struct MultibindFormula {
  static constexpr const char* kName = "TorchHrrMultibindBackward";
  static constexpr const char* kOperator = "multibind";
  static constexpr const char* kArguments[] = {"vectors"};

  Tensor forward(const Tensor& vectors) const {
    return torch_hrr::multibind(vectors);
  }
  variable_list backward(const std::vector<Tensor>& inputs, const Tensor& grad, const std::vector<bool>&) const {
    const Tensor g = in_compute_type(grad).unsqueeze(-2);
    switch (items_of(inputs[0])) {
      case 0:
        return {at::zeros_like(inputs[0])};
      case 1:
        return {g};
      default:
        return {torch_hrr::unbind(g, products_of_others(in_compute_type(inputs[0])))};
    }
  }
  Tensor jvp(const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents) const {
    const Tensor moved = in_compute_type(tangents[0]);
    if (items_of(inputs[0]) < 2) {
      return moved.sum(-2);
    }
    return torch_hrr::bind_superpose(products_of_others(in_compute_type(inputs[0])), moved);
  }

 private:
  // K decides how many operators are called, so it is a constant of a compiled graph.
  static int64_t items_of(const Tensor& vectors) {
    return vectors.sym_size(-2).guard_int(__FILE__, __LINE__);
  }
};

template <c10::DeviceType kDevice>
void register_autocast(torch::Library& m) {
  m.impl("multibind", [](const Tensor& vectors) {
    const Autocast<kDevice> cast;
    return torch_hrr::multibind(cast(vectors));
  });
}

}  // namespace
}  // namespace torch_hrr::hrr

using namespace torch_hrr::hrr;

TORCH_LIBRARY_IMPL(torch_hrr, CPU, m) {
  m.impl("multibind", compute);
}
#if defined(TORCH_HRR_WITH_CUDA)
TORCH_LIBRARY_IMPL(torch_hrr, CUDA, m) {
  m.impl("multibind", compute);
}
#endif
TORCH_LIBRARY_IMPL(torch_hrr, Meta, m) {
  m.impl("multibind", compute_meta);
}
TORCH_LIBRARY_IMPL(torch_hrr, Autograd, m) {
  m.impl("multibind", [](const Tensor& vectors) { return torch_hrr::differentiable(MultibindFormula{}, vectors); });
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCPU, m) {
  register_autocast<c10::DeviceType::CPU>(m);
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCUDA, m) {
  register_autocast<c10::DeviceType::CUDA>(m);
}
