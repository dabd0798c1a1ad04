// The product of powers of rows: fractional power encoding.
#include <ATen/TensorOperators.h>
#include <ATen/ops/atan2.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
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

// The bins of packed spectra, [..., D/2 + 1] each.
struct Bins {
  Tensor re;
  Tensor im;

  explicit Bins(const Tensor& packed) {
    re = at::cat({packed.slice(-1, 0, 1), packed.slice(-1, 1, std::nullopt, 2)}, -1);
    const Tensor parts = packed.slice(-1, 2, std::nullopt, 2);
    im = at::constant_pad_nd_symint(parts, {SymInt(1), re.sym_size(-1) - 1 - parts.sym_size(-1)});
  }
  Bins(Tensor real, Tensor imaginary) : re(std::move(real)), im(std::move(imaginary)) {}

  // Without the imaginary parts of the real bins.
  Tensor packed(const SymInt& dim) const {
    c10::SymDimVector sizes(re.sym_sizes().begin(), re.sym_sizes().end());
    sizes.back() = 2 * sizes.back();
    const Tensor pairs = at::stack({re, im}, -1).reshape_symint(sizes);
    return at::cat({pairs.slice(-1, 0, 1), pairs.slice_symint(-1, 2, dim + 1)}, -1);
  }
};

Bins multiply(const Bins& a, const Bins& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
// a conj(b)
Bins multiply_conjugate(const Bins& a, const Bins& b) {
  return {a.re * b.re + a.im * b.im, a.im * b.re - a.re * b.im};
}

// sum_k w_k row_k
Tensor weighted_sum(const Tensor& weights, const Tensor& rows) {
  return at::matmul(weights.unsqueeze(-2), rows).squeeze(-2);
}

// The bins that are real: the first, and the last where D is even.
Tensor real_bins(const Tensor& packed) {
  const SymInt dim = packed.sym_size(-1);
  return dim % 2 == 0 ? packed.slice_symint(-1, 0, std::nullopt, dim - 1) : packed.slice(-1, 0, 1);
}

// |A|^2 of bins, 1 where a bin is empty, and where that is: see spectral_map.h.
struct Powers {
  Tensor power;
  Tensor empty;

  Powers(const Bins& bins, const Tensor& packed) {
    power = bins.re * bins.re + bins.im * bins.im;
    const Tensor real = real_bins(packed);
    const Tensor sum = 2 * power.sum(-1, /*keepdim=*/true) - (real * real).sum(-1, /*keepdim=*/true);
    const double epsilon = compute_epsilon(packed.scalar_type());
    empty = power <= sum * at::Scalar(epsilon * epsilon);
    power = power.masked_fill(empty, 1);
  }

  Tensor logarithm() const {
    return power.log() * 0.5;
  }
};

// Where a bin of the product is empty: it is in a row of another exponent than 0.
Tensor empty_in_product(const Tensor& exponents, const Tensor& empty) {
  return exponents.ne(0).unsqueeze(-1).logical_and(empty).any(-2);
}

// For each number of the last dimension the product of the others.
Tensor products_of_others(const Tensor& numbers) {
  const auto products_before = [](const Tensor& x) {
    return at::constant_pad_nd(x, {1, 0}, 1).cumprod(-1).slice(-1, 0, -1);
  };
  return products_before(numbers) * products_before(numbers.flip(-1)).flip(-1);
}

// [..., n, K] for n real bins: the part of d/dx_k of a product that comes from the cosines of negative A_k,
// -pi sin(pi x_k) prod_j |A_j|^x_j prod_(j != k) cos(pi x_j), where sine and cosines are taken of negative A alone.
Tensor slopes_of_signs(const Tensor& spectra, const Powers& powers, const Tensor& exponents) {
  const Tensor bins = real_bins(spectra).to(at::kDouble);
  const auto of_real_bins = [&](const Tensor& x) {
    return bins.sym_size(-1) == 1 ? x.slice(-1, 0, 1) : at::cat({x.slice(-1, 0, 1), x.slice(-1, -1)}, -1);
  };
  const Tensor empty = of_real_bins(powers.empty);
  const Tensor logarithms = (bins * bins).masked_fill(empty, 1).log() * 0.5;
  const Tensor x = exponents.to(at::kDouble);
  const Tensor magnitudes = weighted_sum(x, logarithms).exp().masked_fill(empty_in_product(x, empty), 0);
  const Tensor angles = (bins < 0).to(at::kDouble).transpose(-1, -2) * (x * (kTurn / 2)).unsqueeze(-2);
  return angles.sin() * products_of_others(angles.cos()) * (magnitudes * (-kTurn / 2)).unsqueeze(-1);
}

// With F the product's bins: dF = F sum_k (ln A_k dx_k + x_k dA_k / A_k), at real bins with ln |A_k| and the slopes
// of signs. All of it bin by bin: a transform would spread the errors of large bins over small ones.
struct PowerProductFormula {
  static constexpr bool kReadsResult = true;

  variable_list backward(const Saved& inputs, const Tensor& upstream, const Wanted& wanted) const {
    const at::ScalarType type = compute_type(inputs.result().scalar_type());
    const Tensor spectra = inputs[0].to(type);
    const Tensor exponents = inputs[1].to(type);
    const Bins a(spectra);
    const Powers powers(a, spectra);
    const Tensor grad = upstream.to(type);
    // The gradient of sum_k x_k ln A_k.
    const Bins grad_log = multiply_conjugate(Bins(grad), Bins(inputs.result().to(type)));
    variable_list grads(2);
    if (wanted[0]) {
      const Bins weighted(weigh(exponents, grad_log.re, spectra), weigh(exponents, grad_log.im, spectra));
      // 1 / conj(A) first: A alone may be as large as the result.
      const Bins grad_a = multiply(weighted, Bins(a.re / powers.power, a.im / powers.power));
      grads[0] = grad_a.packed(spectra.sym_size(-1));
    }
    if (wanted[1]) {
      const Tensor slopes = slopes_of_signs(spectra, powers, inputs[1]);
      const Tensor of_signs = weighted_sum(real_bins(grad).to(at::kDouble), slopes).to(type);
      grads[1] = weighted_sum(grad_log.re, powers.logarithm().transpose(-1, -2)) +
                 weighted_sum(grad_log.im, angles(a, powers).transpose(-1, -2)) + of_signs;
    }
    return grads;
  }

  Tensor jvp(const Saved& inputs, const variable_list& tangents) const {
    const at::ScalarType type = compute_type(inputs.result().scalar_type());
    const Tensor spectra = inputs[0].to(type);
    const SymInt dim = spectra.sym_size(-1);
    const Bins a(spectra);
    const Powers powers(a, spectra);
    Bins direction{Tensor(), Tensor()};  // the tangent of sum_k x_k ln A_k
    Tensor of_signs;
    if (tangents[0].defined()) {
      const Bins moved = multiply_conjugate(Bins(tangents[0].to(type)), a);
      const Tensor exponents = inputs[1].to(type);
      direction = {weighted_sum(exponents, moved.re / powers.power), weighted_sum(exponents, moved.im / powers.power)};
    }
    if (tangents[1].defined()) {
      const Tensor tangent = tangents[1].to(type);
      direction = {sum_of_defined(direction.re, weighted_sum(tangent, powers.logarithm())),
                   sum_of_defined(direction.im, weighted_sum(tangent, angles(a, powers)))};
      const Tensor real = (slopes_of_signs(spectra, powers, inputs[1]) * tangent.unsqueeze(-2)).sum(-1).to(type);
      const Tensor first = at::constant_pad_nd_symint(real.slice(-1, 0, 1), {SymInt(0), dim - real.sym_size(-1)});
      of_signs = at::cat({first, real.slice(-1, 1)}, -1);
    }
    return sum_of_defined(multiply(Bins(inputs.result().to(type)), direction).packed(dim), of_signs);
  }

  static Tensor angles(const Bins& a, const Powers& powers) {
    return at::atan2(a.im.masked_fill(powers.empty, 0), a.re.masked_fill(powers.empty, 1));
  }
  // sum_r x_rk c_r over the rows r of the result. Without leading dimensions they share the spectra: one matrix
  // product.
  static Tensor weigh(const Tensor& x, const Tensor& rows, const Tensor& spectra) {
    if (spectra.dim() != 2) {
      return x.unsqueeze(-1) * rows.unsqueeze(-2);
    }
    const SymInt count = rows.sym_numel() / rows.sym_size(-1);
    const auto as_matrix = [&](const Tensor& of) { return of.reshape_symint({count, of.sym_size(-1)}); };
    return at::matmul(as_matrix(x).t(), as_matrix(rows));
  }
};

template <typename Params>
void run_on_cpu(const Params& params) {
  execute_rows_on_cpu(params, params.rows, kernels::kernel_table<kernels::RowKernel<Params>>());
}

struct PowerProduct : Operator {
  static constexpr const char* kName = "_power_product";
  static constexpr Operand kOperands[] = {{"spectra", 2}, {"exponents", 1}};
  using Signature = Tensor(const Tensor& spectra, const Tensor& exponents);
  static constexpr Derivative kDerivative = Derivative::kFormula;
  using Formula = PowerProductFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& spectra, const Tensor& exponents) {
    const Argument first{"spectra", spectra};
    const Argument second{"exponents", exponents};
    check_floating(kName, {first, second});
    check_rank(kName, first, 2, "[..., K, D]");
    check_rank(kName, second, 1, "[..., K]");
    check_not_empty_last<Int>(kName, first);
    const c10::ArrayRef<Int> rows = all_but_last(sizes_of<Int>(spectra));
    TORCH_CHECK_VALUE(equal(rows.back(), sizes_of<Int>(exponents).back()), kName,
                      ": spectra and exponents must have the same K, got ", rows.back(), " and ",
                      sizes_of<Int>(exponents).back());
    ResultContract<Int> result{{}, promote(spectra, exponents)};
    const LeadingDimensions description{"spectra", "exponents"};
    broadcast_into<Int>(kName, all_but_last(rows), description, result.sizes);
    broadcast_into<Int>(kName, all_but_last(sizes_of<Int>(exponents)), description, result.sizes);
    result.sizes.push_back(sizes_of<Int>(spectra).back());
    check_numel<Int>(kName, result.sizes);
    return result;
  }

  static void run(const ResultContract<int64_t>& contract, const Tensor& out, const Tensor& spectra,
                  const Tensor& exponents) {
    if (out.numel() == 0) {
      return;
    }
    if (!out.is_cpu()) {
      out.copy_(from_operators(spectra, exponents));
      return;
    }
    const at::ScalarType wide = compute_type(contract.dtype);
    const c10::ArrayRef<int64_t> batch = all_but_last<int64_t>(contract.sizes);
    const int64_t items = spectra.size(-2);
    const Tensor rows_of_tables = spectra.to(wide).contiguous();
    const kernels::LogarithmTable table{items, contract.sizes.back(), wide == at::kDouble};
    Sizes<int64_t> sizes(spectra.sizes().begin(), spectra.sizes().end() - 1);
    sizes.back() = table.size();
    const Tensor tables = at::empty(sizes, out.options().dtype(at::kDouble));
    tables.narrow(-1, table.marks(), table.size() - table.marks()).zero_();
    kernels::LogarithmParams logarithms;
    logarithms.spectra = rows_of_tables.const_data_ptr();
    logarithms.tables = tables.mutable_data_ptr<double>();
    logarithms.rows = rows_of_tables.numel() / table.dim;
    logarithms.table = table;
    run_on_cpu(logarithms);

    const Rows<2> rows(batch, {{{tables, 1}, {with_unit_rows(exponents, at::kDouble), 1}}});
    const Tensor product = wide == out.scalar_type() ? out : at::empty(contract.sizes, out.options().dtype(wide));
    kernels::PowerProductParams params;
    params.tables = static_cast<const double*>(rows.data(0));
    params.exponents = static_cast<const double*>(rows.data(1));
    params.out = product.mutable_data_ptr();
    params.rows = product_of(batch);
    params.map = rows.map();
    params.table = table;
    run_on_cpu(params);
    out.copy_(product);
  }

  // On other devices: prod_k A_k^x_k = exp(sum_k x_k ln A_k), with angles in turns, whole ones dropped in double. A
  // real bin has its power's real part, vector by vector: of several negative ones a product, not the cosine of the
  // sum.
  static Tensor from_operators(const Tensor& spectra, const Tensor& exponents) {
    const at::ScalarType wide = compute_type(promote(spectra, exponents));
    const Tensor given = spectra.to(wide);
    // A spectrum that is not finite gives a NaN row.
    const Tensor packed = given + given.mul(0).sum(-1, /*keepdim=*/true);
    const Bins a(packed);
    const Powers powers(a, packed);
    const SymInt dim = packed.sym_size(-1);
    const SymInt bins = a.re.sym_size(-1);
    const Tensor numbers = exponents.to(wide);
    // A row that is not finite makes the empty bins of others NaN, too.
    const Tensor sum = weighted_sum(numbers, powers.logarithm());
    const Tensor empty = empty_in_product(numbers, powers.empty);
    const Tensor length = sum.exp().masked_fill(empty.logical_and(sum.isnan().logical_not()), 0);
    const Tensor turns = PowerProductFormula::angles(a, powers).to(at::kDouble) * (1 / kTurn);
    const Tensor exact = numbers.to(at::kDouble);
    const Tensor total = weighted_sum(exact, turns);
    const Tensor phase = ((total - total.round()) * kTurn).to(wide);
    // Bin k is real where D divides 2k.
    const Tensor bin = at::ones_symint({bins}, packed.options().dtype(at::kLong)).cumsum(0) - 1;
    const auto real_factor = [&](const Tensor& turn) {
      return (exact * turn * kTurn).cos().prod(-1, /*keepdim=*/true).to(wide);
    };
    const Tensor is_last = (bin * 2).eq(at::Scalar(dim));
    const Tensor factor = at::where(is_last, real_factor(turns.select(-1, -1)), real_factor(turns.select(-1, 0)));
    const Tensor cosine = at::where(is_last.logical_or(bin.eq(0)), factor, phase.cos());
    return Bins(length * cosine, length * phase.sin()).packed(dim);
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<PowerProduct>(m);
}

}  // namespace
}  // namespace torch_hrr::hrr
