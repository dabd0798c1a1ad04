// Sinusoids of positions, alone or added to rows of a table: parameters.
#pragma once

#include <cstdint>

#include "kernels/cuda/call.h"
#include "kernels/encoding/turns.h"

namespace torch_hrr::kernels {

enum class PositionType : int32_t { kInt32, kInt64, kFloat, kDouble };

struct Positions {
  const void* data = nullptr;  // null: row r is at position r modulo period
  PositionType type = PositionType::kInt64;
  int64_t period = 1;  // row r has element r modulo period
};

// Frequencies as numbers in memory: radians per position, and where phases is not null radians at position 0.
struct HeldFrequencies {
  const void* frequencies = nullptr;
  const void* phases = nullptr;
  Storage frequency_storage = Storage::kFloat;
  Storage phase_storage = Storage::kFloat;
};

// Row r of out, of `dim` elements, has sin and cos of (position r) (frequency i) + phase i for every i: side by side if
// interleaved, else all sines before all cosines. An odd dim lacks the last cosine. A position that is NaN or infinite
// gives a NaN row, such a frequency or phase its two columns.
struct SinusoidParams {
  Positions positions;
  void* out = nullptr;
  int64_t rows = 0;
  int64_t dim = 0;
  bool interleaved = true;

  KERNEL_HOST_DEVICE int64_t frequencies() const {
    return (dim + 1) / 2;
  }
};

// The rows of a table to which sinusoids are added: out = (table[token] + sinusoids) / temperature. Rows whose token is
// `padding` are 0. A token outside the table gives a NaN row. The table is stored in the type of out or one that is
// computed in the same type.
struct TableLookup {
  static constexpr int64_t kNoPadding = INT64_MIN;

  const void* table = nullptr;
  Storage table_storage = Storage::kFloat;
  int64_t table_rows = 0;
  int64_t table_stride = 0;  // elements from row to row
  const void* tokens = nullptr;
  bool wide_tokens = true;  // int64, else int32
  int64_t padding = kNoPadding;
  double temperature = 1;
};
struct TableParams : TableLookup {
  SinusoidParams sinusoid;
};

// The gradient of every angle from that of its sine and cosine: out[r, i] = grad_sin cos t_i - grad_cos sin t_i, in the
// compute type of grad, whose rows of `sinusoid.dim` elements, an even number, have the layout that `sinusoid` names.
struct AngleGradientParams {
  SinusoidParams sinusoid;
  const void* grad = nullptr;
  Storage grad_storage = Storage::kFloat;
};

// A host's frequencies, for the CPU's vectors and for the parameters of a launch: arrays of padded_frequencies(count)
// numbers, as turns per position and turns at position 0.
struct TurnArrays {
  const uint64_t* fraction = nullptr;
  const uint64_t* whole = nullptr;
  const uint64_t* offset = nullptr;
  const uint8_t* finite = nullptr;  // null if all are
};
constexpr int64_t kTurnPadding = 16;
constexpr int64_t padded_frequencies(int64_t count) {
  return (count + kTurnPadding - 1) / kTurnPadding * kTurnPadding;
}
template <typename Params>
struct WithTurns : Params {
  TurnArrays turns;
};
using SinusoidRowParams = WithTurns<SinusoidParams>;
using TableRowParams = WithTurns<TableParams>;
using AngleGradientRowParams = WithTurns<AngleGradientParams>;

// Arrays of turns are the host's and are read before the call returns.
void queue(const CudaCall& call, const SinusoidParams& params, const TurnArrays& turns);
void queue(const CudaCall& call, const SinusoidParams& params, const HeldFrequencies& held);
void queue(const CudaCall& call, const TableParams& params, const TurnArrays& turns);
void queue(const CudaCall& call, const AngleGradientParams& params, const HeldFrequencies& held);

KERNEL_ISA_BEGIN

// a mod b of numbers that are not negative: a GPU divides 32 bits much faster.
KERNEL_HOST_DEVICE int64_t remainder(int64_t a, int64_t b) {
  return static_cast<uint64_t>(a | b) >> 32 == 0 ? static_cast<uint32_t>(a) % static_cast<uint32_t>(b) : a % b;
}

// A position as the kernels take it; not finite: no angle.
struct LoadedPosition {
  FixedPoint value;
  bool finite = true;
};
KERNEL_HOST_DEVICE LoadedPosition load_position(const Positions& positions, int64_t row) {
  const int64_t i = row < positions.period ? row : remainder(row, positions.period);
  if (positions.data == nullptr) {
    return {{0, static_cast<uint64_t>(i)}};
  }
  double number = 0;
  switch (positions.type) {
    case PositionType::kInt32:
      return {{0, static_cast<uint64_t>(static_cast<const int32_t*>(positions.data)[i])}};
    case PositionType::kInt64:
      return {{0, static_cast<uint64_t>(static_cast<const int64_t*>(positions.data)[i])}};
    case PositionType::kFloat:
      number = static_cast<const float*>(positions.data)[i];
      break;
    case PositionType::kDouble:
      number = static_cast<const double*>(positions.data)[i];
      break;
  }
  return {fixed_position(number), number - number == 0};
}

KERNEL_HOST_DEVICE int64_t load_token(const TableLookup& lookup, int64_t row) {
  return lookup.wide_tokens ? static_cast<const int64_t*>(lookup.tokens)[row]
                            : static_cast<const int32_t*>(lookup.tokens)[row];
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
