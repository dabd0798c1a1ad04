// Rows turned by their positions on the CPU; compiled once per instruction set.
//
// The sines and cosines of a block of places are made once, in the first-level cache, and turn all rows at these
// places.
#include "kernels/encoding/rotation.h"

#include <type_traits>

#include "kernels/encoding/sinusoid_row.h"
#include "kernels/registry.h"
#include "kernels/streaming.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// Sinusoids kept together fit into the second-level cache; more places would not make reads longer.
constexpr int64_t kBlockElements = 8192;
constexpr int64_t kMostPlaces = 256;

struct SwapPairs {
  static constexpr int of(int j, int) {
    return j ^ 1;
  }
};

// Places whose sinusoids are kept together. One where its repeats lie closer to each other than the next place does.
int64_t places_together(const RotationParams& params) {
  const auto step = [](const RowMap& map) {
    const int64_t stride = map.strides[0][map.ndim - 1];
    return stride < 0 ? -stride : stride;
  };
  if (params.repeats.ndim > 0 && params.places.ndim > 0 && step(params.repeats) < step(params.places)) {
    return 1;
  }
  const int64_t fitting = kBlockElements / (params.turned < 1 ? 1 : params.turned);
  return fitting < 1 ? 1 : fitting < kMostPlaces ? fitting : kMostPlaces;
}

template <typename S>
struct RotationScratch {
  using T = compute_t<S>;

  RowPlace* places;
  T* waves;      // of each place, numbers_of()
  T* row;        // a row in the compute type
  T* sinusoids;  // sines and cosines as they are made

  static int64_t numbers_of(const RotationParams& params) {
    return params.interleaved ? 2 * params.turned : params.turned;
  }
  RotationScratch(const RotationParams& params, int64_t count, void* memory) : places(static_cast<RowPlace*>(memory)) {
    waves = reinterpret_cast<T*>(places + count);
    row = waves + count * numbers_of(params);
    sinusoids = row + params.dim;
  }
  static int64_t bytes(const RotationParams& params) {
    const int64_t count = places_together(params);
    return count * static_cast<int64_t>(sizeof(RowPlace)) +
           (count * numbers_of(params) + params.dim + params.turned) * static_cast<int64_t>(sizeof(T));
  }
};

// The numbers that multiply a row at this place: sines, then cosines; if interleaved (sine, -sine) of every pair, then
// (cosine, cosine).
template <typename T>
void make_waves(const RotationRowParams& params, int64_t position, T* sinusoids, T* waves) {
  constexpr int W = kLanes<T>;
  using V = Simd<T, W>;
  SinusoidParams row;
  row.positions = params.positions;
  row.dim = params.turned;
  row.interleaved = false;
  make_row(row, params.turns, position, sinusoids);
  const int64_t count = params.frequencies();
  T* const sines = waves;
  T* const cosines = waves + (params.interleaved ? params.turned : count);
  int64_t i = 0;
  const auto factor = static_cast<T>(params.factor);
  for (; i + W <= count; i += W) {
    V sine = V::load(sinusoids + i) * V::broadcast(factor);
    const V cosine = V::load(sinusoids + count + i) * V::broadcast(factor);
    sine = params.inverse ? -sine : sine;
    if (params.interleaved) {
      shuffle<InterleaveLow>(sine, -sine).store(sines + 2 * i);
      shuffle<InterleaveHigh>(sine, -sine).store(sines + 2 * i + W);
      shuffle<InterleaveLow>(cosine, cosine).store(cosines + 2 * i);
      shuffle<InterleaveHigh>(cosine, cosine).store(cosines + 2 * i + W);
    } else {
      sine.store(sines + i);
      cosine.store(cosines + i);
    }
  }
  for (; i < count; ++i) {
    const SineCosine<T> by = turning<T>(params, {sinusoids[i], sinusoids[count + i]});
    if (params.interleaved) {
      sines[2 * i] = by.sine;
      sines[2 * i + 1] = -by.sine;
      cosines[2 * i] = cosines[2 * i + 1] = by.cosine;
    } else {
      sines[i] = by.sine;
      cosines[i] = by.cosine;
    }
  }
}

// Elements of a storage type as lanes of the compute type.
template <typename S>
constexpr int kStoredLanes = sizeof(S) == 2 ? kConvertBlock : kLanes<compute_t<S>>;
template <typename S>
using StoredLanes = Simd<compute_t<S>, kStoredLanes<S>>;

// Elements as they are and with the two of each pair exchanged.
template <typename S>
struct ExchangedPairs {
  StoredLanes<S> as_stored, exchanged;
};
template <typename S>
KERNEL_HOST_DEVICE ExchangedPairs<S> load_pairs(const S* source) {
  if constexpr (sizeof(S) == 2) {
    using Pairs = Simd<uint32_t, kConvertBlock / 2>;
    const Pairs pairs = Pairs::load(reinterpret_cast<const uint32_t*>(source));
    return {widen(S{}, (Bits16)pairs.lanes), widen(S{}, (Bits16)(pairs << 16 | pairs >> 16).lanes)};
  } else {
    const auto pairs = StoredLanes<S>::load(source);
    return {pairs, shuffle<SwapPairs>(pairs, pairs)};
  }
}
template <typename S>
KERNEL_HOST_DEVICE StoredLanes<S> load_lanes(const S* source) {
  if constexpr (sizeof(S) == 2) {
    return widen(S{}, Simd<uint16_t, kConvertBlock>::load(reinterpret_cast<const uint16_t*>(source)).lanes);
  } else {
    return StoredLanes<S>::load(source);
  }
}
template <typename S>
KERNEL_HOST_DEVICE void store_lanes(StoredLanes<S> value, S* target) {
  if constexpr (sizeof(S) == 2) {
    Simd<uint16_t, kConvertBlock>{narrow(S{}, value)}.store(reinterpret_cast<uint16_t*>(target));
  } else {
    value.store(target);
  }
}

// out may be x. Elements that are stored in another type than they are computed in come in whole vectors.
template <typename S>
KERNEL_HOST_DEVICE void turn_halves(const S* x, const compute_t<S>* waves, int64_t count, S* out) {
  constexpr int W = kStoredLanes<S>;
  using V = StoredLanes<S>;
  int64_t i = 0;
  for (; i + W <= count; i += W) {
    const SineCosine<V> turned = turned_pair<V>({load_lanes(x + i), load_lanes(x + count + i)},
                                                {V::load(waves + i), V::load(waves + count + i)});
    store_lanes(turned.sine, out + i);
    store_lanes(turned.cosine, out + count + i);
  }
  if constexpr (std::is_same_v<S, compute_t<S>>) {
    for (; i < count; ++i) {
      const SineCosine<S> turned = turned_pair<S>({x[i], x[count + i]}, {waves[i], waves[count + i]});
      out[i] = turned.sine;
      out[count + i] = turned.cosine;
    }
  }
}
template <typename S>
KERNEL_HOST_DEVICE void turn_neighbours(const S* x, const compute_t<S>* waves, int64_t turned, S* out) {
  constexpr int W = kStoredLanes<S>;
  using V = StoredLanes<S>;
  const compute_t<S>* const cosines = waves + turned;
  int64_t i = 0;
  for (; i + W <= turned; i += W) {
    const ExchangedPairs<S> pairs = load_pairs(x + i);
    store_lanes(pairs.as_stored * V::load(cosines + i) + pairs.exchanged * V::load(waves + i), out + i);
  }
  if constexpr (std::is_same_v<S, compute_t<S>>) {
    for (; i < turned; i += 2) {
      const S first = x[i];
      const S second = x[i + 1];
      out[i] = first * cosines[i] + second * waves[i];
      out[i + 1] = second * cosines[i + 1] + first * waves[i + 1];
    }
  }
}
template <typename S>
KERNEL_HOST_DEVICE void turn_elements(const RotationParams& params, const S* x, const compute_t<S>* waves, S* out) {
  params.interleaved ? turn_neighbours(x, waves, params.turned, out) : turn_halves(x, waves, params.frequencies(), out);
  if (x != out) {
    __builtin_memcpy(static_cast<void*>(out + params.turned), x + params.turned,
                     static_cast<size_t>(params.dim - params.turned) * sizeof(S));
  }
}

// Through `row` where whole lines are streamed or elements are no whole vectors.
template <typename S>
KERNEL_HOST_DEVICE void turn_row(const RotationParams& params, const S* x, const compute_t<S>* waves, bool streams,
                                 compute_t<S>* row, S* out) {
  const bool whole = (params.interleaved ? params.turned : params.frequencies()) % kStoredLanes<S> == 0;
  if (!streams && (whole || std::is_same_v<S, compute_t<S>>)) {
    return turn_elements(params, x, waves, out);
  }
  if constexpr (std::is_same_v<S, compute_t<S>>) {
    turn_elements(params, x, waves, row);
  } else {
    widen_row(x, params.dim, row);
    turn_elements(params, row, waves, row);
  }
  // In place what does not turn keeps its bits, as a NaN would not.
  write_elements(row, x == out ? params.turned : params.dim, streams, out);
}

template <typename S>
void rotation_units(const RotationRowParams& params, int64_t begin, int64_t end, void* memory) {
  const int64_t places = places_together(params);
  const RotationScratch<S> scratch(params, places, memory);
  const auto* const x = static_cast<const S*>(params.x);
  auto* const out = static_cast<S*>(params.out);
  // Rows are read as well as written.
  const int64_t elements = 2 * params.place_count * params.repeat_count * params.dim;
  const bool streams = x != out && elements >= kStreamBytes / static_cast<int64_t>(sizeof(S));
  const int64_t numbers = RotationScratch<S>::numbers_of(params);
  for (int64_t unit = begin; unit < end;) {
    const int64_t part = unit / params.place_count;
    const int64_t first = unit - part * params.place_count;
    int64_t count = params.place_count - first < places ? params.place_count - first : places;
    count = end - unit < count ? end - unit : count;
    for (int64_t j = 0; j < count; ++j) {
      scratch.places[j] = row_place(params.places, first + j);
      make_waves(params, scratch.places[j].position, scratch.sinusoids, scratch.waves + j * numbers);
    }
    const int64_t last = (part + 1) * params.repeats_together;
    for (int64_t r = part * params.repeats_together; r < (last < params.repeat_count ? last : params.repeat_count);
         ++r) {
      const RowPlace repeat = row_place(params.repeats, r);
      for (int64_t j = 0; j < count; ++j) {
        const RowPlace& place = scratch.places[j];
        turn_row(params, x + repeat.x + place.x, scratch.waves + j * numbers, streams, scratch.row,
                 out + repeat.out + place.out);
      }
    }
    unit += count;
  }
  if (streams) {
    finish_streaming();
  }
}

template <typename S>
constexpr RowKernel<RotationRowParams> kRotation = {
    [](const RotationRowParams& params) { return params.dim * params.repeats_together; },
    [](const RotationRowParams& params) { return RotationScratch<S>::bytes(params); }, rotation_units<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<RotationRowParams>, kRotation)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
