// Tiles of a field's planes: threads load their own places and those of the tile's border once, and show them to their
// neighbours in shared memory.
#pragma once

#include "kernels/cuda/block.cuh"
#include "kernels/field/stencil.h"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {

// Places side by side in width that a thread computes: the four normal numbers of a Philox block.
constexpr int kQuad = 4;
// Places of the border that a thread loads.
constexpr int kBorderPlaces = 2;
constexpr int kMostEvolveThreads = 512;

struct EvolveTile {
  int32_t channels = 1;
  int32_t quads = 1;  // of width
  int32_t rows = 1;
  int32_t threads = 32;
  int64_t planes = 1;  // of depth, that a block goes through

  KERNEL_HOST_DEVICE int width() const {
    return kQuad * quads;
  }
  // Threads that compute; others only help to load the border.
  KERNEL_HOST_DEVICE int computing() const {
    return channels * quads * rows;
  }
  // Places around the tile, corners last: the Laplacian does not need them.
  KERNEL_HOST_DEVICE int border(bool corners) const {
    return (2 * width() + 2 * rows + (corners ? 4 : 0)) * channels;
  }
  // Numbers of a plane with its border, which is shown in shared memory.
  KERNEL_HOST_DEVICE int shown() const {
    return (kQuad + 2) * (rows + 2) * quads * channels;
  }
};
// Two planes: the next one is written while the last one is read.
template <typename T>
KERNEL_HOST_DEVICE std::size_t evolve_shared_bytes(const EvolveTile& tile) {
  return 2 * static_cast<std::size_t>(tile.shown()) * sizeof(T);
}

// Where a tile begins.
struct TilePlace {
  int64_t item, channel, width, height, depth;
};

// Where the elements of a plane lie: in a field, and in shared memory, where the same places of all quads are side by
// side, so that threads meet no bank twice.
struct FieldLayout {
  int64_t width, channels, plane;

  explicit KERNEL_DEVICE FieldLayout(const FieldShape& p)
      : width(p.width), channels(p.channels), plane(p.height * p.width * p.channels) {}
  KERNEL_DEVICE int64_t at(int64_t h, int64_t w, int64_t c) const {
    return (h * width + w) * channels + c;
  }
};
struct QuadLayout {
  int quads, face, plane;

  KERNEL_HOST_DEVICE QuadLayout(const FieldShape& p, const EvolveTile& tile)
      : quads(tile.quads), face(static_cast<int>(p.height) * tile.quads), plane(kQuad * face) {}
  KERNEL_DEVICE int at(int64_t h, int64_t w, int64_t) const {
    return static_cast<int>(w % kQuad) * face + static_cast<int>(h) * quads + static_cast<int>(w / kQuad);
  }
};

// A thread's places of a tile: its own quad, and its share of the border, with which every place is in shared memory
// once.
template <typename S, typename Layout>
class TilePlaces {
 public:
  using T = compute_t<S>;

  // `rank` among the threads of the tile; `corners`: whether the corners of the border are needed.
  KERNEL_DEVICE TilePlaces(const FieldShape& p, Boundary boundary, const EvolveTile& tile, const Layout& layout,
                           const TilePlace& place, int rank, bool corners)
      : shape_(p),
        boundary_(boundary),
        layout_(layout),
        shown_size_(tile.shown()),
        quads_(tile.quads),
        channels_(tile.channels),
        row_(tile.quads * tile.channels),
        face_((tile.rows + 2) * row_) {
    const int channel = rank % tile.channels;
    const int quad = rank / tile.channels % tile.quads;
    const int row = rank / tile.channels / tile.quads;
    const int width = kQuad * quad;
    const bool computes = row < tile.rows;
    own_ = computes ? shown_index(row, width, channel) : -1;
    left_ = shown_index(row, width - 1, channel);
    right_ = shown_index(row, width + kQuad, channel);
#pragma unroll
    for (int k = 0; k < kQuad; ++k) {
      offset_[k] = computes ? offset_of(place, row, width + k, channel) : kNowhere;
    }
    const int64_t left = p.width - (place.width + width);
    const bool stores = computes && place.height + row < p.height && place.channel + channel < p.channels && left > 0;
    stored_ = !stores ? 0 : left < kQuad ? static_cast<int>(left) : kQuad;
#pragma unroll
    for (int j = 0; j < kBorderPlaces; ++j) {
      const int index = rank + j * tile.threads;
      const bool exists = index < tile.border(corners);
      int h = 0;
      int w = 0;
      border_place(tile, index / tile.channels, h, w);
      border_[j] = exists ? shown_index(h, w, index % tile.channels) : -1;
      offset_[kQuad + j] = exists ? offset_of(place, h, w, index % tile.channels) : kNowhere;
    }
  }

 protected:
  static constexpr int kColumns = kQuad + kBorderPlaces;
  using Offset = decltype(Layout::plane);
  static constexpr Offset kNowhere = -1;
  static constexpr int64_t kNoPlane = INT64_MIN;

  // The same places of all quads are side by side, so that threads meet no bank twice. Those left of the tile are at
  // the end of rows before, those right of it at the beginning of rows behind, in the banks that their readers leave
  // free.
  KERNEL_DEVICE int shown_index(int row, int width, int channel) const {
    const bool inside = width >= 0 && width < kQuad * quads_;
    const int face = inside ? width & (kQuad - 1) : width < 0 ? -1 : kQuad;
    const int quad = inside ? width / kQuad : width < 0 ? quads_ - 1 : 0;
    return (face + 1) * face_ + (row + 1) * row_ + quad * channels_ + channel;
  }
  // Threads side by side take the same places of quads above and below, and left and right in turn, for the banks.
  static KERNEL_DEVICE void border_place(const EvolveTile& tile, int index, int& row, int& width) {
    const int beside = index - 2 * tile.width();
    const int corner = beside - 2 * tile.rows;
    if (beside < 0) {
      const int place = index % tile.width();
      row = index < tile.width() ? -1 : tile.rows;
      width = place % tile.quads * kQuad + place / tile.quads;
    } else if (corner < 0) {
      row = beside / 2;
      width = beside % 2 == 0 ? -1 : tile.width();
    } else {
      row = corner < 2 ? -1 : tile.rows;
      width = corner % 2 == 0 ? -1 : tile.width();
    }
  }
  // Of a place of the tile or its border within a plane. Beyond the field but for its first neighbours, and where those
  // are zeros, there is nothing to load.
  KERNEL_DEVICE Offset offset_of(const TilePlace& place, int row, int width, int channel) const {
    const int64_t h = place.height + row;
    const int64_t w = place.width + width;
    const int64_t c = place.channel + channel;
    if (h > shape_.height || w > shape_.width || c >= shape_.channels) {
      return kNowhere;
    }
    const int64_t own_h = neighbour(h, shape_.height, boundary_);
    const int64_t own_w = neighbour(w, shape_.width, boundary_);
    return own_h < 0 || own_w < 0 ? kNowhere : layout_.at(own_h, own_w, c);
  }

  template <typename E>
  KERNEL_DEVICE void load(const S* field, int64_t depth, E (&values)[kColumns]) const {
    const int64_t d = depth == kNoPlane ? -1 : neighbour(depth, shape_.depth, boundary_);
    if (d < 0) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        values[i] = E(0);
      }
      return;
    }
    const S* const plane = field + static_cast<Offset>(d) * layout_.plane;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      values[i] = offset_[i] < 0 ? E(0) : static_cast<E>(plane[offset_[i]]);
    }
  }

  KERNEL_DEVICE void show(const T (&own)[kColumns], T* shown) const {
    if (own_ >= 0) {
#pragma unroll
      for (int k = 0; k < kQuad; ++k) {
        shown[own_ + k * face_] = own[k];
      }
    }
#pragma unroll
    for (int j = 0; j < kBorderPlaces; ++j) {
      if (border_[j] >= 0) {
        shown[border_[j]] = own[kQuad + j];
      }
    }
  }

  const FieldShape& shape_;
  Boundary boundary_;
  const Layout layout_;
  int shown_size_;
  int quads_;
  int channels_;
  int row_;
  int face_;
  int own_;
  int left_;
  int right_;
  int stored_;
  int border_[kBorderPlaces];
  Offset offset_[kColumns];
};

// index modulo count, of which index / count is left in index: 32 bits where they suffice, which a GPU divides faster.
KERNEL_DEVICE int64_t take_digit(int64_t& index, int64_t count) {
  const int64_t whole = static_cast<uint64_t>(index | count) >> 32 == 0
                            ? static_cast<int64_t>(static_cast<uint32_t>(index) / static_cast<uint32_t>(count))
                            : index / count;
  const int64_t digit = index - whole * count;
  index = whole;
  return digit;
}

struct TileCounts {
  int64_t channels, width, height, depth;

  KERNEL_HOST_DEVICE TileCounts(const FieldShape& p, const EvolveTile& tile)
      : channels((p.channels + tile.channels - 1) / tile.channels),
        width((p.width + tile.width() - 1) / tile.width()),
        height((p.height + tile.rows - 1) / tile.rows),
        depth((p.depth + tile.planes - 1) / tile.planes) {}
  KERNEL_HOST_DEVICE int64_t of_item() const {
    return channels * width * height * depth;
  }
};

// That of this block, where a block takes one.
KERNEL_DEVICE TilePlace tile_place(const FieldShape& p, const EvolveTile& tile) {
  const TileCounts counts(p, tile);
  int64_t rest = blockIdx.x;
  TilePlace place;
  place.channel = take_digit(rest, counts.channels) * tile.channels;
  place.width = take_digit(rest, counts.width) * tile.width();
  place.height = take_digit(rest, counts.height) * tile.rows;
  place.depth = take_digit(rest, counts.depth) * tile.planes;
  place.item = rest;
  return place;
}

}  // namespace torch_hrr::kernels
