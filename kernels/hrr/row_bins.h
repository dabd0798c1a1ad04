// Between the half-length spectrum Z of a real row and its own bins A_k, k = 0 .. M, in whole vectors and in place.
#pragma once

#include "kernels/hrr/bin_pairs.h"
#include "kernels/hrr/pair_stage.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// A pair of the kind of `like`: vectors of W pairs from k on, or one pair.
template <typename T, int W>
KERNEL_HOST_DEVICE PairLanes<T, W> load_like(Split<T> z, int64_t points, int64_t k, const Simd<T, W>&) {
  return load_pairs<T, W>(z, points, k);
}
template <typename T>
KERNEL_HOST_DEVICE Pair<T> load_like(Split<T> z, int64_t points, int64_t k, const T&) {
  return load_pair(z, points, k);
}
template <typename T, int W>
KERNEL_HOST_DEVICE void store_like(Split<T> z, int64_t points, int64_t k, const PairLanes<T, W>& pair) {
  store_pairs<T, W>(z, points, k, pair);
}
template <typename T>
KERNEL_HOST_DEVICE void store_like(Split<T> z, int64_t points, int64_t k, const Pair<T>& pair) {
  store_pair(z, points, k, pair);
}

// visit(k, w, 1/2) for every pair (k, M-k), in whole vectors, the first at k = 0, and then one by one or, kMayRepeat,
// in one more vector, which takes some pairs again. The bin M/2 of an even M, where w = -i, is left: it is conjugated
// in both directions.
template <typename T, int W, bool kMayRepeat = false, typename Visit>
KERNEL_HOST_DEVICE void for_pairs(const HalfRow<T>& row, const Visit& visit) {
  using V = Simd<T, W>;
  const int64_t points = row.size;
  const V half = V::broadcast(static_cast<T>(0.5));
  const auto visit_block = [&](int64_t k) {
    visit(k, Complex<V>{V::load(row.half_root_re + k), V::load(row.half_root_im + k)}, half);
  };
  const int64_t whole = whole_blocks<W>(points);
  for (int64_t k = 0; k < whole; k += W) {
    visit_block(k);
  }
  if (kMayRepeat && whole > 0) {
    const int64_t end = (points + 1) / 2;
    if (whole < end) {
      visit_block(end - W);
    }
    return;
  }
  for (int64_t k = whole; 2 * k < points; ++k) {
    visit(k, Complex<T>{row.half_root_re[k], row.half_root_im[k]}, static_cast<T>(0.5));
  }
}

// z <- map(pair, w, 1/2)
template <typename T, int W, typename Map>
KERNEL_HOST_DEVICE void map_pairs(const HalfRow<T>& row, Split<T> z, const Map& map) {
  const int64_t points = row.size;
  for_pairs<T, W>(row, [&](int64_t k, const auto& w, const auto& half) {
    store_like(z, points, k, map(load_like(z, points, k, half), w, half));
  });
  if (points % 2 == 0) {
    z.im[points / 2] = -z.im[points / 2];
  }
}

// Z, wrapped, becomes A_0 .. A_M.
template <typename T, int W>
void split(const HalfRow<T>& row, Split<T> z) {
  map_pairs<T, W>(row, z,
                  [](const auto& pair, const auto& w, const auto& half) { return bins_of_pair(pair, w, half); });
}

// The inverse; the last point is no longer set.
template <typename T, int W>
void merge(const HalfRow<T>& row, Split<T> a) {
  map_pairs<T, W>(row, a,
                  [](const auto& pair, const auto& w, const auto& half) { return pair_of_bins(pair, w, half); });
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
