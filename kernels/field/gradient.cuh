// Kernels of gradients: tiles as in evolve.cuh; sums over depth go through shared memory, height and width follow
// there.
#pragma once

#include "kernels/field/gradient.h"
#include "kernels/field/tile.cuh"

namespace torch_hrr::kernels {

constexpr int kAxes = 3;

// Fields that are read and shown: of the derivatives the sums that depth smooths and changes, of the transposed
// operator one for each axis.
template <GradientKind kKind>
constexpr int kGradientSums = kKind == GradientKind::kTransposed ? kAxes : 2;
template <GradientKind kKind>
constexpr int kGradientInputs = kKind == GradientKind::kTransposed ? kAxes : 1;
template <GradientKind kKind>
constexpr int kGradientOutputs = kKind == GradientKind::kDerivatives ? kAxes : 1;

// The transposed operator keeps three times the columns: fewer threads have more registers.
template <GradientKind kKind>
constexpr int kMostGradientThreads = kKind == GradientKind::kTransposed ? kMostEvolveThreads / 2 : kMostEvolveThreads;

// A thread's columns of a tile, as TileColumns.
template <typename S, GradientKind kKind>
class GradientColumns : private TilePlaces<S, FieldLayout> {
  using Places = TilePlaces<S, FieldLayout>;
  using Places::face_;
  using Places::kColumns;
  using Places::kNoPlane;
  using Places::layout_;
  using Places::left_;
  using Places::offset_;
  using Places::own_;
  using Places::right_;
  using Places::row_;
  using Places::shape_;
  using Places::shown_size_;
  using Places::stored_;
  static constexpr int kSums = kGradientSums<kKind>;
  static constexpr int kInputs = kGradientInputs<kKind>;
  static constexpr int kOutputs = kGradientOutputs<kKind>;

 public:
  using T = compute_t<S>;

  // `shown` has room for two planes of all sums.
  KERNEL_DEVICE GradientColumns(const FieldShape& p, const EvolveTile& tile, const TilePlace& place, int rank, T scale,
                                T* shown)
      : Places(p, Boundary::kReplicate, tile, FieldLayout(p), place, rank, /*corners=*/true),
        scale_(scale),
        shown_(shown) {
    const int row = rank / tile.channels / tile.quads;
    const int64_t width = place.width + kQuad * (rank / tile.channels % tile.quads);
    above_ = sign(place.height + row == 0);
    below_ = sign(place.height + row == p.height - 1);
    first_ = width == 0;
    last_ = p.width - 1 - width;
  }

  // The planes [begin, end) of one item, whose parts begin at `in` and at `out`.
  KERNEL_DEVICE void run(const S* in, S* out, int64_t begin, int64_t end) const {
    const int64_t size = layout_.plane * shape_.depth;
    T before[kInputs][kColumns];
    T now[kInputs][kColumns];
    T after[kInputs][kColumns];
#pragma unroll
    for (int part = 0; part < kInputs; ++part) {
      this->load(in + part * size, begin - 1, before[part]);
      this->load(in + part * size, begin, now[part]);
      this->load(in + part * size, begin + 1, after[part]);
    }
    int parity = 0;
#pragma unroll 1
    for (int64_t d = begin; d < end; ++d) {
      S coming[kInputs][kColumns];
#pragma unroll
      for (int part = 0; part < kInputs; ++part) {
        this->load(in + part * size, d + 1 < end ? d + 2 : kNoPlane, coming[part]);
      }
      T* const shown = shown_ + (parity != 0 ? kSums * shown_size_ : 0);
      parity ^= 1;
      T sums[kSums][kColumns];
      sum_over_depth(d, before, now, after, sums);
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        this->show(sums[i], shown + i * shown_size_);
      }
      block_sync();
      if (stored_ != 0) {
        finish(shown, out + d * layout_.plane, size);
      }
#pragma unroll
      for (int part = 0; part < kInputs; ++part) {
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
          before[part][i] = now[part][i];
          now[part][i] = after[part][i];
          after[part][i] = static_cast<T>(coming[part][i]);
        }
      }
    }
  }

 private:
  static KERNEL_DEVICE T sign(bool outside) {
    return outside ? T{-1} : T{1};
  }

  KERNEL_DEVICE void sum_over_depth(int64_t d, const T (&before)[kInputs][kColumns], const T (&now)[kInputs][kColumns],
                                    const T (&after)[kInputs][kColumns], T (&sums)[kSums][kColumns]) const {
    const T front = sign(d == 0);
    const T back = sign(d == shape_.depth - 1);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if constexpr (kKind == GradientKind::kTransposed) {
        sums[0][i] = difference(back * after[0][i], front * before[0][i]);
        sums[1][i] = smoothed(before[1][i], now[1][i], after[1][i]);
        sums[2][i] = smoothed(before[2][i], now[2][i], after[2][i]);
      } else {
        sums[0][i] = smoothed(before[0][i], now[0][i], after[0][i]);
        sums[1][i] = difference(before[0][i], after[0][i]);
      }
    }
  }

  // Sums over depth and height at place k of the quad, -1 and kQuad being its neighbours.
  struct Planar {
    T both, by_height, by_depth;
  };
  struct Rows {
    T above, own, below;
  };
  KERNEL_DEVICE Rows rows_of(const T* shown, int k) const {
    const T* const place = shown + (k < 0 ? left_ : k < kQuad ? own_ + k * face_ : right_);
    return {place[-row_], *place, place[row_]};
  }
  KERNEL_DEVICE Planar planar(const T* shown, int k) const {
    const Rows first = rows_of(shown, k);
    const Rows second = rows_of(shown + shown_size_, k);
    if constexpr (kKind == GradientKind::kTransposed) {
      const Rows third = rows_of(shown + 2 * shown_size_, k);
      const T rest =
          smoothed(first.above, first.own, first.below) + difference(below_ * second.below, above_ * second.above);
      return {rest, smoothed(third.above, third.own, third.below), T{0}};
    } else {
      return {smoothed(first.above, first.own, first.below), difference(first.above, first.below),
              smoothed(second.above, second.own, second.below)};
    }
  }

  KERNEL_DEVICE void finish(const T* shown, S* out, int64_t size) const {
    Planar before = planar(shown, -1);
    Planar center = planar(shown, 0);
#pragma unroll
    for (int k = 0; k < kQuad; ++k) {
      const Planar after = planar(shown, k + 1);
      T values[kOutputs];
      if constexpr (kKind == GradientKind::kTransposed) {
        const T left = sign(k == 0 && first_) * before.by_height;
        const T right = sign(k == last_) * after.by_height;
        values[0] = scale_ * (smoothed(before.both, center.both, after.both) + difference(right, left));
      } else {
        const T by_depth = scale_ * smoothed(before.by_depth, center.by_depth, after.by_depth);
        const T by_height = scale_ * smoothed(before.by_height, center.by_height, after.by_height);
        const T by_width = scale_ * difference(before.both, after.both);
        if constexpr (kKind == GradientKind::kMagnitude) {
          values[0] = gradient_norm(by_depth, by_height, by_width);
        } else {
          values[0] = by_depth;
          values[1] = by_height;
          values[2] = by_width;
        }
      }
      if (k < stored_) {
#pragma unroll
        for (int part = 0; part < kOutputs; ++part) {
          out[part * size + offset_[k]] = static_cast<S>(values[part]);
        }
      }
      before = center;
      center = after;
    }
  }

  T scale_;
  T* shown_;
  T above_;
  T below_;
  bool first_;
  int64_t last_;  // index within the quad of the last place of a line
};

// A block for every tile.
template <typename S, GradientKind kKind>
__global__ void __launch_bounds__(kMostGradientThreads<kKind>) gradient_kernel(GradientParams p, EvolveTile tile) {
  using T = compute_t<S>;
  const TilePlace place = tile_place(p, tile);
  const GradientColumns<S, kKind> columns(p, tile, place, thread_rank(), static_cast<T>(p.scale()),
                                          dynamic_shared<T>());
  const int64_t item = place.item * p.volume() * p.channels;
  const int64_t end = place.depth + tile.planes < p.depth ? place.depth + tile.planes : p.depth;
  columns.run(static_cast<const S*>(p.in) + kGradientInputs<kKind> * item,
              static_cast<S*>(p.out) + kGradientOutputs<kKind> * item, place.depth, end);
}

}  // namespace torch_hrr::kernels
