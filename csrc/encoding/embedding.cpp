// embed_positions: rows of a table plus the encoding of their positions.
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>

#include <cmath>

#include "csrc/encoding/sinusoid.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/operator.h"
#include "csrc/rows.h"
#include "csrc/types.h"

namespace torch_hrr::encoding {
namespace {

using at::Tensor;
using c10::SymInt;

template <typename Token>
void check_token_range(const Tensor& tokens, int64_t count) {
  const auto* values = tokens.const_data_ptr<Token>();
  for (int64_t i = 0; i < tokens.numel(); ++i) {
    TORCH_CHECK_INDEX(values[i] >= 0 && values[i] < count, "embed_positions: tokens must be from 0 to ", count - 1,
                      ", the last row of table, got ", values[i]);
  }
}

struct EmbedPositions : Operator {
  static constexpr const char* kName = "embed_positions";
  static constexpr Operand kOperands[] = {{"tokens", 1}, {"table", kNotBatched}, {"positions", 1}};
  using Signature = Tensor(const Tensor& tokens, const Tensor& table, const OptionalTensor& positions,
                           int64_t padding_idx, double temperature, double base, double scale, double phase,
                           std::string_view layout, OptionalType dtype);
  static constexpr bool kHasOut = true;
  static constexpr bool kAutocast = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& tokens, const Tensor& table, const OptionalTensor& positions,
                                      int64_t padding_idx, double temperature, double base, double scale, double phase,
                                      std::string_view layout, OptionalType dtype) {
    TORCH_CHECK_TYPE(tokens.defined(), "embed_positions: tokens must be a defined tensor, got an undefined one");
    check_strided(kName, {"tokens", tokens});
    TORCH_CHECK_TYPE(tokens.scalar_type() == at::kInt || tokens.scalar_type() == at::kLong,
                     "embed_positions: tokens must be int32 or int64, got ", tokens.scalar_type());
    check_rank(kName, {"tokens", tokens}, 1, "[..., L]");
    check_floating(kName, {{"table", table}});
    check_same_device(kName, {"tokens", tokens}, {"table", table});
    TORCH_CHECK_VALUE(table.dim() == 2, "embed_positions: table must have 2 dimensions [V, dim], got ", table.dim());
    Sizes<Int> sizes(sizes_of<Int>(tokens).begin(), sizes_of<Int>(tokens).end());
    if (is_given(positions)) {
      check_positions(kName, *positions);
      check_same_device(kName, {"tokens", tokens}, {"positions", *positions});
      broadcast_into<Int>(kName, sizes_of<Int>(*positions), "tokens and positions", sizes);
    }
    const at::ScalarType type = result_type(kName, table, dtype);
    // As a float where the division is one of floats.
    const double divisor = compute_type(type) == at::kFloat ? static_cast<float>(temperature) : temperature;
    TORCH_CHECK_VALUE(std::isfinite(divisor) && divisor != 0,
                      "embed_positions: temperature must be finite and not 0, got ", temperature,
                      divisor == temperature ? "" : ", which is not so in float32");
    const Int& count = sizes_of<Int>(table)[0];
    TORCH_CHECK_VALUE(padding_idx < 0 || holds(at_most(Int(padding_idx), count - 1)),
                      "embed_positions: padding_idx must be below ", count, ", the number of rows of table, got ",
                      padding_idx);
    const Ladder ladder{base, scale, phase};
    check_ladder(kName, ladder);
    const Int dim = sizes_of<Int>(table)[1];
    check_frequency_range(kName, dim, ladder);
    (void)layout_of(kName, layout);
    sizes.push_back(dim);
    check_numel<Int>(kName, sizes);
    return {sizes, type};
  }

  static void run(const ResultContract<int64_t>& contract, const Tensor& out, const Tensor& tokens, const Tensor& table,
                  const OptionalTensor& positions, int64_t padding_idx, double temperature, double base, double scale,
                  double phase, std::string_view layout, OptionalType) {
    const c10::ArrayRef<int64_t> batch = all_but_last<int64_t>(contract.sizes);
    const Tensor own = tokens.expand(batch).contiguous();
    if (own.is_cpu()) {
      own.scalar_type() == at::kInt ? check_token_range<int32_t>(own, table.size(0))
                                    : check_token_range<int64_t>(own, table.size(0));
    }
    if (out.numel() == 0) {
      return;
    }
    const bool same = compute_type(table.scalar_type()) == compute_type(contract.dtype);
    const Tensor rows = with_unit_rows(table, same ? table.scalar_type() : compute_type(contract.dtype));
    kernels::TableParams params;
    params.table = rows.const_data_ptr();
    params.table_storage = storage_of(rows);
    params.table_rows = rows.size(0);
    params.table_stride = rows.stride(0);
    params.tokens = own.const_data_ptr();
    params.wide_tokens = own.scalar_type() == at::kLong;
    params.padding = padding_idx < 0 ? kernels::TableParams::kNoPadding : padding_idx;
    params.temperature = temperature;
    kernels::SinusoidParams& sinusoid = params.sinusoid;
    sinusoid.out = out.mutable_data_ptr();
    sinusoid.rows = own.numel();
    sinusoid.dim = rows.size(1);
    sinusoid.interleaved = layout_of(kName, layout) == Layout::kInterleaved;
    const SharedTurns turns = ladder_turns(sinusoid.dim, {base, scale, phase});
    if (!is_given(positions)) {
      sinusoid.positions.period = batch.back();
      return execute(params, *turns, out);
    }
    // Positions of the last dimension alone repeat with it.
    const bool repeat = positions->dim() == 1 && positions->size(0) == batch.back();
    const HeldPositions held(repeat ? *positions : positions->expand(batch));
    sinusoid.positions = held.positions;
    execute(params, *turns, out);
  }

  static auto autocast(at::ScalarType type, const Tensor& tokens, const Tensor& table, const OptionalTensor& positions,
                       int64_t padding_idx, double temperature, double base, double scale, double phase,
                       std::string_view layout, OptionalType dtype) {
    return std::tuple(tokens, table, positions, padding_idx, temperature, base, scale, phase, layout,
                      autocast_type(type, table, dtype));
  }

  // result = (table[token] + encoding(position)) / temperature, 0 for padding. The table's values are not read.
  struct Formula {
    int64_t padding_idx;
    double temperature;
    Ladder ladder;
    Layout layout;
    at::ScalarType type;

    bool reads(size_t input, const Wanted& wanted) const {
      return input == 0 || (input == 2 && wanted[2]);
    }
    // A gradient or tangent over the temperature, 0 where the result does not depend on table and position.
    Tensor without_padding(const Tensor& values, const Tensor& tokens, const SymInt& count) const {
      const Tensor scaled = in_compute_type(values) / temperature;
      Tensor none = tokens.to(at::kLong) == padding_idx;  // in 32 bits padding_idx might wrap to a token
      if (tokens.is_cuda()) {
        none = none.logical_or(tokens < 0).logical_or(tokens >= c10::Scalar(count));
      }
      return scaled.masked_fill(none.unsqueeze(-1), 0);
    }
    // On a GPU tokens are not checked, so those outside the table must not reach torch's kernels.
    Tensor within(const Tensor& tokens, const SymInt& count) const {
      return tokens.is_cuda() ? tokens.clamp(c10::Scalar(0), c10::Scalar(count - 1)) : tokens;
    }
    // A result for a table that has no row to read: every token is outside.
    Tensor no_rows(const Tensor& tokens, const Tensor& table) const {
      c10::SymDimVector sizes(tokens.sym_sizes().begin(), tokens.sym_sizes().end());
      sizes.push_back(table.sym_size(1));
      return table.new_zeros_symint(sizes);
    }
    static bool is_zero(const SymInt& count) {
      return count.sym_eq(0).guard_bool(__FILE__, __LINE__);
    }
    Tensor slope(const Tensor& positions, const SymInt& dim) const {
      return position_slope(positions, dim, ladder, layout, type);
    }

    variable_list backward(const Saved& saved, const Tensor& grad, const Wanted& wanted) const {
      const Tensor& tokens = saved[0];
      const SymInt& count = saved.sizes(1)[0];
      const SymInt& dim = saved.sizes(1)[1];
      const Tensor own = without_padding(grad, tokens, count);
      variable_list grads(3);
      if (wanted[1]) {
        const Tensor all = within(tokens, count).expand_symint(own.sym_sizes().slice(0, own.sym_sizes().size() - 1));
        // torch's derivative of its own operator cannot shape a result without elements.
        grads[1] = is_zero(own.sym_numel() * count) ? own.new_zeros_symint(saved.sizes(1))
                                                    : at::embedding_dense_backward_symint(own, all, count, -1, false);
      }
      if (wanted[2]) {
        grads[2] = (own * slope(saved[2], dim)).sum(-1);
      }
      return grads;
    }
    Tensor jvp(const Saved& saved, const variable_list& tangents) const {
      const Tensor& tokens = saved[0];
      const SymInt& count = saved.sizes(1)[0];
      Tensor moved;
      if (tangents[1].defined()) {
        moved = in_compute_type(is_zero(count) ? no_rows(tokens, tangents[1])
                                               : at::embedding_symint(tangents[1], within(tokens, count)));
      }
      if (tangents[2].defined()) {
        moved = sum_of_defined(moved, slope(saved[2], saved.sizes(1)[1]) * in_compute_type(tangents[2]).unsqueeze(-1));
      }
      return without_padding(moved, tokens, count);
    }
  };
  static Formula formula(const Tensor&, const Tensor& table, const OptionalTensor&, int64_t padding_idx,
                         double temperature, double base, double scale, double phase, std::string_view layout,
                         OptionalType dtype) {
    return {padding_idx,
            temperature,
            {base, scale, phase},
            layout_of(kName, layout),
            compute_type(result_type(kName, table, dtype))};
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<EmbedPositions>(m);
}

}  // namespace
}  // namespace torch_hrr::encoding

namespace torch_hrr {

at::Tensor embed_positions(const at::Tensor& tokens, const at::Tensor& table,
                           const std::optional<at::Tensor>& positions, int64_t padding_idx, double temperature,
                           double base, double scale, double phase, std::string_view layout,
                           std::optional<at::ScalarType> dtype) {
  return call<encoding::EmbedPositions>(tokens, table, positions, padding_idx, temperature, base, scale, phase, layout,
                                        dtype);
}
void embed_positions_out(at::Tensor& out, const at::Tensor& tokens, const at::Tensor& table,
                         const std::optional<at::Tensor>& positions, int64_t padding_idx, double temperature,
                         double base, double scale, double phase, std::string_view layout) {
  TORCH_CHECK_TYPE(out.defined(), "embed_positions: out must be a defined tensor, got an undefined one");
  call_out<encoding::EmbedPositions>(tokens, table, positions, padding_idx, temperature, base, scale, phase, layout,
                                     std::optional<at::ScalarType>(out.scalar_type()), out);
}

}  // namespace torch_hrr
