// Kernels of field steps: a thread keeps columns of depth in registers and goes through the planes.
//
// A tile is a part of every plane. Of each plane, threads load their own places and those of the tile's border once,
// two planes ahead, and show them to their neighbours in shared memory. For many steps, a block keeps a channel in
// shared memory.
#pragma once

#include "kernels/cuda/element_run.cuh"
#include "kernels/field/evolve.h"
#include "kernels/field/tile.cuh"
#include "kernels/math.h"
#include "kernels/numeric.h"
#include "kernels/philox.h"

namespace torch_hrr::kernels {

template <typename T>
struct StepNumbers {
  T keep, rate, noise;
  PhiloxKey key;
  uint64_t first;
};
KERNEL_DEVICE double load_number(const void* number, Storage storage) {
  switch (storage) {
    case Storage::kDouble:
      return *static_cast<const double*>(number);
    case Storage::kHalf:
      return static_cast<float>(*static_cast<const Half*>(number));
    case Storage::kBFloat16:
      return static_cast<float>(*static_cast<const BFloat16*>(number));
    default:
      return *static_cast<const float*>(number);
  }
}
template <typename T, bool kNoise>
KERNEL_DEVICE StepNumbers<T> load_numbers(const EvolveParams& p, const EvolveNumbers& held) {
  StepNumbers<T> numbers{};
  numbers.keep = static_cast<T>(held.decay != nullptr ? 1 - load_number(held.decay, held.decay_storage) : p.keep);
  numbers.rate =
      static_cast<T>(held.diffusion != nullptr ? load_number(held.diffusion, held.diffusion_storage) : p.rate);
  if constexpr (kNoise) {
    numbers.noise = static_cast<T>(p.noise);
    numbers.key = philox_key(held.key != nullptr ? held.key[0] : p.seed);
    numbers.first = p.first + (held.key != nullptr ? held.key[1] : 0);
  }
  return numbers;
}

// Four normal numbers from number `element` on. They belong to two blocks unless 4 divides it.
struct NormalQuad {
  float number[kQuad];
};
KERNEL_DEVICE NormalQuad normals_of_block(uint64_t block, PhiloxKey key) {
  const PhiloxBlock words = philox4x32(philox_counter(block, 0), key);
  const auto first = normal_pair<float>(words.word[0], words.word[1]);
  const auto second = normal_pair<float>(words.word[2], words.word[3]);
  return {{first.first, first.second, second.first, second.second}};
}
KERNEL_DEVICE NormalQuad normals_from(uint64_t first_block, uint64_t element, PhiloxKey key) {
  NormalQuad low = normals_of_block(first_block + element / kQuad, key);
  const auto shift = static_cast<int>(element % kQuad);
  if (shift == 0) {
    return low;
  }
  const NormalQuad high = normals_of_block(first_block + element / kQuad + 1, key);
  // Moved by one place and by two: indices that the compiler does not know would put the numbers into local memory.
  float numbers[2 * kQuad];
#pragma unroll
  for (int i = 0; i < kQuad; ++i) {
    numbers[i] = low.number[i];
    numbers[kQuad + i] = high.number[i];
  }
#pragma unroll
  for (int by = 1; by < kQuad; by *= 2) {
#pragma unroll
    for (int i = 0; i + by < 2 * kQuad; ++i) {
      numbers[i] = (shift & by) != 0 ? numbers[i + by] : numbers[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kQuad; ++i) {
    low.number[i] = numbers[i];
  }
  return low;
}

// A thread's columns of a tile, which take steps.
template <typename S, bool kMean, bool kNoise, typename Layout>
class TileColumns : private TilePlaces<S, Layout> {
  using Places = TilePlaces<S, Layout>;
  using Places::face_;
  using Places::kColumns;
  using Places::kNoPlane;
  using Places::layout_;
  using Places::left_;
  using Places::offset_;
  using Places::own_;
  using Places::right_;
  using Places::row_;
  using Places::shown_size_;
  using Places::stored_;
  using Offset = typename Places::Offset;

 public:
  using T = compute_t<S>;

  // `rank` among the threads of the tile; `shown` has room for two planes.
  KERNEL_DEVICE TileColumns(const EvolveParams& p, const StepNumbers<T>& numbers, const EvolveTile& tile,
                            const Layout& layout, const TilePlace& place, int rank, T* shown)
      : Places(p, p.boundary, tile, layout, place, rank, kMean), p_(p), numbers_(numbers), shown_(shown) {
    const int channel = rank % tile.channels;
    const int width = kQuad * (rank / tile.channels % tile.quads);
    const int row = rank / tile.channels / tile.quads;
    element_ = static_cast<uint64_t>((place.item * p.channels + place.channel + channel) * p.whole_volume() +
                                     p.places_before(0) + (place.height + row) * p.width + place.width + width);
  }

  // One step of the planes [begin, end) of one item; `parity` is that of all planes that the tile's threads have shown.
  // In place, where all columns of the item go through their planes together.
  template <bool kInPlace>
  KERNEL_DEVICE void run(const S* field, S* out, int64_t begin, int64_t end, int& parity) const {
    T before[kColumns];
    T now[kColumns];
    T after[kColumns];
    S last[kColumns];
    this->load(field, begin - 1, before);
    this->load(field, begin, now);
    this->load(field, begin + 1, after);
    if constexpr (kInPlace) {
      // Others may have stored it before it is needed.
      this->load(field, end, last);
    }
#pragma unroll 1
    for (auto d = static_cast<Offset>(begin); d < static_cast<Offset>(end); ++d) {
      S coming[kColumns];
      this->load(field, d + (kInPlace ? 2 : 1) < end ? d + 2 : kNoPlane, coming);
      if constexpr (kInPlace) {
        if (d + 2 == end) {
          copy(last, coming);
        }
      }
      T* const shown = shown_ + (parity != 0 ? shown_size_ : 0);
      parity ^= 1;
      T own[kColumns];
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        own[i] = kMean ? sum_of(before[i], now[i], after[i]) : now[i];
      }
      this->show(own, shown);
      block_sync();
      if (stored_ != 0) {
        T next[kQuad];
        kMean ? mean(now, own, shown, next) : laplace(before, now, after, shown, next);
        finish(next, out + d * layout_.plane, d);
      }
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        before[i] = now[i];
        now[i] = after[i];
        after[i] = static_cast<T>(coming[i]);
      }
    }
  }

 private:
  static KERNEL_DEVICE void copy(const S (&from)[kColumns], S (&to)[kColumns]) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      to[i] = from[i];
    }
  }
  KERNEL_DEVICE T sum_of(T before, T center, T after) const {
    return p_.stencil == Stencil::kBinomial ? axis_sum<true>(before, center, after)
                                            : axis_sum<false>(before, center, after);
  }

  KERNEL_DEVICE void laplace(const T (&before)[kColumns], const T (&now)[kColumns], const T (&after)[kColumns],
                             const T* shown, T (&next)[kQuad]) const {
    const T left = shown[left_];
    const T right = shown[right_];
#pragma unroll
    for (int k = 0; k < kQuad; ++k) {
      const T* const place = shown + own_ + k * face_;
      next[k] = laplace_step(now[k], (k == 0 ? left : now[k - 1]) + (k == kQuad - 1 ? right : now[k + 1]),
                             place[-row_] + place[row_], before[k] + after[k], numbers_.keep, numbers_.rate);
    }
  }

  // sums: of depth
  KERNEL_DEVICE void mean(const T (&now)[kColumns], const T (&sums)[kColumns], const T* shown, T (&next)[kQuad]) const {
    const auto planar = [&](int k) {
      const bool own = k >= 0 && k < kQuad;
      const T* const place = shown + (own ? own_ + k * face_ : k < 0 ? left_ : right_);
      return sum_of(place[-row_], own ? sums[own ? k : 0] : *place, place[row_]);
    };
    T before = planar(-1);
    T center = planar(0);
#pragma unroll
    for (int k = 0; k < kQuad; ++k) {
      const T after = planar(k + 1);
      const T sum = sum_of(before, center, after);
      next[k] = p_.stencil == Stencil::kBinomial ? mean_step<true>(now[k], sum, numbers_.keep, numbers_.rate)
                                                 : mean_step<false>(now[k], sum, numbers_.keep, numbers_.rate);
      before = center;
      center = after;
    }
  }

  // Adds noise and stores.
  KERNEL_DEVICE void finish(T (&next)[kQuad], S* out, int64_t depth) const {
    if constexpr (kNoise) {
      const NormalQuad normals =
          normals_from(numbers_.first, element_ + static_cast<uint64_t>(depth * p_.height * p_.width), numbers_.key);
#pragma unroll
      for (int k = 0; k < kQuad; ++k) {
        next[k] = next[k] + numbers_.noise * static_cast<T>(normals.number[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < kQuad; ++k) {
      if (k < stored_) {
        out[offset_[k]] = static_cast<S>(next[k]);
      }
    }
  }

  const EvolveParams& p_;
  const StepNumbers<T>& numbers_;
  T* shown_;
  uint64_t element_;
};

// Blocks of a multiprocessor, for which the registers must suffice.
template <typename S, bool kNoise>
constexpr int kEvolveBlocks = sizeof(S) == 8 || kNoise ? 1 : 2;

// One step, a block for every tile: a loop over tiles would take the registers of the last places.
template <typename S, bool kMean, bool kNoise>
__global__ void __launch_bounds__(kMostEvolveThreads, kEvolveBlocks<S, kNoise>)
    evolve_kernel(EvolveParams p, EvolveNumbers held, EvolveTile tile) {
  using T = compute_t<S>;
  const auto numbers = load_numbers<T, kNoise>(p, held);
  const FieldShape stepping = p.stepping();
  const TilePlace place = tile_place(stepping, tile);
  const TileColumns<S, kMean, kNoise, FieldLayout> columns(p, numbers, tile, FieldLayout(p), place, thread_rank(),
                                                           dynamic_shared<T>());
  const int64_t item = place.item * p.volume() * p.channels;
  const int64_t end = place.depth + tile.planes < stepping.depth ? place.depth + tile.planes : stepping.depth;
  int parity = 0;
  columns.template run<false>(static_cast<const S*>(p.field) + item, static_cast<S*>(p.out) + item,
                              p.part.margin + place.depth, p.part.margin + end, parity);
}

// Many steps of a field of one channel an item, which lies in a block's shared memory meanwhile. The threads of each of
// `slabs` groups go through so many planes; a block stores nothing before it has loaded the whole item, so that out may
// be the field. Items are numbered from first_item on for noise.
struct ResidentSteps {
  int64_t steps = 1;
  int64_t first_item = 0;
  int64_t noise_blocks = 0;
  int32_t slabs = 1;
};

template <typename S>
KERNEL_HOST_DEVICE std::size_t resident_shared_bytes(const FieldShape& p, const EvolveTile& tile, int slabs) {
  return static_cast<std::size_t>(slabs) * evolve_shared_bytes<compute_t<S>>(tile) +
         static_cast<std::size_t>(p.depth) * static_cast<std::size_t>(QuadLayout(p, tile).plane) * sizeof(S);
}

// body(quad in the field, its first element in shared memory, places that exist) for this thread's share of an item.
template <typename Body>
KERNEL_DEVICE void for_each_quad(const FieldShape& p, const QuadLayout& layout, const Body& body) {
  const int count = static_cast<int>(p.depth) * layout.face;
  for (int i = thread_rank(); i < count; i += block_threads()) {
    const int d = i / layout.face;
    const int place = i - d * layout.face;
    const int h = place / layout.quads;
    const int w = kQuad * (place - h * layout.quads);
    const int left = static_cast<int>(p.width) - w;
    body((d * static_cast<int>(p.height) + h) * static_cast<int>(p.width) + w, d * layout.plane + place,
         left < kQuad ? left : kQuad);
  }
}

template <typename S, bool kMean, bool kNoise>
__global__ void __launch_bounds__(kMostEvolveThreads)
    resident_evolve_kernel(EvolveParams p, EvolveNumbers held, EvolveTile tile, ResidentSteps resident) {
  using T = compute_t<S>;
  const auto first_numbers = load_numbers<T, kNoise>(p, held);
  const QuadLayout layout(p, tile);
  const int slab = thread_rank() / tile.threads;
  const int64_t planes = p.depth / resident.slabs;
  T* const shown = dynamic_shared<T>();
  S* const volume = reinterpret_cast<S*>(shown + 2 * resident.slabs * tile.shown());
  for (int64_t item = blockIdx.x; item < p.batch; item += gridDim.x) {
    const S* const source = static_cast<const S*>(p.field) + item * p.volume();
    const bool loads_runs = is_run_aligned<S, kQuad>(source) && p.width % kQuad == 0;
    for_each_quad(p, layout, [&](int from, int to, int size) {
      const auto run = load_run<S, kQuad>(source + from, size, loads_runs);
#pragma unroll
      for (int k = 0; k < kQuad; ++k) {
        volume[to + k * layout.face] = run.elements[k];
      }
    });
    block_sync();
    auto numbers = first_numbers;
    const TileColumns<S, kMean, kNoise, QuadLayout> columns(
        p, numbers, tile, layout, {resident.first_item + item, 0, 0, 0, 0}, thread_rank() % tile.threads,
        shown + 2 * slab * tile.shown());
    int parity = 0;
    for (int64_t step = 0; step < resident.steps; ++step) {
      columns.template run<true>(volume, volume, slab * planes, (slab + 1) * planes, parity);
      numbers.first += static_cast<uint64_t>(resident.noise_blocks);
      block_sync();
    }
    S* const target = static_cast<S*>(p.out) + item * p.volume();
    const bool stores_runs = is_run_aligned<S, kQuad>(target) && p.width % kQuad == 0;
    for_each_quad(p, layout, [&](int to, int from, int size) {
      ElementRun<S, kQuad> run;
#pragma unroll
      for (int k = 0; k < kQuad; ++k) {
        run.elements[k] = volume[from + k * layout.face];
      }
      store_run(target + to, run, size, stores_runs);
    });
    block_sync();
  }
}

// out[b, c, r] = in[b, r, c] of `batch` matrices, whose rows lie in_stride and out_stride apart.
struct TransposeParams {
  const void* in = nullptr;
  void* out = nullptr;
  int64_t batch = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t in_stride = 0;
  int64_t out_stride = 0;
  int64_t in_batch = 0;
  int64_t out_batch = 0;
};
constexpr int kTransposeTile = 32;
constexpr int kTransposeRows = 8;
// Rows of an odd number of elements: those of a column are in different banks.
template <typename S>
constexpr std::size_t kTransposeSharedBytes = kTransposeTile*(kTransposeTile + 1) * sizeof(S);

// S: as wide as the elements. A block of kTransposeTile x kTransposeRows threads takes tiles in turn.
template <typename S>
__global__ void transpose_kernel(TransposeParams p) {
  S* const shared = dynamic_shared<S>();
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const int64_t across = (p.columns + kTransposeTile - 1) / kTransposeTile;
  const int64_t down = (p.rows + kTransposeTile - 1) / kTransposeTile;
  for (int64_t index = blockIdx.x; index < across * down * p.batch; index += gridDim.x) {
    int64_t rest = index;
    const int64_t column = take_digit(rest, across) * kTransposeTile;
    const int64_t row = take_digit(rest, down) * kTransposeTile;
    const S* const in = static_cast<const S*>(p.in) + rest * p.in_batch;
    S* const out = static_cast<S*>(p.out) + rest * p.out_batch;
    for (int i = y; i < kTransposeTile; i += kTransposeRows) {
      if (row + i < p.rows && column + x < p.columns) {
        shared[i * (kTransposeTile + 1) + x] = in[(row + i) * p.in_stride + column + x];
      }
    }
    block_sync();
    for (int i = y; i < kTransposeTile; i += kTransposeRows) {
      if (column + i < p.columns && row + x < p.rows) {
        out[(column + i) * p.out_stride + row + x] = shared[x * (kTransposeTile + 1) + i];
      }
    }
    block_sync();
  }
}

}  // namespace torch_hrr::kernels
