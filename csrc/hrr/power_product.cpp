// The product of powers of rows: fractional power encoding.
#include <ATen/TensorOperators.h>
#include <ATen/ops/atan2.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include "csrc/execute.h"
#include "csrc/hrr/contracts.h"
#include "csrc/hrr/execute.h"
#include "csrc/hrr/operators.h"
#include "csrc/operator.h"
#include "csrc/types.h"
#include "kernels/hrr/power_product.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;
using c10::SymInt;

constexpr double kTurn = 6.28318530717958647692;

Tensor power_product(const Tensor& vectors, const Tensor& exponents);

// Bins [..., n] whose |A|^2 is rounding: see spectral_map.h.
Tensor is_empty(const Tensor& power, const Tensor& rows) {
  const double epsilon = compute_epsilon(rows.scalar_type());
  const Tensor squared = (rows * rows).sum(-1, /*keepdim=*/true);
  return power <= squared * at::Scalar(epsilon * epsilon) * at::Scalar(rows.sym_size(-1));
}

// The bins of packed spectra that are real: the first, and the last where D is even.
Tensor real_bins(const Tensor& packed) {
  const SymInt dim = packed.sym_size(-1);
  return dim % 2 == 0 ? packed.slice_symint(-1, 0, std::nullopt, dim - 1) : packed.slice(-1, 0, 1);
}
// Rows whose other bins are 0.
Tensor rows_of_real_bins(const Tensor& bins, const SymInt& dim) {
  const Tensor first = at::constant_pad_nd_symint(bins.slice(-1, 0, 1), {SymInt(0), dim - bins.sym_size(-1)});
  return torch_hrr::from_spectrum(at::cat({first, bins.slice(-1, 1)}, -1));
}

// For each number of the last dimension the product of the others.
Tensor products_of_others(const Tensor& numbers) {
  const auto products_before = [](const Tensor& x) {
    return at::constant_pad_nd(x, {1, 0}, 1).cumprod(-1).slice(-1, 0, -1);
  };
  return products_before(numbers) * products_before(numbers.flip(-1)).flip(-1);
}

// sum_k x_k of_k
Tensor sum(const Tensor& x, const Tensor& of) {
  return at::matmul(x.unsqueeze(-2), of).squeeze(-2);
}

// [..., n, K] for n real bins: the part of d/dx_k of a product that comes from the cosines of negative A_k,
// -pi sin(pi x_k) prod_j |A_j|^x_j prod_(j != k) cos(pi x_j) with sines and cosines of negative A alone.
Tensor slopes_of_signs(const Tensor& rows, const Tensor& exponents) {
  const Tensor bins = real_bins(torch_hrr::spectrum(rows)).to(at::kDouble);
  const Tensor power = bins * bins;
  const Tensor empty = is_empty(power, rows);
  const Tensor x = exponents.to(at::kDouble);
  const Tensor sizes = sum(x, power.masked_fill(empty, 1).log() * 0.5).exp().masked_fill(empty.any(-2), 0);
  const Tensor angles = (bins < 0).to(at::kDouble).transpose(-1, -2) * (x * (kTurn / 2)).unsqueeze(-2);
  return angles.sin() * products_of_others(angles.cos()) * (sizes * (-kTurn / 2)).unsqueeze(-1);
}

// With F the product's bins: dF = F sum_k (ln A_k dx_k + x_k dA_k / A_k), at real bins with ln |A_k| and the slopes
// of signs.
struct PowerProductFormula {
  static constexpr bool kReadsResult = true;

  static Tensor logarithms(const Tensor& rows) {
    return bind_power_log(rows, number(0), 1);
  }
  static Tensor inverses(const Tensor& rows) {
    return bind_power_log(rows, number(-1), 0);
  }
  static Tensor number(double value) {
    return at::scalar_tensor(value, at::TensorOptions().dtype(at::kDouble));
  }

  // In the type that it is computed in.
  static Tensor product(const Saved& inputs, const Tensor& rows) {
    return is_half(inputs.result().scalar_type()) ? power_product(rows, inputs[1]) : inputs.result();
  }

  variable_list backward(const Saved& inputs, const Tensor& upstream, const Wanted& wanted) const {
    const at::ScalarType type = compute_type(promote(inputs[0], inputs[1]));
    const Tensor rows = inputs[0].to(type);
    const Tensor exponents = inputs[1].to(type);
    const Tensor grad = upstream.to(type);
    const Tensor of_logarithms = torch_hrr::unbind(grad, product(inputs, rows));
    variable_list grads(2);
    if (wanted[0]) {
      // One matrix product where all rows of the result have the same vectors.
      const SymInt count = of_logarithms.sym_numel() / rows.sym_size(-1);
      const auto as_matrix = [&](const Tensor& x) { return x.reshape_symint({count, x.sym_size(-1)}); };
      const Tensor weighted = rows.dim() == 2 ? at::matmul(as_matrix(exponents).t(), as_matrix(of_logarithms))
                                              : exponents.unsqueeze(-1) * of_logarithms.unsqueeze(-2);
      grads[0] = torch_hrr::unbind(weighted, inverses(rows));
    }
    if (wanted[1]) {
      const Tensor of_real_bins = real_bins(torch_hrr::spectrum(grad)).unsqueeze(-1) / rows.sym_size(-1);
      grads[1] = sum(of_logarithms, logarithms(rows).transpose(-1, -2)) +
                 (slopes_of_signs(rows, inputs[1]) * of_real_bins).sum(-2).to(type);
    }
    return grads;
  }
  Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
    const at::ScalarType type = compute_type(promote(inputs[0], inputs[1]));
    const Tensor rows = inputs[0].to(type);
    Tensor direction;
    Tensor of_signs;
    if (tangents[0].defined()) {
      direction = sum(inputs[1].to(type), torch_hrr::bind(tangents[0].to(type), inverses(rows)));
    }
    if (tangents[1].defined()) {
      const Tensor moved = tangents[1].to(type);
      direction = sum_of_defined(direction, sum(moved, logarithms(rows)));
      const Tensor bins = (slopes_of_signs(rows, inputs[1]) * moved.unsqueeze(-2)).sum(-1);
      of_signs = rows_of_real_bins(bins.to(type), rows.sym_size(-1));
    }
    return sum_of_defined(torch_hrr::bind(product(inputs, rows), direction), of_signs);
  }
};

template <typename Params>
void run_on_cpu(const Params& params) {
  execute_rows_on_cpu(params, params.rows, kernels::kernel_table<kernels::RowKernel<Params>>());
}

struct PowerProduct : Operator {
  static constexpr const char* kName = "_power_product";
  // Exponents keep their precision under autocast, as those of bind_power.
  static constexpr Operand kOperands[] = {{"vectors", 2}, {.name = "exponents", .trailing = 1, .cast = false}};
  using Signature = Tensor(const Tensor& vectors, const Tensor& exponents);
  static constexpr bool kAutocast = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;
  using Formula = PowerProductFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& vectors, const Tensor& exponents) {
    const Argument first{"vectors", vectors};
    const Argument second{"exponents", exponents};
    check_floating(kName, {first, second});
    check_rank(kName, first, 2, "[..., K, D]");
    check_rank(kName, second, 1, "[..., K]");
    check_not_empty_last<Int>(kName, first);
    const c10::ArrayRef<Int> rows = all_but_last(sizes_of<Int>(vectors));
    TORCH_CHECK_VALUE(equal(rows.back(), sizes_of<Int>(exponents).back()), kName,
                      ": vectors and exponents must have the same K, got ", rows.back(), " and ",
                      sizes_of<Int>(exponents).back());
    ResultContract<Int> result{{}, promote(vectors, exponents)};
    const LeadingDimensions description{"vectors", "exponents"};
    broadcast_into<Int>(kName, all_but_last(rows), description, result.sizes);
    broadcast_into<Int>(kName, all_but_last(sizes_of<Int>(exponents)), description, result.sizes);
    result.sizes.push_back(sizes_of<Int>(vectors).back());
    check_numel<Int>(kName, result.sizes);
    return result;
  }

  static void run(const ResultContract<int64_t>& contract, const Tensor& out, const Tensor& vectors,
                  const Tensor& exponents) {
    if (out.numel() == 0) {
      return;
    }
    if (!out.is_cpu()) {
      out.copy_(from_operators(vectors, exponents));
      return;
    }
    const at::ScalarType wide = compute_type(contract.dtype);
    const c10::ArrayRef<int64_t> batch = all_but_last<int64_t>(contract.sizes);
    const int64_t items = vectors.size(-2);
    const Tensor spectra = torch_hrr::spectrum(vectors.to(wide)).contiguous();
    const kernels::LogarithmTable table{items, contract.sizes.back(), wide == at::kDouble};
    Sizes<int64_t> sizes(vectors.sizes().begin(), vectors.sizes().end() - 1);
    sizes.back() = table.size();
    const Tensor tables = at::empty(sizes, out.options().dtype(at::kDouble));
    tables.narrow(-1, table.marks(), table.size() - table.marks()).zero_();
    kernels::LogarithmParams logarithms;
    logarithms.spectra = spectra.const_data_ptr();
    logarithms.tables = tables.mutable_data_ptr<double>();
    logarithms.rows = spectra.numel() / table.dim;
    logarithms.table = table;
    run_on_cpu(logarithms);

    const Rows<2> rows(batch, {{{tables, 1}, {with_unit_rows(exponents, at::kDouble), 1}}});
    const Tensor product = at::empty(contract.sizes, out.options().dtype(wide));
    kernels::PowerProductParams params;
    params.tables = static_cast<const double*>(rows.data(0));
    params.exponents = static_cast<const double*>(rows.data(1));
    params.out = product.mutable_data_ptr();
    params.rows = product_of(batch);
    params.map = rows.map();
    params.table = table;
    run_on_cpu(params);
    out.copy_(torch_hrr::from_spectrum(product));
  }

  // On other devices: prod_k A_k^x_k = exp(sum_k x_k ln A_k), with angles in turns, whole ones dropped in double. A
  // real bin has its power's real part, vector by vector: of several negative ones a product, not the cosine of the
  // sum.
  static Tensor from_operators(const Tensor& vectors, const Tensor& exponents) {
    const at::ScalarType wide = compute_type(promote(vectors, exponents));
    const Tensor rows = vectors.to(wide);
    const Tensor numbers = exponents.to(wide);
    const SymInt dim = rows.sym_size(-1);
    const Tensor packed = torch_hrr::spectrum(rows);
    const Tensor re = at::cat({packed.slice(-1, 0, 1), packed.slice(-1, 1, std::nullopt, 2)}, -1);
    const SymInt bins = re.sym_size(-1);
    const Tensor parts = packed.slice(-1, 2, std::nullopt, 2);
    const SymInt missing = bins - 1 - parts.sym_size(-1);
    const Tensor im = at::constant_pad_nd_symint(parts, {SymInt(1), missing});
    const Tensor power = re * re + im * im;
    const Tensor empty = is_empty(power, rows);
    const Tensor one = at::ones({}, power.options());
    const Tensor logarithms = at::where(empty, one, power).log() * 0.5;
    const Tensor length = sum(numbers, logarithms).exp().masked_fill(empty.any(-2), 0);
    const Tensor turns = at::atan2(im.masked_fill(empty, 0), at::where(empty, one, re)).to(at::kDouble) * (1 / kTurn);
    const Tensor exact = numbers.to(at::kDouble);
    const Tensor total = sum(exact, turns);
    const Tensor phase = ((total - total.round()) * kTurn).to(wide);
    // Bin k is real where D divides 2k.
    const Tensor bin = at::ones_symint({bins}, packed.options().dtype(at::kLong)).cumsum(0) - 1;
    const auto real_factor = [&](const Tensor& turn) {
      return (exact * turn * kTurn).cos().prod(-1, /*keepdim=*/true).to(wide);
    };
    const Tensor is_last = (bin * 2).eq(at::Scalar(dim));
    const Tensor factor = at::where(is_last, real_factor(turns.select(-1, -1)), real_factor(turns.select(-1, 0)));
    const Tensor cosine = at::where(is_last.logical_or(bin.eq(0)), factor, phase.cos());
    c10::SymDimVector sizes(length.sym_sizes().begin(), length.sym_sizes().end());
    sizes.back() = 2 * bins;
    const Tensor pairs = at::stack({length * cosine, length * phase.sin()}, -1).reshape_symint(sizes);
    // Without the imaginary parts of the real bins.
    return torch_hrr::from_spectrum(at::cat({pairs.slice(-1, 0, 1), pairs.slice_symint(-1, 2, dim + 1)}, -1));
  }
};

Tensor power_product(const Tensor& vectors, const Tensor& exponents) {
  return call<PowerProduct>(vectors, exponents);
}

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<PowerProduct>(m);
}

}  // namespace
}  // namespace torch_hrr::hrr
