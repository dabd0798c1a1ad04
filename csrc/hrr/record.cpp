// bind_superpose: CPU and CUDA, Meta, derivatives, autocast, registration.
#include <ATen/ops/empty.h>
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
using OptionalTensor = std::optional<Tensor>;

void run(const ResultContract<int64_t>& contract, const Tensor& a, const Tensor& b, const OptionalTensor& weights,
         bool normalize, double eps, const Tensor& out) {
  const c10::ArrayRef<int64_t> sizes = contract.sizes;
  const c10::ArrayRef<int64_t> batch = sizes.slice(0, sizes.size() - 2);
  kernels::RecordParams params;
  params.rows = product_of(batch);
  params.items = sizes[sizes.size() - 2];
  params.dim = sizes.back();
  if (params.rows == 0) {
    return;
  }
  Tensor factors = weights.has_value() ? weights->to(contract.dtype) : Tensor();
  const c10::ArrayRef<int64_t> item_sizes = sizes.slice(0, sizes.size() - 1);
  if (needs_library_fft(params.dim, a)) {
    const auto items = [&](const Tensor& x) {
      return x.to(contract.dtype).expand(sizes).reshape({params.rows, params.items, params.dim});
    };
    return library_record(items(a), items(b),
                          factors.defined() ? factors.expand(item_sizes).reshape({params.rows, params.items}) : factors,
                          kernels::Product::kConvolution, normalize, eps, out.view({params.rows, params.dim}));
  }
  Tensor rows_a = with_unit_rows(a, contract.dtype);
  Tensor rows_b = with_unit_rows(b, contract.dtype);
  const auto map_rows = [&] {
    return make_row_map<3>(
        batch, {RowOperand{&rows_a, 2}, RowOperand{&rows_b, 2}, RowOperand{factors.defined() ? &factors : nullptr, 1}},
        params.map);
  };
  if (!map_rows()) {
    rows_a = rows_a.expand(sizes).contiguous();
    rows_b = rows_b.expand(sizes).contiguous();
    factors = factors.defined() ? factors.expand(item_sizes).contiguous() : factors;
    map_rows();
  }
  const auto item_stride = [](const Tensor& x, int64_t dim) { return x.size(dim) == 1 ? 0 : x.stride(dim); };
  params.a = rows_a.const_data_ptr();
  params.b = rows_b.const_data_ptr();
  params.item_stride_a = item_stride(rows_a, -2);
  params.item_stride_b = item_stride(rows_b, -2);
  if (factors.defined()) {
    params.weights = factors.const_data_ptr();
    params.item_stride_weights = item_stride(factors, -1);
  }
  params.out = out.mutable_data_ptr();
  params.normalize = normalize;
  params.eps = eps;
  execute(params, out);
}

Tensor compute(const Tensor& a, const Tensor& b, const OptionalTensor& weights, bool normalize, double eps) {
  const auto contract = record_contract<int64_t>(a, b, weights, eps);
  const Tensor out = at::empty(without_items(contract).sizes, a.options().dtype(contract.dtype));
  run(contract, a, b, weights, normalize, eps, out);
  return out;
}

Tensor record_meta(const Tensor& a, const Tensor& b, const OptionalTensor& weights, bool /*normalize*/, double eps) {
  const auto contract = record_contract<SymInt>(a, b, weights, eps);
  return at::empty_symint(without_items(contract).sizes, a.options().dtype(contract.dtype));
}

// s = sum_k w_k (a_k conv b_k): with p_k = dL/ds corr b_k and q_k = dL/ds corr a_k,
//   dL/da_k = w_k p_k, dL/db_k = w_k q_k, dL/dw_k = a_k . p_k.
struct RecordFormula {
  static constexpr const char* kName = "TorchHrrBindSuperposeBackward";
  static constexpr const char* kOperator = "bind_superpose";
  static constexpr const char* kArguments[] = {"a", "b", "weights"};
  bool normalize;
  double eps;

  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& weights) const {
    return torch_hrr::bind_superpose(a, b, optional_of(weights), normalize, eps);
  }
  static Tensor sum(const Tensor& a, const Tensor& b, const Tensor& weights) {
    return torch_hrr::bind_superpose(a, b, optional_of(weights), /*normalize=*/false, /*eps=*/0);
  }
  Tensor through_norm(const std::vector<Tensor>& inputs, const Tensor& v) const {
    return normalize ? normalization_jacobian(sum(inputs[0], inputs[1], inputs[2]), v, eps) : v;
  }

  variable_list backward(const std::vector<Tensor>& inputs, const Tensor& grad, const std::vector<bool>& wanted) const {
    const std::vector<Tensor> wide = in_compute_type(inputs);
    const Tensor grad_items = through_norm(wide, in_compute_type(grad)).unsqueeze(-2);
    Tensor p;
    Tensor q;
    if (wanted[1] && (wanted[0] || wanted[2])) {
      std::tie(p, q) = bind_backward(grad_items, wide[0], wide[1]);
    } else if (wanted[1]) {
      q = torch_hrr::unbind(grad_items, wide[0]);
    } else {
      p = torch_hrr::unbind(grad_items, wide[1]);
    }
    const auto weighted = [&](const Tensor& x) { return wide[2].defined() ? x * wide[2].unsqueeze(-1) : x; };
    return {wanted[0] ? weighted(p) : Tensor(), wanted[1] ? weighted(q) : Tensor(),
            wanted[2] ? (wide[0] * p).sum(-1) : Tensor()};
  }
  Tensor jvp(const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents) const {
    const std::vector<Tensor> wide = in_compute_type(inputs);
    const std::vector<Tensor> moved = in_compute_type(tangents);
    Tensor direction;
    for (size_t i = 0; i < moved.size(); ++i) {
      if (moved[i].defined()) {
        std::vector<Tensor> arguments = wide;
        arguments[i] = moved[i];
        const Tensor term = sum(arguments[0], arguments[1], arguments[2]);
        direction = direction.defined() ? direction + term : term;
      }
    }
    return through_norm(wide, direction);
  }
};

Tensor record_autograd(const Tensor& a, const Tensor& b, const OptionalTensor& weights, bool normalize, double eps) {
  return differentiable(RecordFormula{normalize, eps}, a, b, tensor_or_undefined(weights));
}

template <c10::DeviceType kDevice>
void register_autocast(torch::Library& m) {
  m.impl("bind_superpose",
         [](const Tensor& a, const Tensor& b, const OptionalTensor& weights, bool normalize, double eps) {
           const Autocast<kDevice> cast;
           return torch_hrr::bind_superpose(cast(a), cast(b), cast(weights), normalize, eps);
         });
}

}  // namespace
}  // namespace torch_hrr::hrr

using namespace torch_hrr::hrr;

TORCH_LIBRARY_IMPL(torch_hrr, CPU, m) {
  m.impl("bind_superpose", compute);
}
#if defined(TORCH_HRR_WITH_CUDA)
TORCH_LIBRARY_IMPL(torch_hrr, CUDA, m) {
  m.impl("bind_superpose", compute);
}
#endif
TORCH_LIBRARY_IMPL(torch_hrr, Meta, m) {
  m.impl("bind_superpose", record_meta);
}
TORCH_LIBRARY_IMPL(torch_hrr, Autograd, m) {
  m.impl("bind_superpose", record_autograd);
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCPU, m) {
  register_autocast<c10::DeviceType::CPU>(m);
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCUDA, m) {
  register_autocast<c10::DeviceType::CUDA>(m);
}
