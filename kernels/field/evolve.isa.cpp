// Steps of a field on the CPU; compiled once per instruction set.
#include "kernels/field/evolve.h"

#include "kernels/field/line_step.h"
#include "kernels/math.h"
#include "kernels/philox_lanes.h"
#include "kernels/registry.h"
#include "kernels/streaming.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

template <typename S>
int64_t step_scratch(const EvolveParams& p) {
  return LineScratch::bytes(p.width * p.channels, sizeof(compute_t<S>)) + LineStep<S>::scratch(p);
}

// The lines of a field around one of its own.
template <typename S>
LinesAround<S> lines_around(const EvolveParams& p, const FieldLine& at, const S* zeros) {
  LinesAround<S> lines;
  for (int d = 0; d < 3; ++d) {
    for (int h = 0; h < 3; ++h) {
      const int64_t depth = neighbour(at.depth + d - 1, p.depth, p.boundary);
      const int64_t height = neighbour(at.height + h - 1, p.height, p.boundary);
      lines.at[d][h] = depth < 0 || height < 0
                           ? zeros
                           : static_cast<const S*>(p.field) +
                                 ((at.item * p.depth + depth) * p.height + height) * p.width * p.channels;
    }
  }
  return lines;
}

// `back` is the last line that a result reads first: the line after it is on its way already, and the same line one
// plane on comes from memory. Processors fetch no farther than a page ahead, which a line may exceed; fetching what
// does not exist is harmless.
template <typename S>
Ahead<S> ahead_of(const EvolveParams& p, const S* back, const S* zeros) {
  const int64_t length = p.width * p.channels;
  return back == zeros ? Ahead<S>{back, back} : Ahead<S>{back + length, back + p.height * length};
}

// Blocks of kPhiloxLanes channels, in halves, so that all lanes advance together.
struct BlockLanes {
  PhiloxWords low, high;

  KERNEL_HOST_DEVICE BlockLanes after(uint32_t count) const {
    const auto sum = low.lanes + count;
    return {{sum}, {high.lanes - (decltype(high.lanes))(sum < count)}};
  }
};

// Normal numbers 0 to 3 of every lane's block.
using NoiseLanes = Simd<float, kPhiloxLanes>;
struct NormalLanes {
  NoiseLanes number[4];
};
KERNEL_HOST_DEVICE NormalLanes normals_of(const BlockLanes& blocks, PhiloxKey key) {
  const PhiloxWords zero = PhiloxWords::broadcast(0);
  const PhiloxLanes words = philox4x32({{blocks.low, blocks.high, zero, zero}}, key);
  const auto first = normal_pair<NoiseLanes>(words.word[0], words.word[1]);
  const auto second = normal_pair<NoiseLanes>(words.word[2], words.word[3]);
  return {{first.first, first.second, second.first, second.second}};
}

// A run of elements of kPhiloxLanes channels, which lie `volume` numbers apart.
struct ChannelNumbers {
  BlockLanes blocks;       // of the first element of each channel
  int word[kPhiloxLanes];  // its number within the block
};
KERNEL_HOST_DEVICE ChannelNumbers channel_numbers(uint64_t first_block, uint64_t element, uint64_t volume) {
  ChannelNumbers numbers;
  uint32_t low[kPhiloxLanes];
  uint32_t high[kPhiloxLanes];
  for (int l = 0; l < kPhiloxLanes; ++l) {
    const uint64_t own = element + static_cast<uint64_t>(l) * volume;
    const uint64_t block = first_block + own / 4;
    low[l] = static_cast<uint32_t>(block);
    high[l] = static_cast<uint32_t>(block >> 32);
    numbers.word[l] = static_cast<int>(own % 4);
  }
  numbers.blocks = {PhiloxWords::load(low), PhiloxWords::load(high)};
  return numbers;
}

// target = line + noise * number
template <bool kStream, typename T>
KERNEL_HOST_DEVICE void add_normals(NoiseLanes number, T noise, const T* line, T* target) {
  if constexpr (sizeof(T) == sizeof(float)) {
    store_lanes<kStream>(NoiseLanes::load(line) + NoiseLanes::broadcast(noise) * number, target);
  } else {
    float own[kPhiloxLanes];
    number.store(own);
    for (int l = 0; l < kPhiloxLanes; ++l) {
      target[l] = line[l] + noise * static_cast<T>(own[l]);
    }
  }
}

// All elements of channels that begin blocks at the same places.
KERNEL_HOST_DEVICE bool has_equal_places(const EvolveParams& p) {
  return p.whole_volume() % 4 == 0;
}

// A line and its noise into `out`, which may be the line; a lane is a channel. Channels whose first elements have other
// places in their blocks are done one place after the other, which makes every block again: only volumes that 4 does
// not divide have such. To stream, there must be none, and channels of float must fill lines of memory in `out`.
template <bool kStream, typename T>
void add_noise(const EvolveParams& p, const FieldLine& at, const T* line, T* out) {
  const PhiloxKey key = philox_key(p.seed);
  const auto noise = static_cast<T>(p.noise);
  const auto volume = static_cast<uint64_t>(p.whole_volume());
  const auto place = static_cast<uint64_t>(p.places_before(at.depth) + at.height * p.width);
  const bool same = has_equal_places(p);
  for (int64_t c = 0; c < p.channels; c += kPhiloxLanes) {
    const int count = static_cast<int>(p.channels - c < kPhiloxLanes ? p.channels - c : kPhiloxLanes);
    const ChannelNumbers numbers =
        channel_numbers(p.first, static_cast<uint64_t>(at.item * p.channels + c) * volume + place, volume);
    for (int word = same ? numbers.word[0] : 0; word < (same ? numbers.word[0] + 1 : 4); ++word) {
      BlockLanes blocks = numbers.blocks;
      for (int64_t w = -word; w < p.width; w += 4) {
        const NormalLanes normals = normals_of(blocks, key);
        blocks = blocks.after(1);
        const int begin = w < 0 ? static_cast<int>(-w) : 0;
        const int end = p.width - w < 4 ? static_cast<int>(p.width - w) : 4;
        const auto add = [&](int j) {
          const int64_t i = (w + j) * p.channels + c;
          add_normals<kStream>(normals.number[j], noise, line + i, out + i);
        };
        if (same && count == kPhiloxLanes) {
          if (end - begin == 4) {
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
              add(j);
            }
          } else {
            for (int j = begin; j < end; ++j) {
              add(j);
            }
          }
          continue;
        }
        for (int j = begin; j < end; ++j) {
          const int64_t i = (w + j) * p.channels + c;
          float own[kPhiloxLanes];
          normals.number[j].store(own);
          for (int l = 0; l < count; ++l) {
            if (numbers.word[l] == word) {
              out[i + l] = line[i + l] + noise * static_cast<T>(own[l]);
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
  LineScratch memory(scratch);
  auto* const line = memory.take<compute_t<S>>(length);
  LineStep<S> step(p, memory);
  const LineTiles tiles(p.stepping().depth, p.height, length * static_cast<int64_t>(sizeof(S)));
  // A line goes straight to its place, and noise with it, unless it is to be rounded, or must be shifted to stream.
  constexpr bool kSame = sizeof(S) == sizeof(compute_t<S>);
  const bool fits =
      (reinterpret_cast<uintptr_t>(p.out) | static_cast<uintptr_t>(p.channels) * sizeof(S)) % kLineBytes == 0;
  const bool noise_streams = sizeof(S) == sizeof(float) && has_equal_places(p);
  const bool direct = kSame && (!streams || (fits && (p.noise == 0 || noise_streams)));
  for (int64_t index = begin; index < end; ++index) {
    FieldLine at = tiles.at(index);
    at.depth += p.part.margin;
    const LinesAround<S> lines = lines_around(p, at, step.zeros());
    const LineName name = {at.item * p.depth + at.depth, at.height};
    const Ahead<S> ahead = ahead_of(p, lines.at[2][p.stencil == Stencil::kLaplace ? 1 : 2], step.zeros());
    S* const target = static_cast<S*>(p.out) + ((at.item * p.depth + at.depth) * p.height + at.height) * length;
    if constexpr (kSame) {
      if (direct && p.noise == 0) {
        streams ? step.template run<true>(lines, name, ahead, target)
                : step.template run<false>(lines, name, ahead, target);
        continue;
      }
    }
    step.template run<false>(lines, name, ahead, line);
    if (p.noise != 0) {
      if constexpr (kSame) {
        if (direct) {
          streams ? add_noise<true>(p, at, line, target) : add_noise<false>(p, at, line, target);
          continue;
        }
      }
      add_noise<false>(p, at, line, line);
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
