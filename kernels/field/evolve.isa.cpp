// Steps of a field on the CPU; compiled once per instruction set.
#include "kernels/field/evolve.h"

#include "kernels/convert.h"
#include "kernels/math.h"
#include "kernels/philox_lanes.h"
#include "kernels/registry.h"
#include "kernels/streaming.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// Of the compute type; half types convert sixteen at a time.
template <typename S>
constexpr int kLanes = sizeof(S) == 2 ? kConvertBlock : kVectorBytes / static_cast<int>(sizeof(S));
template <typename S>
using Wide = Simd<compute_t<S>, kLanes<S>>;

constexpr int64_t kAlignment = 64;
constexpr int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <typename S>
KERNEL_HOST_DEVICE Wide<S> load_wide(const S* source) {
  if constexpr (sizeof(S) == 2) {
    Bits16 block;
    __builtin_memcpy(&block, source, sizeof(block));
    return widen(S{}, block);
  } else {
    return Wide<S>::load(source);
  }
}
template <typename S>
KERNEL_HOST_DEVICE compute_t<S> load_one(const S* source) {
  compute_t<S> value;
  widen_row(source, 1, &value);
  return value;
}

// body(i, load) for places from `begin` to `end`, as vectors where there are enough of them, else one by one; the last
// vector overlaps the one before. load(pointer) gives a vector or a number.
template <typename S, typename Body>
KERNEL_HOST_DEVICE void for_elements(int64_t begin, int64_t end, const Body& body) {
  constexpr int W = kLanes<S>;
  const auto vector = [](const S* source) { return load_wide(source); };
  if (end - begin >= W) {
    int64_t i = begin;
    for (; i + W <= end; i += W) {
      body(i, vector);
    }
    if (i < end) {
      body(end - W, vector);
    }
    return;
  }
  const auto one = [](const S* source) { return load_one(source); };
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

// A line is the width * channels elements of one place in depth and height. Lines go in tiles of so many rows of
// height, within which depth is the outer loop: three planes of a tile stay in the caches, so that memory is read once
// but for the rows where tiles meet.
constexpr int64_t kTileBytes = int64_t{1} << 20;

template <typename S>
int64_t tile_rows(const EvolveParams& p) {
  const int64_t line_bytes = p.width * p.channels * static_cast<int64_t>(sizeof(S));
  const int64_t rows = kTileBytes / (3 * (line_bytes > 0 ? line_bytes : 1));
  return rows < 4 ? 4 : rows;
}

struct Line {
  int64_t item, depth, height;
};

KERNEL_HOST_DEVICE Line line_at(const EvolveParams& p, int64_t rows, int64_t index) {
  const int64_t per_item = p.depth * p.height;
  const int64_t item = index / per_item;
  const int64_t rest = index - item * per_item;
  const int64_t tile = rest / (rows * p.depth);
  const int64_t first = tile * rows;
  const int64_t own_rows = p.height - first < rows ? p.height - first : rows;
  const int64_t within = rest - first * p.depth;
  return {item, within / own_rows, first + within % own_rows};
}

template <typename S>
int64_t line_bytes(const EvolveParams& p) {
  return aligned(p.width * p.channels * static_cast<int64_t>(sizeof(compute_t<S>)));
}
template <typename S>
int64_t edge_bytes(const EvolveParams& p) {
  return aligned(p.channels * static_cast<int64_t>(sizeof(compute_t<S>)));
}
template <typename S>
int64_t step_scratch(const EvolveParams& p) {
  return 3 * line_bytes<S>(p) + 2 * edge_bytes<S>(p);
}

template <typename S>
class LineStep {
 public:
  using T = compute_t<S>;

  LineStep(const EvolveParams& params, void* scratch) : p_(params), length_(params.width * params.channels) {
    auto* memory = static_cast<char*>(scratch);
    line_ = reinterpret_cast<T*>(memory);
    memory += line_bytes<S>(p_);
    zeros_ = reinterpret_cast<S*>(memory);
    __builtin_memset(memory, 0, static_cast<size_t>(line_bytes<S>(p_)));
    memory += line_bytes<S>(p_) + edge_bytes<S>(p_);
    sums_ = reinterpret_cast<T*>(memory);
  }

  // A place for one line of the result.
  T* line() const {
    return line_;
  }
  // One line of the result in the compute type. To stream, `out` and the channels must fill whole lines of memory.
  void run(const Line& at, bool streams, T* out) const {
    streams ? run_stencil<true>(at, out) : run_stencil<false>(at, out);
  }

 private:
  template <bool kStream>
  void run_stencil(const Line& at, T* out) const {
    switch (p_.stencil) {
      case Stencil::kLaplace:
        return laplace<kStream>(at, out);
      case Stencil::kBox:
        return mean<false, kStream>(at, out);
      case Stencil::kBinomial:
        return mean<true, kStream>(at, out);
    }
  }
  const S* line_of(int64_t item, int64_t depth, int64_t height) const {
    const int64_t d = neighbour(depth, p_.depth, p_.boundary);
    const int64_t h = neighbour(height, p_.height, p_.boundary);
    return d < 0 || h < 0 ? zeros_
                          : static_cast<const S*>(p_.field) + ((item * p_.depth + d) * p_.height + h) * length_;
  }
  // Place w of a line, where it may lie outside.
  template <typename E>
  const E* place_of(const E* line, const E* zeros, int64_t w) const {
    const int64_t own = neighbour(w, p_.width, p_.boundary);
    return own < 0 ? zeros : line + own * p_.channels;
  }

  // The line that the next result reads first; given the one that this result did. Processors prefetch no farther than
  // a page, which a line may exceed, and prefetching what does not exist is harmless.
  const S* front_of_reading(const S* line) const {
    return line == zeros_ ? line : line + length_;
  }

  template <bool kStream>
  void laplace(const Line& at, T* line) const {
    const S* const center = line_of(at.item, at.depth, at.height);
    const S* const above = line_of(at.item, at.depth, at.height - 1);
    const S* const below = line_of(at.item, at.depth, at.height + 1);
    const S* const front = line_of(at.item, at.depth - 1, at.height);
    const S* const back = line_of(at.item, at.depth + 1, at.height);
    const int64_t c = p_.channels;
    const T keep = static_cast<T>(p_.keep);
    const T rate = static_cast<T>(p_.rate);
    // Elements from `first` on whose left and right neighbours begin at these places.
    const S* const ahead = front_of_reading(back);
    const auto part = [&](int64_t first, int64_t count, const S* left, const S* right) {
      T* const out = line + first;
      for_elements<S>(0, count, [&](int64_t i, const auto& load) {
        const int64_t j = first + i;
        __builtin_prefetch(ahead + j);
        store_lanes<kStream>(
            laplace_step(load(center + j), load(left + i) + load(right + i), load(above + j) + load(below + j),
                         load(front + j) + load(back + j), keep, rate),
            out + i);
      });
    };
    part(0, c, place_of(center, zeros_, -1), place_of(center, zeros_, 1));
    if (p_.width > 2) {
      part(c, length_ - 2 * c, center, center + 2 * c);
    }
    if (p_.width > 1) {
      part(length_ - c, c, center + length_ - 2 * c, place_of(center, zeros_, p_.width));
    }
  }

  template <bool kBinomial, bool kStream>
  void mean(const Line& at, T* out) const {
    const S* lines[3][3];
    for (int h = 0; h < 3; ++h) {
      for (int d = 0; d < 3; ++d) {
        lines[h][d] = line_of(at.item, at.depth + d - 1, at.height + h - 1);
      }
    }
    const int64_t c = p_.channels;
    T* const sums = sums_;
    const S* const ahead = front_of_reading(lines[2][2]);
    for_elements<S>(0, length_, [&](int64_t i, const auto& load) {
      __builtin_prefetch(ahead + i);
      const auto depth_sum = [&](int h) {
        return axis_sum<kBinomial>(load(lines[h][0] + i), load(lines[h][1] + i), load(lines[h][2] + i));
      };
      store_lanes<false>(axis_sum<kBinomial>(depth_sum(0), depth_sum(1), depth_sum(2)), sums + i);
    });
    const auto fill_edge = [&](int64_t w) {
      const T* const source = place_of<T>(sums, nullptr, w);
      T* const target = sums + w * c;
      for (int64_t i = 0; i < c; ++i) {
        target[i] = source == nullptr ? T{0} : source[i];
      }
    };
    fill_edge(-1);
    fill_edge(p_.width);
    const T keep = static_cast<T>(p_.keep);
    const T rate = static_cast<T>(p_.rate);
    const S* const center = lines[1][1];
    for_elements<S>(0, length_, [&](int64_t i, const auto& load) {
      using L = decltype(load(center));
      const auto sum = [&](const T* source) {
        if constexpr (sizeof(L) == sizeof(T)) {
          return *source;
        } else {
          return L::load(source);
        }
      };
      store_lanes<kStream>(
          mean_step<kBinomial>(load(center + i),
                               axis_sum<kBinomial>(sum(sums + i - c), sum(sums + i), sum(sums + i + c)), keep, rate),
          out + i);
    });
  }

  const EvolveParams& p_;
  int64_t length_;
  T* line_;
  T* sums_;
  S* zeros_;
};

// Normal numbers 0 to 3 of kPhiloxLanes blocks; number[j].lanes[l] belongs to block index[l].
using NoiseLanes = Simd<float, kPhiloxLanes>;
struct NormalLanes {
  NoiseLanes number[4];
};
KERNEL_HOST_DEVICE NormalLanes normals_of(const uint64_t* index, PhiloxKey key) {
  uint32_t low[kPhiloxLanes];
  uint32_t high[kPhiloxLanes];
  for (int l = 0; l < kPhiloxLanes; ++l) {
    low[l] = static_cast<uint32_t>(index[l]);
    high[l] = static_cast<uint32_t>(index[l] >> 32);
  }
  const PhiloxWords zero = PhiloxWords::broadcast(0);
  const PhiloxLanes words = philox4x32({{PhiloxWords::load(low), PhiloxWords::load(high), zero, zero}}, key);
  const auto first = normal_pair<NoiseLanes>(words.word[0], words.word[1]);
  const auto second = normal_pair<NoiseLanes>(words.word[2], words.word[3]);
  return {{first.first, first.second, second.first, second.second}};
}

// A run of elements of kPhiloxLanes channels, which lie `volume` numbers apart.
struct ChannelNumbers {
  uint64_t block[kPhiloxLanes];  // of the first element of each channel
  int word[kPhiloxLanes];        // its number within the block
};
KERNEL_HOST_DEVICE ChannelNumbers channel_numbers(uint64_t first_block, uint64_t element, uint64_t volume) {
  ChannelNumbers numbers;
  for (int l = 0; l < kPhiloxLanes; ++l) {
    const uint64_t own = element + static_cast<uint64_t>(l) * volume;
    numbers.block[l] = first_block + own / 4;
    numbers.word[l] = static_cast<int>(own % 4);
  }
  return numbers;
}

// Adds noise to a line; a lane is a channel. Channels whose first elements have other places in their blocks are done
// one place after the other, which makes every block again: only volumes that 4 does not divide have such.
template <typename T>
void add_noise(const EvolveParams& p, const Line& at, T* line) {
  const PhiloxKey key = philox_key(p.seed);
  const auto noise = static_cast<T>(p.noise);
  const auto volume = static_cast<uint64_t>(p.volume());
  const auto place = static_cast<uint64_t>((at.depth * p.height + at.height) * p.width);
  for (int64_t c = 0; c < p.channels; c += kPhiloxLanes) {
    const int count = static_cast<int>(p.channels - c < kPhiloxLanes ? p.channels - c : kPhiloxLanes);
    const ChannelNumbers numbers =
        channel_numbers(p.first, static_cast<uint64_t>(at.item * p.channels + c) * volume + place, volume);
    const bool same = volume % 4 == 0;
    for (int word = same ? numbers.word[0] : 0; word < (same ? numbers.word[0] + 1 : 4); ++word) {
      ChannelNumbers next = numbers;
      for (int64_t w = -word; w < p.width; w += 4) {
        const NormalLanes normals = normals_of(next.block, key);
        for (int l = 0; l < kPhiloxLanes; ++l) {
          ++next.block[l];
        }
        const int begin = w < 0 ? static_cast<int>(-w) : 0;
        const int end = p.width - w < 4 ? static_cast<int>(p.width - w) : 4;
        for (int j = begin; j < end; ++j) {
          T* const target = line + (w + j) * p.channels + c;
          float own[kPhiloxLanes];
          normals.number[j].store(own);
          if (same && count == kPhiloxLanes) {
            for (int l = 0; l < kPhiloxLanes; ++l) {
              target[l] = target[l] + noise * static_cast<T>(own[l]);
            }
          } else {
            for (int l = 0; l < count; ++l) {
              if (numbers.word[l] == word) {
                target[l] = target[l] + noise * static_cast<T>(own[l]);
              }
            }
          }
        }
      }
    }
  }
}

template <typename S>
void evolve_lines(const EvolveParams& p, int64_t begin, int64_t end, void* scratch) {
  const int64_t length = p.width * p.channels;
  const bool streams = p.lines() * length >= kStreamBytes / static_cast<int64_t>(sizeof(S));
  const LineStep<S> step(p, scratch);
  const int64_t rows = tile_rows<S>(p);
  // A line goes straight to its place, unless it is to be rounded or to get noise, or must be shifted to stream.
  constexpr bool kSame = sizeof(S) == sizeof(compute_t<S>);
  const bool fits =
      (reinterpret_cast<uintptr_t>(p.out) | static_cast<uintptr_t>(p.channels) * sizeof(S)) % kLineBytes == 0;
  const bool direct = kSame && p.noise == 0 && (fits || !streams);
  for (int64_t index = begin; index < end; ++index) {
    const Line at = line_at(p, rows, index);
    S* const target = static_cast<S*>(p.out) + ((at.item * p.depth + at.depth) * p.height + at.height) * length;
    if constexpr (kSame) {
      if (direct) {
        step.run(at, streams, target);
        continue;
      }
    }
    compute_t<S>* const line = step.line();
    step.run(at, false, line);
    if (p.noise != 0) {
      add_noise(p, at, line);
    }
    write_elements(line, length, streams, target);
  }
  if (streams) {
    finish_streaming();
  }
}

template <typename S>
constexpr RowKernel<EvolveParams> kEvolve = {[](const EvolveParams& p) { return p.width * p.channels; },
                                             step_scratch<S>, evolve_lines<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<EvolveParams>, kEvolve)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
