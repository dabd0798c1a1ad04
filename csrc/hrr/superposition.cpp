// superpose: CPU and CUDA, Meta, derivatives, autocast, registration.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "csrc/autograd.h"
#include "csrc/dispatch.h"
#include "csrc/hrr/contracts.h"
#include "csrc/hrr/execute.h"
#include "csrc/hrr/normalization.h"
#include "csrc/hrr/operators.h"
#include "csrc/rows.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;
using c10::SymInt;
using OptionalTensor = std::optional<Tensor>;

void run(const ResultContract<int64_t>& contract, const Tensor& vectors, const OptionalTensor& weights, bool normalize,
         double eps, const Tensor& out) {
  const c10::ArrayRef<int64_t> sizes = contract.sizes;
  const c10::ArrayRef<int64_t> batch = sizes.slice(0, sizes.size() - 2);
  kernels::SuperpositionParams params;
  params.rows = product_of(batch);
  params.items = sizes[sizes.size() - 2];
  params.dim = sizes.back();
  if (params.rows == 0) {
    return;
  }
  Tensor rows = with_unit_rows(vectors, contract.dtype);
  Tensor factors = weights.has_value() ? weights->to(contract.dtype) : Tensor();
  const auto map_rows = [&] {
    return make_row_map<2>(batch, {RowOperand{&rows, 2}, RowOperand{factors.defined() ? &factors : nullptr, 1}},
                           params.map);
  };
  if (!map_rows()) {
    rows = rows.expand(sizes).contiguous();
    factors = factors.defined() ? factors.expand(sizes.slice(0, sizes.size() - 1)).contiguous() : factors;
    map_rows();
  }
  params.vectors = rows.const_data_ptr();
  params.item_stride_vectors = rows.size(-2) == 1 ? 0 : rows.stride(-2);
  if (factors.defined()) {
    params.weights = factors.const_data_ptr();
    params.item_stride_weights = factors.size(-1) == 1 ? 0 : factors.stride(-1);
  }
  params.out = out.mutable_data_ptr();
  params.normalize = normalize;
  params.eps = eps;
  execute(params, out);
}

Tensor compute(const Tensor& vectors, const OptionalTensor& weights, bool normalize, double eps) {
  const auto contract = superpose_contract<int64_t>(vectors, weights, eps);
  const Tensor out = at::empty(without_items(contract).sizes, vectors.options().dtype(contract.dtype));
  run(contract, vectors, weights, normalize, eps, out);
  return out;
}

void compute_out(const Tensor& vectors, const OptionalTensor& weights, bool normalize, double eps, Tensor& out) {
  const auto contract = superpose_contract<int64_t>(vectors, weights, eps);
  check_out("superpose", out, without_items(contract),
            {{"vectors", vectors}, {"weights", tensor_or_undefined(weights)}});
  if (out.is_contiguous()) {
    return run(contract, vectors, weights, normalize, eps, out);
  }
  out.copy_(compute(vectors, weights, normalize, eps));
}

Tensor superpose_meta(const Tensor& vectors, const OptionalTensor& weights, bool /*normalize*/, double eps) {
  const auto contract = superpose_contract<SymInt>(vectors, weights, eps);
  return at::empty_symint(without_items(contract).sizes, vectors.options().dtype(contract.dtype));
}

void superpose_out_meta(const Tensor& vectors, const OptionalTensor& weights, bool /*normalize*/, double eps,
                        Tensor& out) {
  check_out("superpose", out, without_items(superpose_contract<SymInt>(vectors, weights, eps)),
            {{"vectors", vectors}, {"weights", tensor_or_undefined(weights)}});
}

// s = sum_k w_k x_k: dL/dx_k = w_k dL/ds, dL/dw_k = x_k . dL/ds.
struct SuperposeFormula {
  static constexpr const char* kName = "TorchHrrSuperposeBackward";
  static constexpr const char* kOperator = "superpose";
  static constexpr const char* kArguments[] = {"vectors", "weights"};
  bool normalize;
  double eps;

  Tensor forward(const Tensor& vectors, const Tensor& weights) const {
    return torch_hrr::superpose(vectors, optional_of(weights), normalize, eps);
  }
  static Tensor sum(const Tensor& vectors, const Tensor& weights) {
    return torch_hrr::superpose(vectors, optional_of(weights), /*normalize=*/false, /*eps=*/0);
  }
  Tensor through_norm(const std::vector<Tensor>& inputs, const Tensor& v) const {
    return normalize ? normalization_jacobian(sum(inputs[0], inputs[1]), v, eps) : v;
  }

  variable_list backward(const std::vector<Tensor>& inputs, const Tensor& grad, const std::vector<bool>& wanted) const {
    const std::vector<Tensor> wide = in_compute_type(inputs);
    const Tensor grad_items = through_norm(wide, in_compute_type(grad)).unsqueeze(-2);
    variable_list grads(2);
    if (wanted[0]) {
      grads[0] = wide[1].defined() ? grad_items * wide[1].unsqueeze(-1)
                                   : grad_items.expand_symint(expanded_sizes(grad_items, wide[0]));
    }
    if (wanted[1]) {
      grads[1] = (wide[0] * grad_items).sum(-1);
    }
    return grads;
  }
  Tensor jvp(const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents) const {
    const std::vector<Tensor> wide = in_compute_type(inputs);
    const std::vector<Tensor> moved = in_compute_type(tangents);
    Tensor direction = moved[0].defined() ? sum(moved[0], wide[1]) : Tensor();
    if (moved[1].defined()) {
      const Tensor from_weights = sum(wide[0], moved[1]);
      direction = direction.defined() ? direction + from_weights : from_weights;
    }
    return through_norm(wide, direction);
  }

 private:
  // grad_items [..., 1, D] repeated over the K of vectors
  static Sizes<SymInt> expanded_sizes(const Tensor& grad_items, const Tensor& vectors) {
    Sizes<SymInt> sizes(grad_items.sym_sizes().begin(), grad_items.sym_sizes().end());
    sizes[sizes.size() - 2] = vectors.sym_size(-2);
    return sizes;
  }
};

Tensor superpose_autograd(const Tensor& vectors, const OptionalTensor& weights, bool normalize, double eps) {
  return differentiable(SuperposeFormula{normalize, eps}, vectors, tensor_or_undefined(weights));
}

void superpose_out_autograd(const Tensor& vectors, const OptionalTensor& weights, bool normalize, double eps,
                            Tensor& out) {
  check_strided("superpose", {{"vectors", vectors}, {"weights", tensor_or_undefined(weights)}, {"out", out}});
  not_differentiable_out(
      "superpose", [&] { torch_hrr::superpose_out(out, vectors, weights, normalize, eps); }, out, vectors,
      tensor_or_undefined(weights));
}

template <c10::DeviceType kDevice>
void register_autocast(torch::Library& m) {
  m.impl("superpose", [](const Tensor& vectors, const OptionalTensor& weights, bool normalize, double eps) {
    const Autocast<kDevice> cast;
    return torch_hrr::superpose(cast(vectors), cast(weights), normalize, eps);
  });
}

}  // namespace
}  // namespace torch_hrr::hrr

using namespace torch_hrr::hrr;

TORCH_LIBRARY_IMPL(torch_hrr, CPU, m) {
  m.impl("superpose", compute);
  m.impl("superpose.out", compute_out);
}
#if defined(TORCH_HRR_WITH_CUDA)
TORCH_LIBRARY_IMPL(torch_hrr, CUDA, m) {
  m.impl("superpose", compute);
  m.impl("superpose.out", compute_out);
}
#endif
TORCH_LIBRARY_IMPL(torch_hrr, Meta, m) {
  m.impl("superpose", superpose_meta);
  m.impl("superpose.out", superpose_out_meta);
}
TORCH_LIBRARY_IMPL(torch_hrr, Negative, m) {
  m.impl("superpose.out",
         [](const Tensor& vectors, const OptionalTensor& weights, bool normalize, double eps, Tensor& out) {
           torch_hrr::write_plain(out, [&](Tensor& plain) {
             torch_hrr::superpose_out(plain, vectors.resolve_neg(), torch_hrr::resolve_neg(weights), normalize, eps);
           });
         });
}

TORCH_LIBRARY_IMPL(torch_hrr, Autograd, m) {
  m.impl("superpose", superpose_autograd);
  m.impl("superpose.out", superpose_out_autograd);
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCPU, m) {
  register_autocast<c10::DeviceType::CPU>(m);
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCUDA, m) {
  register_autocast<c10::DeviceType::CUDA>(m);
}
