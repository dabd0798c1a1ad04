// Positions, layouts, frequencies and results, as all encodings take them.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "csrc/contract.h"
#include "csrc/types.h"
#include "kernels/encoding/rotation.h"

namespace torch_hrr::encoding {

// The analytic frequencies scale base^(-2i/dim) and what is common to them.
struct Ladder {
  double base;
  double scale;
  double phase;

  bool operator==(const Ladder&) const = default;
};

using OptionalType = std::optional<at::ScalarType>;

enum class Layout { kInterleaved, kHalf };
Layout layout_of(const char* op, std::string_view name);
std::string_view name_of(Layout layout);

// Turns in main memory, padded for the CPU's vectors.
class TurnTable {
 public:
  explicit TurnTable(int64_t count);

  void set(int64_t i, kernels::FixedPoint turn, uint64_t offset);
  // Its columns are NaN.
  void set_not_finite(int64_t i);
  kernels::TurnArrays arrays() const;

 private:
  int64_t padded_;
  std::vector<uint64_t> numbers_;
  std::vector<uint8_t> finite_;
};
using SharedTurns = std::shared_ptr<const TurnTable>;

// Kept for the ladders used last.
SharedTurns ladder_turns(int64_t dim, const Ladder& ladder);
// Of tensors [F] on the CPU; phases may be undefined.
SharedTurns held_turns(const at::Tensor& frequencies, const at::Tensor& phases);

// scale base^(-2i/dim) in float64 for each of dim columns.
at::Tensor column_frequencies(const c10::SymInt& dim, const Ladder& ladder, Layout layout, const at::Tensor& like);

void check_ladder(const char* op, const Ladder& ladder);
// An integer or floating tensor.
void check_positions(const char* op, const at::Tensor& positions);
// dtype if given, else that of floating positions, else float32.
at::ScalarType result_type(const char* op, const at::Tensor& positions, OptionalType dtype);
// What autocast makes of a dtype that was not given; float64 stays.
OptionalType autocast_type(at::ScalarType autocast, const at::Tensor& values, OptionalType dtype);

// Positions as kernels read them; the tensor keeps them alive.
struct HeldPositions {
  explicit HeldPositions(const at::Tensor& positions);

  at::Tensor tensor;
  kernels::Positions positions;
};

void check_frequency_range(const char* op, int64_t dim, const Ladder& ladder);
inline void check_frequency_range(const char* op, const c10::SymInt& dim, const Ladder& ladder) {
  if (const auto known = dim.maybe_as_int()) {
    check_frequency_range(op, *known, ladder);
  }
}

// `out` tells dtype and device, of a gradient the device alone; rows and dim are not 0.
void execute(const kernels::SinusoidParams& params, const TurnTable& turns, const at::Tensor& out);
void execute(const kernels::SinusoidParams& params, const at::Tensor& frequencies, const at::Tensor& phases,
             const at::Tensor& out);
void execute(const kernels::TableParams& params, const TurnTable& turns, const at::Tensor& out);
void execute(const kernels::RotationParams& params, const TurnTable& turns, const at::Tensor& out);
void execute(const kernels::RotationParams& params, const at::Tensor& frequencies, const at::Tensor& out);
void execute(const kernels::AngleGradientParams& params, const at::Tensor& frequencies, const at::Tensor& phases,
             const at::Tensor& out);

}  // namespace torch_hrr::encoding
