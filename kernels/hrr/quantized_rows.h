// Items as codes of eight bits, and the search for those of the largest cosine, which reads floats only of items that
// the codes cannot exclude. Parameters, and what the CPU and CUDA share.
//
// An item x with u = x / norm2(x) is kept as codes c in -127..127, a scale s and a residual e >= norm2(u - s c). A
// query q with v = q / norm2(q) is coded the same way as t d, with residual f. Then
//   |<v, u> - s t <d, c>| = |<v, u - s c> + s <v - t d, c>| <= e + f norm2(s c) <= e + f (1 + e).
// An item whose bound lies below the k-th largest cosine found so far is not among the first k. All others are computed
// from the floats, in an order that depends on the length of a row alone.
#pragma once

#include <cstdint>

#include "kernels/cuda/call.h"
#include "kernels/macros.h"
#include "kernels/rows.h"

namespace torch_hrr::kernels {

constexpr int kLargestCode = 127;
// A sum of products of codes fits 32 bits up to here; longer rows are compared by their floats.
constexpr int64_t kMaxCodedDim = int64_t{1} << 16;
// Of a row: its scale and its residual.
constexpr int64_t kQuantizedBounds = 2;
// Rows whose largest element lies outside, NaN and infinity too, have no codes: their residual is infinite. Squares of
// the others neither overflow nor vanish in float.
constexpr double kLeastCoded = 1e-15;
constexpr double kLargestCoded = 1e15;
// What rounding may add to a bound and to a cosine. Both are sums of products of unit vectors, whose error is below the
// number of additions in a row times 2^-24; the searches add in chunks of kCosineChunk with at least four sums each.
constexpr float kCosineSlack = 1e-4f;
constexpr int64_t kCosineChunk = 2048;

// codes[r][i] and bounds[r][0..1] of rows that operand 0 of the map places, elements side by side.
struct QuantizeParams {
  const void* input = nullptr;
  int8_t* codes = nullptr;
  float* bounds = nullptr;
  int64_t rows = 0;
  int64_t dim = 0;
  RowMap map;
  Storage storage = Storage::kFloat;
};
void queue(const CudaCall& call, const QuantizeParams& params);

// One query's item: ranked by value, which is -2 for NaN, and among equals by the lower place.
struct FoundItem {
  double value;
  int64_t place;
  int64_t item;
};

// The search of a group of queries.
struct CleanupParams {
  const void* rows = nullptr;  // [items][dim] at row_stride, of the storage type
  const int8_t* codes = nullptr;
  const float* bounds = nullptr;
  const int64_t* places = nullptr;  // [items], -1 for an absent item; nullptr: the items' own numbers
  const void* queries = nullptr;    // [count][dim] in the compute type: double where is_double, else float
  int64_t row_stride = 0;
  int64_t items = 0;
  int64_t dim = 0;
  int64_t count = 0;
  int64_t top_k = 0;
  Storage storage = Storage::kFloat;
  bool is_double = false;  // else the storage type is not kDouble
};

// CPU: queries are prepared once; then any number of threads search ranges of items.
struct CleanupKernels {
  int64_t (*prepared_bytes)(const CleanupParams&);
  void (*prepare)(const CleanupParams&, void* prepared);
  int64_t (*scratch_bytes)(const CleanupParams&);
  // The best of items [begin, end): found[count][top_k] and how many of them, each a heap.
  void (*search)(const CleanupParams&, const void* prepared, int64_t begin, int64_t end, FoundItem* found,
                 int64_t* sizes, void* scratch);
};

// Squares of a row's norm within [kLeastSquares, 1 / kLeastSquares] have lost nothing in float.
constexpr double kLeastSquares = 1e-30;

KERNEL_ISA_BEGIN

// How far a cosine may be from the product of codes.
KERNEL_HOST_DEVICE float cosine_margin(float item_residual, float query_residual) {
  return item_residual + query_residual * (1 + item_residual) + kCosineSlack;
}

// Whether a ranks before b.
KERNEL_HOST_DEVICE bool ranks_before(const FoundItem& a, const FoundItem& b) {
  return a.value > b.value || (a.value == b.value && a.place < b.place);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
