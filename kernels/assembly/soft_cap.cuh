// Soft winners on a GPU: one block a row, sums in the order of block_sum.
//
// A row stays where it is: the exponentials are computed anew in every step of the search, which costs less than a
// workspace of doubles. Bits depend on the row, the kernel's block size and the storage type alone.
#pragma once

#include <limits>
#include <type_traits>

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/device_math.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/numeric.h"

#include "kernels/assembly/cap_formulas.h"

namespace torch_hrr::kernels {

constexpr int kCapThreads = 256;
constexpr int kCapWarps = kCapThreads / kWarpSize;
// One number of eight bytes a warp.
constexpr std::size_t kCapSharedBytes = kCapWarps * 8;

template <typename T>
using order_key_t = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

template <typename T>
HRR_DEVICE order_key_t<T> order_key(T x) {
  const auto bits = __builtin_bit_cast(order_key_t<T>, x);
  if constexpr (sizeof(T) == 4) {
    return order_key_of_float_bits(bits);
  } else {
    return order_key_of_double_bits(bits);
  }
}

// The largest of the block's values; `shared` as in block_sum.
template <typename Key>
HRR_DEVICE Key block_largest(Key value, Key* shared) {
  for (int lane_mask = kWarpSize / 2; lane_mask > 0; lane_mask /= 2) {
    const Key other = shuffle_xor(value, lane_mask);
    value = value < other ? other : value;
  }
  if (lane_index() == 0) {
    shared[warp_index()] = value;
  }
  block_sync();
  value = shared[0];
  for (int warp = 1; warp < warp_count(); ++warp) {
    value = value < shared[warp] ? shared[warp] : value;
  }
  block_sync();
  return value;
}

// A row as its block sees it; every member function is a call of the whole block.
template <typename S>
struct BlockRow {
  using T = compute_t<S>;
  using Key = order_key_t<T>;

  const S* x;
  int n;
  void* shared;

  // function(x_i, i) for this thread's elements
  template <typename Function>
  HRR_DEVICE void each(const Function& function) const {
    for (int64_t i = thread_rank(); i < n; i += kCapThreads) {
      function(static_cast<T>(x[i]), static_cast<int>(i));
    }
  }
  template <typename Value>
  HRR_DEVICE Value total(Value value) const {
    return block_sum(value, static_cast<Value*>(shared));
  }

  HRR_DEVICE int number_at_least(Key least) const {
    int count = 0;
    each([&](T element, int) { count += order_key(element) >= least ? 1 : 0; });
    return total(count);
  }

  // The k-th largest key, 1 <= k <= n: bisection over the bits of the key, until exactly k are left or no bit is.
  HRR_DEVICE Key cut(int k) const {
    Key reached = 0;
    for (Key bit = Key{1} << (8 * sizeof(Key) - 1); bit != 0; bit >>= 1) {
      const int count = number_at_least(reached | bit);
      if (count >= k) {
        reached |= bit;
        if (count == k) {
          break;
        }
      }
    }
    // The least key among those that reach it, as the largest of the complements.
    Key complement = 0;
    each([&](T element, int) {
      const Key key = order_key(element);
      complement = key >= reached && complement < static_cast<Key>(~key) ? static_cast<Key>(~key) : complement;
    });
    return ~block_largest(complement, static_cast<Key*>(shared));
  }

  HRR_DEVICE Key largest_below(Key bound) const {
    Key below = 0;
    each([&](T element, int) {
      const Key key = order_key(element);
      below = key < bound && below < key ? key : below;
    });
    return block_largest(below, static_cast<Key*>(shared));
  }
};

// The row as find_offset asks for it.
template <CapShape kShape, typename S>
struct BlockSearch {
  using T = compute_t<S>;

  const BlockRow<S>& row;
  const CapCut& cut;
  CapScale scale;

  HRR_DEVICE bool is_below(T element) const {
    return static_cast<double>(element) < cut.value;
  }
  HRR_DEVICE bool is_tied(T element) const {
    return static_cast<double>(element) == cut.value;
  }
  HRR_DEVICE double proximity(T element) const {
    return scale.proximity(static_cast<double>(element));
  }
  HRR_DEVICE CapCensus census() const {
    double above = 0;
    double below = 0;
    int tied = 0;
    row.each([&](T element, int) {
      if (is_tied(element)) {
        ++tied;
      } else {
        (is_below(element) ? below : above) += proximity(element);
      }
    });
    above = row.total(above);
    below = row.total(below);
    return {above, below, static_cast<double>(row.total(tied))};
  }
  HRR_DEVICE CapPoint<double> point(double a) const {
    return cap_point<kShape>(a);
  }
  HRR_DEVICE CapPoint<double> point(T element, double w, double v) const {
    return cap_point<kShape>(proximity(element) * (is_below(element) ? v : w));
  }
  HRR_DEVICE CapSums sums(double w, double v) const {
    CapSums sums{0, 0, 0, 0};
    row.each([&](T element, int) {
      if (!is_tied(element)) {
        const CapPoint<double> at = point(element, w, v);
        const bool below = is_below(element);
        (below ? sums.present : sums.lacking) += at.q;
        (below ? sums.present_slope : sums.lacking_slope) += at.d;
      }
    });
    return {row.total(sums.lacking), row.total(sums.present), row.total(sums.lacking_slope),
            row.total(sums.present_slope)};
  }
};

// y where v is null, else J v; for 0 < k < n and finite rows.
template <CapShape kShape, typename S>
HRR_DEVICE void soften_block_row(const BlockRow<S>& row, const S* v, int k, double temperature, S* out) {
  using T = compute_t<S>;
  using Key = typename BlockRow<S>::Key;
  const Key key = row.cut(k);
  const CapCut cut{static_cast<double>(number_of_order_key<T>(key)),
                   static_cast<double>(number_of_order_key<T>(row.largest_below(key))), row.number_at_least(key) - k};
  if (is_wide(cut, temperature)) {
    row.each([&](T element, int i) {
      out[i] = static_cast<S>(v == nullptr && static_cast<double>(element) >= cut.value ? 1.0f : 0.0f);
    });
    return;
  }
  const BlockSearch<kShape, S> search{row, cut, CapScale(cut.value, temperature)};
  const double w = ::exp(find_offset(search, cut, row.n, k, temperature));
  const double inverse = 1 / w;
  if (v == nullptr) {
    row.each([&](T element, int i) {
      const CapPoint<double> at = search.point(element, w, inverse);
      out[i] = static_cast<S>(static_cast<T>(search.is_below(element) ? at.q : at.rest));
    });
    return;
  }
  double weight = 0;
  double weighted = 0;
  row.each([&](T element, int i) {
    const double d = search.point(element, w, inverse).d;
    weight += d;
    weighted = multiply_add(d, static_cast<double>(static_cast<T>(v[i])), weighted);
  });
  weight = row.total(weight);
  weighted = row.total(weighted);
  double part = 1;
  double mean = weight > 0 ? weighted / weight : 0;
  if (!is_safe_mean(mean)) {
    part = kSmallerDirections;
    weighted = 0;
    row.each([&](T element, int i) {
      const double d = search.point(element, w, inverse).d;
      weighted = multiply_add(d, static_cast<double>(static_cast<T>(v[i])) * part, weighted);
    });
    mean = row.total(weighted) / weight;
  }
  const CapJacobian jacobian(temperature, part, mean);
  row.each([&](T element, int i) {
    const double d = search.point(element, w, inverse).d;
    out[i] = static_cast<S>(static_cast<T>(jacobian(d, static_cast<double>(static_cast<T>(v[i])))));
  });
}

template <CapResult kResult, CapShape kShape, typename S>
__global__ void __launch_bounds__(kCapThreads, 2) soft_cap_kernel(SoftCapParams params) {
  using T = compute_t<S>;
  const int k = static_cast<int>(params.k);
  for (int64_t r = blockIdx.x; r < params.rows; r += gridDim.x) {
    const BlockRow<S> row{static_cast<const S*>(params.inputs) + row_offset(params.map, 0, r),
                          static_cast<int>(params.n), dynamic_shared<double>()};
    S* const out = static_cast<S*>(params.out) + r * params.n;
    const S* v = nullptr;
    if constexpr (kResult == CapResult::kJacobian) {
      v = static_cast<const S*>(params.v) + row_offset(params.map, 1, r);
    }
    bool finite = true;
    row.each([&](T element, int i) {
      finite = finite && element - element == 0;
      if constexpr (kResult == CapResult::kJacobian) {
        finite = finite && static_cast<T>(v[i]) - static_cast<T>(v[i]) == 0;
      }
    });
    if (!block_all(finite)) {
      row.each([&](T, int i) { out[i] = static_cast<S>(std::numeric_limits<T>::quiet_NaN()); });
    } else if (k == 0 || k == params.n) {
      const bool ones = kResult == CapResult::kSoft && k > 0;
      row.each([&](T, int i) { out[i] = static_cast<S>(ones ? 1.0f : 0.0f); });
    } else {
      soften_block_row<kShape>(row, v, k, params.temperature, out);
    }
  }
}

// Grids of at most max_blocks give the same bits; `launch_kernel` is launch without its stream, or host_launch.
template <typename S, typename LaunchKernel>
void launch_soft_cap_rows(const SoftCapParams& params, const LaunchKernel& launch_kernel,
                          int64_t max_blocks = kMaxGridX) {
  if (params.rows == 0 || params.n == 0) {
    return;
  }
  const auto start = [&](void (*kernel)(SoftCapParams)) {
    launch_kernel("k_cap", kernel, grid_for(params.rows < max_blocks ? params.rows : max_blocks), dim3(kCapThreads),
                  kCapSharedBytes, params);
  };
  const bool sigmoid = params.shape == CapShape::kSigmoid;
  switch (params.result) {
    case CapResult::kSoft:
      return start(sigmoid ? soft_cap_kernel<CapResult::kSoft, CapShape::kSigmoid, S>
                           : soft_cap_kernel<CapResult::kSoft, CapShape::kLaplace, S>);
    case CapResult::kJacobian:
      return start(sigmoid ? soft_cap_kernel<CapResult::kJacobian, CapShape::kSigmoid, S>
                           : soft_cap_kernel<CapResult::kJacobian, CapShape::kLaplace, S>);
  }
}

}  // namespace torch_hrr::kernels
