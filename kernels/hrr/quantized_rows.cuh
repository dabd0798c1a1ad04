// Codes of rows and the search over them on a GPU: bounds from products of codes, in tiles; then the cosines of the
// items that a bound cannot exclude, a warp each. The k largest are chosen before and after by k_winners.
#pragma once

#include <limits>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/stored.cuh"
#include "kernels/hrr/quantized_launch.h"
#include "kernels/math.h"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {

constexpr int kQuantizeThreads = 256;

KERNEL_DEVICE float rounded(float x) {
  return rintf(x);
}
KERNEL_DEVICE double rounded(double x) {
  return rint(x);
}

// The largest magnitude of a row; infinity if an element is not finite. All lanes of the warp get it.
template <typename T>
KERNEL_DEVICE T largest_magnitude(const StoredInput<T>& row, int64_t dim) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  T largest = 0;
  for (int64_t i = lane_index(); i < dim; i += kWarpSize) {
    const T size = magnitude(row[i]);
    // Of NaN too.
    largest = size <= largest ? largest : size < kInfinity ? size : kInfinity;
  }
  return warp_reduce(largest, [](T a, T b) { return a < b ? b : a; });
}

// A warp a row.
template <typename T>
__global__ void __launch_bounds__(kQuantizeThreads) quantize_rows_kernel(QuantizeParams params) {
  for_each_of_warps(params.rows, [&](int64_t r) {
    const StoredInput<T> row = stored_input<T>(params.input, params.storage) + row_offset(params.map, 0, r);
    int8_t* const codes = params.codes + r * params.dim;
    const T largest = largest_magnitude(row, params.dim);
    const bool coded = largest >= static_cast<T>(kLeastCoded) && largest <= static_cast<T>(kLargestCoded);
    T squares = 0;
    for (int64_t i = lane_index(); coded && i < params.dim; i += kWarpSize) {
      const T element = row[i];
      squares = multiply_add(element, element, squares);
    }
    const T norm = square_root(warp_sum(squares));
    const float scale = coded ? static_cast<float>(largest / norm / kLargestCode) : 0;
    T rest = 0;
    for (int64_t i = lane_index(); i < params.dim; i += kWarpSize) {
      T code = 0;
      if (coded) {
        const T element = row[i];
        const T steps = rounded(element / largest * kLargestCode);
        code = steps > kLargestCode ? kLargestCode : steps < -kLargestCode ? -kLargestCode : steps;
        const T missing = element / norm - static_cast<T>(scale) * code;
        rest = multiply_add(missing, missing, rest);
      }
      codes[i] = static_cast<int8_t>(code);
    }
    rest = square_root(warp_sum(rest));
    if (lane_index() == 0) {
      params.bounds[kQuantizedBounds * r] = scale;
      // Rounded up by far more than the sums may be wrong.
      params.bounds[kQuantizedBounds * r + 1] = coded          ? static_cast<float>(rest) * 1.001f + 1e-6f
                                                : largest == 0 ? 0
                                                               : std::numeric_limits<float>::infinity();
    }
  });
}

// The column of an item, -1 for an absent one. No value of the table leads outside the matrix.
KERNEL_DEVICE int64_t place_of(const DeviceCleanupParams& params, int64_t item) {
  const int64_t place = params.places == nullptr ? item : params.places[item];
  return place < params.items ? place : -1;
}

// A tile is kTileItems items and kQueries queries; each thread has kOwnItems x kOwnQueries of its products.
constexpr int kCodeThreads = 256;
constexpr int kTileItems = 64;
constexpr int kStepWords = 16;               // four codes each
constexpr int kPitchWords = kStepWords + 1;  // of a row in shared memory, so that rows start in different banks

template <int kQueries>
constexpr std::size_t kCodeTileBytes = (kTileItems + kQueries) * kPitchWords * sizeof(int32_t);

// Codes [4 word, 4 word + 4) of a row as a word, 0 beyond its end; rows of any length start anywhere.
KERNEL_DEVICE int32_t code_word(const int8_t* row, int64_t word, int64_t dim) {
  uint32_t codes = 0;
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t at = 4 * word + i;
    codes |= at < dim ? static_cast<uint32_t>(static_cast<uint8_t>(row[at])) << (8 * i) : 0;
  }
  return static_cast<int32_t>(codes);
}

// rows[r][w] = words of codes of rows [first, first + kRows), 0 beyond the last row.
template <int kRows, bool kAligned>
KERNEL_DEVICE void load_code_tile(const int8_t* codes, int64_t first, int64_t count, int64_t word, int64_t dim,
                                  int32_t* rows) {
  for (int i = thread_rank(); i < kRows * kStepWords; i += kCodeThreads) {
    const int64_t row = first + i / kStepWords;
    const int64_t own = word + i % kStepWords;
    int32_t value = 0;
    if (row < count) {
      if constexpr (kAligned) {
        value = 4 * own < dim ? *reinterpret_cast<const int32_t*>(codes + row * dim + 4 * own) : 0;
      } else {
        value = code_word(codes + row * dim, own, dim);
      }
    }
    rows[i / kStepWords * kPitchWords + i % kStepWords] = value;
  }
}

template <typename T, int kQueries, bool kAligned>
__global__ void __launch_bounds__(kCodeThreads) code_bounds_kernel(DeviceCleanupParams params) {
  constexpr int kOwnQueries = kQueries >= 32 ? 2 : 1;
  constexpr int kOwnItems = kTileItems * kQueries / kCodeThreads / kOwnQueries;
  constexpr int kItemThreads = kTileItems / kOwnItems;
  auto* const item_tile = dynamic_shared<int32_t>();
  int32_t* const query_tile = item_tile + kTileItems * kPitchWords;
  const int item_thread = thread_rank() % kItemThreads;
  const int query_thread = thread_rank() / kItemThreads;
  const int64_t item_tiles = (params.items + kTileItems - 1) / kTileItems;
  const int64_t query_tiles = (params.count + kQueries - 1) / kQueries;
  const int64_t words = (params.dim + 3) / 4;
  for (int64_t tile = blockIdx.x; tile < item_tiles * query_tiles; tile += gridDim.x) {
    const int64_t first_item = tile / query_tiles * kTileItems;
    const int64_t first_query = tile % query_tiles * kQueries;
    int32_t products[kOwnQueries][kOwnItems] = {};
    for (int64_t word = 0; word < words; word += kStepWords) {
      load_code_tile<kTileItems, kAligned>(params.codes, first_item, params.items, word, params.dim, item_tile);
      load_code_tile<kQueries, kAligned>(params.query_codes, first_query, params.count, word, params.dim, query_tile);
      block_sync();
#pragma unroll
      for (int w = 0; w < kStepWords; ++w) {
        int32_t own[kOwnItems];
#pragma unroll
        for (int i = 0; i < kOwnItems; ++i) {
          own[i] = item_tile[(item_thread + i * kItemThreads) * kPitchWords + w];
        }
#pragma unroll
        for (int j = 0; j < kOwnQueries; ++j) {
          const int32_t query = query_tile[(query_thread * kOwnQueries + j) * kPitchWords + w];
#pragma unroll
          for (int i = 0; i < kOwnItems; ++i) {
            products[j][i] = __dp4a(query, own[i], products[j][i]);
          }
        }
      }
      block_sync();
    }
    for (int j = 0; j < kOwnQueries; ++j) {
      const int64_t query = first_query + query_thread * kOwnQueries + j;
      for (int i = 0; i < kOwnItems; ++i) {
        const int64_t item = first_item + item_thread + i * kItemThreads;
        if (query >= params.count || item >= params.items) {
          continue;
        }
        const int64_t place = place_of(params, item);
        if (place >= 0) {
          const float* const of_query = params.query_bounds + kQuantizedBounds * query;
          const float* const of_item = params.bounds + kQuantizedBounds * item;
          const float cosine = of_query[0] * of_item[0] * static_cast<float>(products[j][i]);
          static_cast<T*>(params.matrix)[query * params.items + place] =
              static_cast<T>(cosine - cosine_margin(of_item[1], of_query[1]));
        }
      }
    }
  }
}

// The cosine of a unit row and a row, by a warp; all lanes get it.
template <typename T>
KERNEL_DEVICE T warp_cosine(const T* query, const StoredInput<T>& row, int64_t dim) {
  T product = 0;
  T squares = 0;
  for (int64_t i = lane_index(); i < dim; i += kWarpSize) {
    const T element = row[i];
    product = multiply_add(query[i], element, product);
    squares = multiply_add(element, element, squares);
  }
  product = warp_sum(product);
  squares = warp_sum(squares);
  if (!(squares >= static_cast<T>(kLeastSquares) && squares <= static_cast<T>(1 / kLeastSquares))) {
    const T largest = largest_magnitude(row, dim);
    if (!(largest > 0 && largest <= std::numeric_limits<T>::max())) {
      // 0, or NaN where either holds NaN or infinity.
      return largest == 0 ? 0 * product : std::numeric_limits<T>::quiet_NaN();
    }
    product = 0;
    squares = 0;
    for (int64_t i = lane_index(); i < dim; i += kWarpSize) {
      const T element = row[i] / largest;
      product = multiply_add(query[i], element, product);
      squares = multiply_add(element, element, squares);
    }
    product = warp_sum(product);
    squares = warp_sum(squares);
  }
  const T cosine = product / square_root(squares);
  return cosine < -1 ? -1 : cosine > 1 ? 1 : cosine;
}

template <typename T>
__global__ void __launch_bounds__(kQuantizeThreads) left_cosines_kernel(DeviceCleanupParams params) {
  const int64_t groups = (params.items + kWarpSize - 1) / kWarpSize;
  for_each_of_warps(groups * params.count, [&](int64_t task) {
    const int64_t query = task / groups;
    const int64_t first = task % groups * kWarpSize;
    const int64_t item = first + lane_index();
    const int64_t place = item < params.items ? place_of(params, item) : -1;
    T* const row = static_cast<T*>(params.matrix) + query * params.items;
    bool left = false;
    if (place >= 0) {
      const float margin =
          cosine_margin(params.bounds[kQuantizedBounds * item + 1], params.query_bounds[kQuantizedBounds * query + 1]);
      // NaN, where nothing is known, counts as reaching it.
      left = params.dim > kMaxCodedDim ||
             !(row[place] + static_cast<T>(2 * margin) < static_cast<const T*>(params.thresholds)[query]);
    }
    T own = static_cast<T>(kExcluded);
    for (uint32_t mask = warp_ballot(left); mask != 0; mask &= mask - 1) {
      const int lane = __ffs(static_cast<int>(mask)) - 1;
      const T cosine =
          warp_cosine(static_cast<const T*>(params.queries) + query * params.dim,
                      stored_input<T>(params.rows, params.storage) + (first + lane) * params.row_stride, params.dim);
      own = lane == lane_index() ? (cosine == cosine ? cosine : static_cast<T>(kNotANumber)) : own;
    }
    if (place >= 0) {
      row[place] = own;
    }
  });
}

// Grids of at most max_blocks give the same bits; `launch_kernel` is a DeviceLauncher or a HostLauncher.
template <typename LaunchKernel>
void launch_quantize_rows_with(const QuantizeParams& params, const LaunchKernel& launch_kernel,
                               int64_t max_blocks = kMaxGridX) {
  if (params.rows == 0) {
    return;
  }
  const dim3 grid = grid_for(params.rows, kQuantizeThreads / kWarpSize, max_blocks);
  launch_kernel("quantize_rows",
                params.storage == Storage::kDouble ? quantize_rows_kernel<double> : quantize_rows_kernel<float>, grid,
                dim3(kQuantizeThreads), 0, params);
}

template <typename T, int kQueries, typename LaunchKernel>
void launch_code_bounds_of(const DeviceCleanupParams& params, const LaunchKernel& launch_kernel, int64_t max_blocks) {
  const int64_t tiles = ((params.items + kTileItems - 1) / kTileItems) * ((params.count + kQueries - 1) / kQueries);
  launch_kernel("quantized_cleanup",
                params.dim % 4 == 0 ? code_bounds_kernel<T, kQueries, true> : code_bounds_kernel<T, kQueries, false>,
                grid_for(tiles, 1, max_blocks), dim3(kCodeThreads), kCodeTileBytes<kQueries>, params);
}
template <typename LaunchKernel>
void launch_code_bounds_with(const DeviceCleanupParams& params, const LaunchKernel& launch_kernel,
                             int64_t max_blocks = kMaxGridX) {
  if (params.count == 0 || params.items == 0) {
    return;
  }
  // A tile reads its items whatever number of queries it has.
  const bool few = params.count <= 4;
  const auto launch =
      params.is_double
          ? (few ? launch_code_bounds_of<double, 4, LaunchKernel> : launch_code_bounds_of<double, 32, LaunchKernel>)
          : (few ? launch_code_bounds_of<float, 4, LaunchKernel> : launch_code_bounds_of<float, 32, LaunchKernel>);
  launch(params, launch_kernel, max_blocks);
}

template <typename LaunchKernel>
void launch_left_cosines_with(const DeviceCleanupParams& params, const LaunchKernel& launch_kernel,
                              int64_t max_blocks = kMaxGridX) {
  if (params.count == 0 || params.items == 0) {
    return;
  }
  const int64_t warps = (params.items + kWarpSize - 1) / kWarpSize * params.count;
  launch_kernel("quantized_cleanup", params.is_double ? left_cosines_kernel<double> : left_cosines_kernel<float>,
                grid_for(warps, kQuantizeThreads / kWarpSize, max_blocks), dim3(kQuantizeThreads), 0, params);
}

}  // namespace torch_hrr::kernels
