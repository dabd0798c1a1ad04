// Lines of a field on the CPU: the elements of one place in depth and height, as vectors, in an order kind to caches.
#pragma once

#include "kernels/convert.h"
#include "kernels/streaming.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// Of the compute type; half types convert sixteen at a time.
template <typename S>
constexpr int kFieldLanes = sizeof(S) == 2 ? kConvertBlock : kVectorBytes / static_cast<int>(sizeof(S));
template <typename S>
using FieldLanes = Simd<compute_t<S>, kFieldLanes<S>>;

template <typename S>
KERNEL_HOST_DEVICE FieldLanes<S> load_lanes(const S* source) {
  if constexpr (sizeof(S) == 2) {
    Bits16 block;
    __builtin_memcpy(&block, source, sizeof(block));
    return widen(S{}, block);
  } else {
    return FieldLanes<S>::load(source);
  }
}
template <typename S>
KERNEL_HOST_DEVICE compute_t<S> load_number(const S* source) {
  compute_t<S> value;
  widen_row(source, 1, &value);
  return value;
}

// body(i, load) for places from `begin` to `end`, as vectors where there are enough of them, else one by one; the last
// vector overlaps the one before. load(pointer) gives a vector or a number, of the type S or of its compute type.
template <typename S, typename Body>
KERNEL_HOST_DEVICE void for_elements(int64_t begin, int64_t end, const Body& body) {
  constexpr int W = kFieldLanes<S>;
  if (end - begin >= W) {
    const auto vector = [](const auto* source) {
      if constexpr (sizeof(*source) == sizeof(S)) {
        return load_lanes(source);
      } else {
        return FieldLanes<S>::load(source);
      }
    };
    int64_t i = begin;
    for (; i + W <= end; i += W) {
      body(i, vector);
    }
    if (i < end) {
      body(end - W, vector);
    }
    return;
  }
  const auto one = [](const auto* source) { return load_number(source); };
  for (int64_t i = begin; i < end; ++i) {
    body(i, one);
  }
}

template <bool kStream, typename T>
KERNEL_HOST_DEVICE void store_lanes(T value, T* target) {
  *target = value;
}
template <bool kStream, typename T, int W>
KERNEL_HOST_DEVICE void store_lanes(Simd<T, W> value, T* target) {
  if constexpr (kStream) {
    stream(value, target);
  } else {
    value.store(target);
  }
}

struct FieldLine {
  int64_t item, depth, height;
};

// Lines go in tiles of so many rows of height, within which depth is the outer loop: three planes of a tile stay in the
// last cache, so that memory is read once but for the rows where tiles meet. Smaller tiles for nearer caches are
// slower: they break up the reading.
struct LineTiles {
  static constexpr int64_t kBytes = int64_t{1} << 22;

  int64_t depth, height, rows;

  // line_bytes: what one line moves
  KERNEL_HOST_DEVICE LineTiles(int64_t the_depth, int64_t the_height, int64_t line_bytes)
      : depth(the_depth), height(the_height), rows(kBytes / (3 * (line_bytes > 0 ? line_bytes : 1))) {
    rows = rows < 4 ? 4 : rows;
  }
  KERNEL_HOST_DEVICE FieldLine at(int64_t index) const {
    const int64_t per_item = depth * height;
    const int64_t item = index / per_item;
    const int64_t rest = index - item * per_item;
    const int64_t tile = rest / (rows * depth);
    const int64_t first = tile * rows;
    const int64_t own_rows = height - first < rows ? height - first : rows;
    const int64_t within = rest - first * depth;
    return {item, within / own_rows, first + within % own_rows};
  }
};

// The lines around one of the result, by depth and height: [1][1] is that at its own place.
template <typename S>
struct LinesAround {
  const S* at[3][3];
};
// What to fetch while a line is made: an element of each for every element of the line.
template <typename S>
struct Ahead {
  const S* near;
  const S* far;
  void fetch(int64_t i) const {
    __builtin_prefetch(near + i);
    __builtin_prefetch(far + i);
  }
};
struct NothingAhead {
  void fetch(int64_t) const {}
};
// Names the line: of one plane, by its number in the order of height.
struct LineName {
  int64_t plane, height;
};

// Memory of a thread, cut into arrays that begin at lines of memory.
class LineScratch {
 public:
  static constexpr int64_t bytes(int64_t count, int64_t element_bytes) {
    return (count * element_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  }
  explicit LineScratch(void* memory) : next_(static_cast<char*>(memory)) {}
  template <typename T>
  T* take(int64_t count) {
    T* const taken = reinterpret_cast<T*>(next_);
    next_ += bytes(count, sizeof(T));
    return taken;
  }

 private:
  char* next_;
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
