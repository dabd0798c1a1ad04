// Tables of turns, checks, and the choice of device.
#include "csrc/encoding/waves.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/div.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/remainder.h>

#include <algorithm>
#include <cmath>

#include "csrc/cache.h"
#include "csrc/execute.h"
#include "csrc/rows.h"
#include "kernels/encoding/frequency_ladder.h"

namespace torch_hrr::encoding {
namespace {

using at::Tensor;

constexpr Choice<Layout> kLayouts[] = {{"interleaved", Layout::kInterleaved}, {"half", Layout::kHalf}};

constexpr double kLargestFrequency = 0x1p60;
// Longer ladders are made anew in each call.
constexpr int64_t kMostKeptFrequencies = 1 << 16;
constexpr size_t kKeptLadders = 32;

struct LadderKey {
  int64_t dim;
  Ladder ladder;

  bool operator==(const LadderKey&) const = default;
};

SharedTurns make_ladder(const LadderKey& key) {
  const std::vector<kernels::FixedPoint> turns = kernels::frequency_ladder(key.dim, key.ladder.base, key.ladder.scale);
  const uint64_t offset = kernels::turns_of(key.ladder.phase).fraction;
  auto table = std::make_shared<TurnTable>(static_cast<int64_t>(turns.size()));
  for (size_t i = 0; i < turns.size(); ++i) {
    table->set(static_cast<int64_t>(i), turns[i], offset);
  }
  return table;
}

template <typename T>
void visit_numbers(const Tensor& tensor, const T& visit) {
  const Tensor doubles = tensor.to(at::kDouble).contiguous();
  const auto* numbers = doubles.const_data_ptr<double>();
  for (int64_t i = 0; i < doubles.numel(); ++i) {
    visit(i, numbers[i]);
  }
}

template <typename Params>
void execute_on_cpu(const Params& params, int64_t rows, const TurnTable& turns, kernels::Storage storage) {
  using WithTurns = kernels::WithTurns<Params>;
  execute_rows_on_cpu(WithTurns{params, turns.arrays()}, rows,
                      kernels::kernel_table<kernels::RowKernel<WithTurns>>(storage));
}

template <typename Params>
void execute_ladder(const Params& params, int64_t rows, const TurnTable& turns, const Tensor& out) {
#if defined(TORCH_HRR_WITH_CUDA)
  if (out.is_cuda()) {
    return execute_on_cuda(out, params, turns.arrays());
  }
#endif
  execute_on_cpu(params, rows, turns, storage_of(out));
}

#if defined(TORCH_HRR_WITH_CUDA)
// Frequencies and phases where a kernel finds them.
template <typename Params>
void execute_held_on_gpu(const Params& params, const Tensor& frequencies, const Tensor& phases, const Tensor& out) {
  const Tensor own = frequencies.contiguous();
  const Tensor offsets = phases.defined() ? phases.contiguous() : phases;
  kernels::HeldFrequencies held;
  held.frequencies = own.const_data_ptr();
  held.frequency_storage = storage_of(own);
  if (offsets.defined()) {
    held.phases = offsets.const_data_ptr();
    held.phase_storage = storage_of(offsets);
  }
  execute_on_cuda(out, params, held);
}
#endif

// storage: of the tensor that chooses the CPU's kernel
template <typename Params>
void execute_held(const Params& params, int64_t rows, const Tensor& frequencies, const Tensor& phases,
                  [[maybe_unused]] const Tensor& out, kernels::Storage storage) {
#if defined(TORCH_HRR_WITH_CUDA)
  if (out.is_cuda()) {
    return execute_held_on_gpu(params, frequencies, phases, out);
  }
#endif
  execute_on_cpu(params, rows, *held_turns(frequencies, phases), storage);
}

}  // namespace

Layout layout_of(const char* op, std::string_view name) {
  return choice(op, "layout", name, kLayouts);
}
std::string_view name_of(Layout layout) {
  return torch_hrr::name_of(layout, kLayouts);
}

TurnTable::TurnTable(int64_t count)
    : padded_(kernels::padded_frequencies(count)), numbers_(static_cast<size_t>(3 * padded_)) {}

void TurnTable::set(int64_t i, kernels::FixedPoint turn, uint64_t offset) {
  numbers_[static_cast<size_t>(i)] = turn.fraction;
  numbers_[static_cast<size_t>(padded_ + i)] = turn.whole;
  numbers_[static_cast<size_t>(2 * padded_ + i)] = offset;
}
void TurnTable::set_not_finite(int64_t i) {
  finite_.resize(static_cast<size_t>(padded_), 1);
  finite_[static_cast<size_t>(i)] = 0;
}
kernels::TurnArrays TurnTable::arrays() const {
  const uint64_t* const first = numbers_.data();
  return {first, first + padded_, first + 2 * padded_, finite_.empty() ? nullptr : finite_.data()};
}

SharedTurns ladder_turns(int64_t dim, const Ladder& ladder) {
  // Never destroyed: a thread may still use it while the process ends.
  static auto& kept = *new Recent<LadderKey, SharedTurns>(kKeptLadders);
  const LadderKey key{dim, ladder};
  return dim / 2 > kMostKeptFrequencies ? make_ladder(key) : kept.get(key, make_ladder);
}

SharedTurns held_turns(const Tensor& frequencies, const Tensor& phases) {
  auto table = std::make_shared<TurnTable>(frequencies.numel());
  std::vector<uint64_t> offsets(static_cast<size_t>(frequencies.numel()), 0);
  const auto finite_or_mark = [&](int64_t i, double number) {
    if (!std::isfinite(number)) {
      table->set_not_finite(i);
    }
    return std::isfinite(number) ? number : 0;
  };
  if (phases.defined()) {
    visit_numbers(phases, [&](int64_t i, double phase) {
      offsets[static_cast<size_t>(i)] = kernels::turns_of(finite_or_mark(i, phase)).fraction;
    });
  }
  visit_numbers(frequencies, [&](int64_t i, double frequency) {
    table->set(i, kernels::turns_of(finite_or_mark(i, frequency)), offsets[static_cast<size_t>(i)]);
  });
  return table;
}

Tensor column_frequencies(const c10::SymInt& dim, const Ladder& ladder, Layout layout, const Tensor& like) {
  const Tensor column = like.new_ones_symint({dim}, like.options().dtype(at::kDouble)).cumsum(0) - 1;
  const Tensor i =
      layout == Layout::kInterleaved ? at::div(column, 2, "floor") : at::remainder(column, c10::Scalar((dim + 1) / 2));
  return at::exp(at::div(i * (-2 * std::log(ladder.base)), c10::Scalar(dim))) * ladder.scale;
}

void check_ladder(const char* op, const Ladder& ladder) {
  TORCH_CHECK_VALUE(std::isfinite(ladder.base) && ladder.base > 0, op, ": base must be finite and above 0, got ",
                    ladder.base);
  TORCH_CHECK_VALUE(std::isfinite(ladder.scale), op, ": scale must be finite, got ", ladder.scale);
  TORCH_CHECK_VALUE(std::isfinite(ladder.phase), op, ": phase must be finite, got ", ladder.phase);
}

void check_frequency_range(const char* op, int64_t dim, const Ladder& ladder) {
  const int64_t last = dim < 1 ? 0 : (dim - 1) / 2;
  const double ratio = dim < 1 ? 1 : std::pow(ladder.base, -2.0 * static_cast<double>(last) / static_cast<double>(dim));
  const double largest = std::abs(ladder.scale) * std::max(1.0, ratio);
  TORCH_CHECK_VALUE(largest <= kLargestFrequency, op, ": scale base^(-2i/dim) must be at most 2^60 for every i, got ",
                    largest);
}

void check_positions(const char* op, const Tensor& positions) {
  TORCH_CHECK_TYPE(positions.defined(), op, ": positions must be a defined tensor, got an undefined one");
  check_strided(op, {"positions", positions});
  const at::ScalarType type = positions.scalar_type();
  TORCH_CHECK_TYPE(is_supported_float(type) || at::isIntegralType(type, /*includeBool=*/false), op,
                   ": positions must be integers, float32, float64, float16 or bfloat16, got ", type);
}

at::ScalarType result_type(const char* op, const Tensor& positions, OptionalType dtype) {
  const at::ScalarType own = positions.is_floating_point() ? positions.scalar_type() : at::kFloat;
  const at::ScalarType type = dtype.value_or(own);
  TORCH_CHECK_TYPE(is_supported_float(type), op, ": dtype must be float32, float64, float16 or bfloat16, got ", type);
  return type;
}

OptionalType autocast_type(at::ScalarType autocast, const Tensor& values, OptionalType dtype) {
  const bool keeps = dtype.has_value() || !values.defined() || values.scalar_type() == at::kDouble;
  return keeps ? dtype : autocast;
}

HeldPositions::HeldPositions(const Tensor& given) {
  switch (given.scalar_type()) {
    case at::kInt:
      positions.type = kernels::PositionType::kInt32;
      break;
    case at::kFloat:
      positions.type = kernels::PositionType::kFloat;
      break;
    case at::kDouble:
      positions.type = kernels::PositionType::kDouble;
      break;
    case at::kHalf:
    case at::kBFloat16:
      tensor = given.to(at::kFloat);
      positions.type = kernels::PositionType::kFloat;
      break;
    default:
      tensor = given.to(at::kLong);
      positions.type = kernels::PositionType::kInt64;
  }
  tensor = (tensor.defined() ? tensor : given).contiguous();
  positions.data = tensor.const_data_ptr();
  positions.period = std::max<int64_t>(1, tensor.numel());
}

void execute(const kernels::SinusoidParams& params, const TurnTable& turns, const Tensor& out) {
  execute_ladder(params, params.rows, turns, out);
}
void execute(const kernels::TableParams& params, const TurnTable& turns, const Tensor& out) {
  execute_ladder(params, params.sinusoid.rows, turns, out);
}
void execute(const kernels::RotationParams& params, const TurnTable& turns, const Tensor& out) {
  execute_ladder(params, params.units(), turns, out);
}
void execute(const kernels::SinusoidParams& params, const Tensor& frequencies, const Tensor& phases,
             const Tensor& out) {
  execute_held(params, params.rows, frequencies, phases, out, storage_of(out));
}
void execute(const kernels::RotationParams& params, const Tensor& frequencies, const Tensor& out) {
  execute_held(params, params.units(), frequencies, Tensor(), out, storage_of(out));
}
void execute(const kernels::AngleGradientParams& params, const Tensor& frequencies, const Tensor& phases,
             const Tensor& out) {
  execute_held(params, params.sinusoid.rows, frequencies, phases, out, params.grad_storage);
}

}  // namespace torch_hrr::encoding
