// rotate: pairs of a row's elements turned by the angles of its position, new or in place.
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "csrc/encoding/sinusoid.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/operator.h"
#include "csrc/overlap.h"
#include "csrc/rows.h"
#include "csrc/types.h"

namespace torch_hrr::encoding {
namespace {

using at::Tensor;
using c10::SymInt;
template <typename Int>
using Optional = std::optional<Int>;

constexpr double kDefaultBase = 10000;

// The arguments that are no tensors.
template <typename Int>
struct Turning {
  Ladder ladder;
  Layout layout;
  double factor;
  Optional<Int> dims;
  bool inverse;

  Turning reversed() const {
    return {ladder, layout, factor, dims, !inverse};
  }
};
template <typename Int>
Turning<Int> turning_of(const char* op, double base, double scale, std::string_view layout, double factor,
                        const Optional<Int>& dims, bool inverse) {
  return {{base, scale, 0}, layout_of(op, layout), factor, dims, inverse};
}

// How many of a row's first elements turn.
template <typename Int>
Int turned_of(const OptionalTensor& frequencies, const Optional<Int>& dims, const Int& row) {
  if (dims.has_value()) {
    return *dims;
  }
  return is_given(frequencies) ? 2 * sizes_of<Int>(*frequencies)[0] : row;
}

template <typename Int>
ResultContract<Int> rotation_contract(const char* op, const Tensor& x, const Tensor& positions,
                                      const OptionalTensor& frequencies, const Turning<Int>& turning) {
  check_floating(op, {{"x", x}});
  check_rank(op, {"x", x}, 1, "[..., D]");
  check_positions(op, positions);
  check_same_device(op, {"x", x}, {"positions", positions});
  const Int& row = sizes_of<Int>(x).back();
  const Optional<Int>& dims = turning.dims;
  TORCH_CHECK_VALUE(!dims.has_value() || (holds(at_most(Int(0), *dims)) && equal(*dims % 2, Int(0))), op,
                    ": dims must be even and at least 0, got ", dims.value_or(0));
  if (is_given(frequencies)) {
    check_floating(op, {{"x", x}, {"frequencies", *frequencies}});
    TORCH_CHECK_VALUE(frequencies->dim() == 1, op, ": frequencies must have 1 dimension [F], got ", frequencies->dim());
    TORCH_CHECK_VALUE(turning.ladder.base == kDefaultBase && turning.ladder.scale == 1, op,
                      ": base and scale must be left at 10000 and 1 beside frequencies, got ", turning.ladder.base,
                      " and ", turning.ladder.scale);
    const Int& count = sizes_of<Int>(*frequencies)[0];
    TORCH_CHECK_VALUE(!dims.has_value() || equal(*dims, 2 * count), op,
                      ": dims must be twice the number of frequencies, ", count, ", got ", dims.value_or(0));
  } else {
    TORCH_CHECK_VALUE(dims.has_value() || equal(row % 2, Int(0)), op,
                      ": x must have a last dimension that is even, unless dims says how much of it turns, got ", row);
    check_ladder(op, turning.ladder);
  }
  const Int turned = turned_of<Int>(frequencies, dims, row);
  TORCH_CHECK_VALUE(holds(at_most(turned, row)), op, ": x must have a last dimension of at least ", turned,
                    ", the elements that turn, got ", row);
  if (!is_given(frequencies)) {
    check_frequency_range(op, turned, turning.ladder);
  }
  const bool narrow = compute_type(x.scalar_type()) == at::kFloat;
  TORCH_CHECK_VALUE(std::isfinite(narrow ? static_cast<float>(turning.factor) : turning.factor), op,
                    ": factor must be finite, got ", turning.factor, narrow ? " for float32" : "");
  Sizes<Int> sizes(all_but_last<Int>(sizes_of<Int>(x)).begin(), all_but_last<Int>(sizes_of<Int>(x)).end());
  broadcast_into<Int>(op, sizes_of<Int>(positions), "x and positions", sizes);
  sizes.push_back(row);
  check_numel<Int>(op, sizes);
  return {sizes, x.scalar_type()};
}

// Elements of a part of a place's repeats.
constexpr int64_t kElementsTogether = 16384;

void split(const kernels::RowMap& map, kernels::RotationParams& params) {
  for (int d = 0; d < map.ndim; ++d) {
    const bool repeats = map.strides[2][d] == 0;
    kernels::RowMap& part = repeats ? params.repeats : params.places;
    (repeats ? params.repeat_count : params.place_count) *= map.sizes[d];
    part.sizes[part.ndim] = map.sizes[d];
    for (int operand = 0; operand < kernels::kMaxOperands; ++operand) {
      part.strides[operand][part.ndim] = map.strides[operand][d];
    }
    ++part.ndim;
  }
}

// Of rows of these sizes, not empty; `out` may be x, but shares no memory with it otherwise.
void turn(c10::ArrayRef<int64_t> batch, const Tensor& x, const Tensor& positions, const OptionalTensor& frequencies,
          const Turning<int64_t>& turning, const Tensor& out) {
  const HeldPositions held(positions);
  const Rows<3> rows(batch, {{{with_unit_rows(x, x.scalar_type()), 1}, {out, 1}, {held.tensor, 0}}});
  kernels::RotationParams params;
  params.x = rows.data(0);
  params.out = out.mutable_data_ptr();
  params.positions = held.positions;
  params.dim = x.size(-1);
  params.turned = turned_of<int64_t>(frequencies, turning.dims, params.dim);
  params.interleaved = turning.layout == Layout::kInterleaved;
  params.inverse = turning.inverse;
  params.factor = turning.factor;
  split(rows.map(), params);
  params.repeats_together = std::clamp<int64_t>(kElementsTogether / params.dim, 1, params.repeat_count);
  if (is_given(frequencies)) {
    execute(params, *frequencies, out);
  } else {
    execute(params, *ladder_turns(params.turned, turning.ladder), out);
  }
}

struct Rotate : Operator {
  static constexpr const char* kName = "rotate";
  static constexpr Operand kOperands[] = {{"x", 1}, {"positions", 0}, {"frequencies", kNotBatched}};
  using Signature = Tensor(const Tensor& x, const Tensor& positions, const OptionalTensor& frequencies, double base,
                           double scale, std::string_view layout, double factor, Optional<SymInt> dims, bool inverse);
  static constexpr bool kHasOut = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& x, const Tensor& positions, const OptionalTensor& frequencies,
                                      double base, double scale, std::string_view layout, double factor,
                                      const Optional<Int>& dims, bool inverse) {
    return rotation_contract<Int>(kName, x, positions, frequencies,
                                  turning_of(kName, base, scale, layout, factor, dims, inverse));
  }
  static void run(const ResultContract<int64_t>& contract, const Tensor& out, const Tensor& x, const Tensor& positions,
                  const OptionalTensor& frequencies, double base, double scale, std::string_view layout, double factor,
                  const Optional<int64_t>& dims, bool inverse) {
    if (out.numel() != 0) {
      turn(all_but_last<int64_t>(contract.sizes), x, positions, frequencies,
           turning_of(kName, base, scale, layout, factor, dims, inverse), out);
    }
  }

  struct Formula;
  static Formula formula(const Tensor&, const Tensor&, const OptionalTensor&, double base, double scale,
                         std::string_view layout, double factor, const Optional<SymInt>& dims, bool inverse);
};

// With a pair (s, c) turned to (s', c') by the angle a = position f: ds'/da = c' and dc'/da = -s', the other way round
// for the inverse. By x it is linear, and its transpose the inverse rotation.
struct Rotate::Formula {
  Turning<SymInt> turning;

  bool reads(size_t input, const Wanted& wanted) const {
    return input != 0 || wanted[1] || wanted[2];
  }

  Tensor turned(const Tensor& x, const variable_list& inputs, const Turning<SymInt>& by) const {
    return call<Rotate>(x, inputs[1], OptionalTensor(inputs[2]), by.ladder.base, by.ladder.scale, name_of(by.layout),
                        by.factor, by.dims, by.inverse);
  }
  SymInt count_of(const Saved& saved) const {
    return turned_of<SymInt>(OptionalTensor(saved[2]), turning.dims, saved.sizes(0).back()) / 2;
  }
  Tensor frequencies_of(const variable_list& inputs, const SymInt& count, at::ScalarType type) const {
    return inputs[2].defined()
               ? inputs[2].to(type)
               : column_frequencies(2 * count, turning.ladder, Layout::kHalf, inputs[1]).slice_symint(-1, 0, count);
  }
  Tensor signed_angle(const Tensor& angle) const {
    return turning.inverse ? -angle : angle;
  }

  variable_list backward(const Saved& saved, const Tensor& grad, const Wanted& wanted) const {
    const variable_list& inputs = saved.tensors();
    variable_list grads(3);
    if (wanted[0]) {
      grads[0] = turned(grad, inputs, turning.reversed());
    }
    if (!wanted[1] && !wanted[2]) {
      return grads;
    }
    const SymInt count = count_of(saved);
    const Tensor wide = in_compute_type(grad);
    const Tensor rows = turned(inputs[0].to(wide.scalar_type()), inputs, turning);
    const auto part = [&](const Tensor& of, int64_t which) { return part_of_pairs(of, which, count, turning.layout); };
    const Tensor angles = signed_angle(part(wide, 0) * part(rows, 1) - part(wide, 1) * part(rows, 0));
    if (wanted[1]) {
      grads[1] = (angles * frequencies_of(inputs, count, angles.scalar_type())).sum(-1);
    }
    if (wanted[2]) {
      const at::ScalarType type = c10::promoteTypes(angles.scalar_type(), compute_type(inputs[2].scalar_type()));
      // Summed over all dimensions but the last by the caller, as every gradient.
      grads[2] = angles.to(type) * inputs[1].to(type).unsqueeze(-1);
    }
    return grads;
  }

  Tensor jvp(const Saved& saved, const variable_list& tangents) const {
    const variable_list& inputs = saved.tensors();
    Tensor moved;
    if (tangents[0].defined()) {
      moved = in_compute_type(turned(tangents[0], inputs, turning));
    }
    if (!tangents[1].defined() && !tangents[2].defined()) {
      return moved;
    }
    const SymInt count = count_of(saved);
    const Tensor rows = turned(in_compute_type(inputs[0]), inputs, turning);
    Tensor angle;
    if (tangents[1].defined()) {
      angle = tangents[1].to(rows.scalar_type()).unsqueeze(-1) * frequencies_of(inputs, count, rows.scalar_type());
    }
    if (tangents[2].defined()) {
      angle =
          sum_of_defined(angle, inputs[1].to(rows.scalar_type()).unsqueeze(-1) * tangents[2].to(rows.scalar_type()));
    }
    angle = signed_angle(angle);
    const Tensor first = angle * part_of_pairs(rows, 1, count, turning.layout);
    const Tensor second = -angle * part_of_pairs(rows, 0, count, turning.layout);
    const Tensor rest = at::zeros_like(rows.slice_symint(-1, 2 * count, rows.sym_size(-1)));
    const Tensor pairs = pairs_of(first, second, turning.layout);
    return sum_of_defined(moved, at::cat({pairs, rest}, -1));
  }
};

Rotate::Formula Rotate::formula(const Tensor&, const Tensor&, const OptionalTensor&, double base, double scale,
                                std::string_view layout, double factor, const Optional<SymInt>& dims, bool inverse) {
  return {turning_of(kName, base, scale, layout, factor, dims, inverse)};
}

struct RotateInPlace : Operator {
  static constexpr const char* kName = "rotate_";
  static constexpr Operand kOperands[] = {{.name = "x", .trailing = kNotBatched, .written = true},
                                          {"positions", kNotBatched},
                                          {"frequencies", kNotBatched}};
  using Signature = void(Tensor& x, const Tensor& positions, const OptionalTensor& frequencies, double base,
                         double scale, std::string_view layout, double factor, Optional<SymInt> dims, bool inverse);
  static constexpr Derivative kDerivative = Derivative::kNone;

  static Turning<int64_t> check(const Tensor& x, const Tensor& positions, const OptionalTensor& frequencies,
                                double base, double scale, std::string_view layout, double factor,
                                const Optional<int64_t>& dims, bool inverse) {
    const auto contract = rotation_contract<SymInt>(
        kName, x, positions, frequencies, turning_of<SymInt>(kName, base, scale, layout, factor, dims, inverse));
    TORCH_CHECK_VALUE(same_sizes<SymInt>(contract.sizes, x.sym_sizes()), kName,
                      ": positions must broadcast to the rows of x, ", all_but_last<SymInt>(x.sym_sizes()), ", got ",
                      positions.sym_sizes());
    return turning_of(kName, base, scale, layout, factor, dims, inverse);
  }
  static void run(const Turning<int64_t>& turning, const Tensor& x, const Tensor& positions,
                  const OptionalTensor& frequencies, double, double, std::string_view, double, const Optional<int64_t>&,
                  bool) {
    if (x.numel() == 0) {
      return;
    }
    const Tensor held = frequencies.value_or(Tensor());
    check_overlap(kName, {{"x", x}, {"positions", positions}, {"frequencies", held}}, 1);
    const c10::ArrayRef<int64_t> batch = all_but_last<int64_t>(x.sizes());
    // Rows that the kernel cannot reach where they lie.
    if (x.stride(-1) != 1 || x.dim() > kernels::kMaxRowDims) {
      const Tensor rows = x.contiguous();
      turn(batch, rows, positions, frequencies, turning, rows);
      if (!rows.is_same(x)) {
        x.copy_(rows);
      }
      return;
    }
    turn(batch, x, positions, frequencies, turning, x);
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<Rotate, RotateInPlace>(m);
}

}  // namespace
}  // namespace torch_hrr::encoding

namespace torch_hrr {

at::Tensor rotate(const at::Tensor& x, const at::Tensor& positions, const std::optional<at::Tensor>& frequencies,
                  double base, double scale, std::string_view layout, double factor, std::optional<int64_t> dims,
                  bool inverse) {
  return call<encoding::Rotate>(x, positions, frequencies, base, scale, layout, factor,
                                std::optional<c10::SymInt>(dims), inverse);
}
void rotate_out(at::Tensor& out, const at::Tensor& x, const at::Tensor& positions,
                const std::optional<at::Tensor>& frequencies, double base, double scale, std::string_view layout,
                double factor, std::optional<int64_t> dims, bool inverse) {
  call_out<encoding::Rotate>(x, positions, frequencies, base, scale, layout, factor, std::optional<c10::SymInt>(dims),
                             inverse, out);
}
void rotate_(at::Tensor& x, const at::Tensor& positions, const std::optional<at::Tensor>& frequencies, double base,
             double scale, std::string_view layout, double factor, std::optional<int64_t> dims, bool inverse) {
  call<encoding::RotateInPlace>(x, positions, frequencies, base, scale, layout, factor,
                                std::optional<c10::SymInt>(dims), inverse);
}

}  // namespace torch_hrr
