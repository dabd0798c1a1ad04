// The product of powers of rows: fractional power encoding.
#include <ATen/TensorOperators.h>
#include <ATen/ops/atan2.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

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
  static constexpr Derivative kDerivative = Derivative::kComposition;

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
      out.copy_(compose(vectors, exponents));
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

  // prod_k A_k^x_k = exp(sum_k x_k ln A_k), with angles in turns, whole ones dropped in double. A real bin has its
  // power's real part, vector by vector: of several negative ones a product, not the cosine of the sum.
  static Tensor compose(const Tensor& vectors, const Tensor& exponents) {
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
    const double epsilon = compute_epsilon(wide);
    const Tensor squared = (rows * rows).sum(-1, /*keepdim=*/true);
    const Tensor empty = power <= squared * at::Scalar(epsilon * epsilon) * at::Scalar(dim);
    const auto sum = [](const Tensor& x, const Tensor& of) { return at::matmul(x.unsqueeze(-2), of).squeeze(-2); };
    const Tensor one = at::ones({}, power.options());
    const Tensor logarithms = at::where(empty, one, power).log() * 0.5;
    const Tensor length = sum(numbers, logarithms).exp().masked_fill(empty.any(-2), 0);
    const Tensor turns = at::atan2(im.masked_fill(empty, 0), at::where(empty, one, re)).to(at::kDouble) * (1 / kTurn);
    const Tensor exact = numbers.to(at::kDouble);
    const Tensor total = sum(exact, turns);
    const Tensor phase = ((total - total.detach().round()) * kTurn).to(wide);
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

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<PowerProduct>(m);
}

}  // namespace
}  // namespace torch_hrr::hrr
