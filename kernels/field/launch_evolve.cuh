// Which tiles field steps take; `launch_kernel` as in kernels/hrr/launch_transform.cuh.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/stored.cuh"
#include "kernels/field/evolve.cuh"

namespace torch_hrr::kernels {

// Enough blocks for the largest GPUs, of which each multiprocessor holds two; beyond, a block goes through all planes.
constexpr int64_t kEnoughTiles = 256;
// Where planes are shared among blocks: two more are read of each part.
constexpr int64_t kLeastPlanes = 8;
constexpr int64_t kSectorBytes = 32;

inline int64_t ceil_divide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
// The size of equal parts of `whole`, of which none exceeds `most`.
inline int64_t equal_part(int64_t whole, int64_t most) {
  return ceil_divide(whole, ceil_divide(whole, most));
}

// A tile of so many quads of width and height at most, about square, so that its border is short.
inline EvolveTile tile_of_places(const FieldShape& p, int64_t channels, int64_t places) {
  const int64_t all_quads = ceil_divide(p.width, kQuad);
  int64_t quads = 1;
  while (kQuad * quads * quads < places) {
    quads *= 2;
  }
  const int64_t rows = equal_part(p.height, std::max<int64_t>(1, places / std::min(quads, all_quads)));
  quads = equal_part(all_quads, places / rows);
  EvolveTile tile;
  tile.channels = static_cast<int32_t>(channels);
  tile.quads = static_cast<int32_t>(quads);
  tile.rows = static_cast<int32_t>(rows);
  const int64_t threads = std::max<int64_t>(tile.computing(), ceil_divide(tile.border(true), kBorderPlaces));
  tile.threads = static_cast<int32_t>(ceil_divide(threads, 32) * 32);
  tile.planes = p.depth;
  return tile;
}

// Channels fill sectors of memory.
inline EvolveTile evolve_tile(const FieldShape& p, int64_t element_bytes, int64_t most_threads = kMostEvolveThreads) {
  const int64_t groups = std::max<int64_t>(1, p.channels / (kSectorBytes / element_bytes));
  const int64_t channels = ceil_divide(p.channels, groups);
  int64_t places = std::max<int64_t>(1, most_threads / channels);
  EvolveTile tile = tile_of_places(p, channels, places);
  while (tile.threads > most_threads && places > 1) {
    places /= 2;
    tile = tile_of_places(p, channels, places);
  }
  const int64_t tiles = TileCounts(p, tile).of_item() * p.batch;
  if (tiles < kEnoughTiles) {
    tile.planes = equal_part(p.depth, std::max(kLeastPlanes, ceil_divide(p.depth, ceil_divide(kEnoughTiles, tiles))));
  }
  return tile;
}

// From so many steps on, channels of at most so many places stay in a block's shared memory, for two transpositions of
// the field. Counted for ten steps of an H100, in us: 15 in place of 43 for 16^3 places, but 34 in place of 25 for 24^3
// and 64 in place of 43 for 32^3, where a channel a block leaves most multiprocessors without work.
constexpr int64_t kLeastResidentSteps = 4;
constexpr int64_t kMostResidentPlaces = 12 << 10;
// Of the workspace, so that it stays in the L2 cache of all GPUs of 40 MiB and more, beside what is read and written.
constexpr int64_t kResidentBytes = int64_t{16} << 20;

struct ResidentPlan {
  EvolveTile tile;
  int slabs = 0;  // 0: a channel does not fit
};
// p: of one channel.
template <typename S>
ResidentPlan resident_plan(const FieldShape& p, std::size_t most_shared, int64_t most_threads = kMostEvolveThreads) {
  ResidentPlan plan;
  const int64_t quads = ceil_divide(p.width, kQuad);
  if (p.volume() > kMostResidentPlaces || quads * p.height > most_threads) {
    return plan;
  }
  plan.tile = tile_of_places(p, 1, quads * p.height);
  for (int slabs = 1; slabs * plan.tile.threads <= most_threads && slabs <= p.depth; ++slabs) {
    if (p.depth % slabs == 0 && resident_shared_bytes<S>(p, plan.tile, slabs) <= most_shared) {
      plan.slabs = slabs;
    }
  }
  return plan;
}

// body(kernel(mean, noise)) with constants for both.
template <typename Body>
void with_evolve_kind(const EvolveParams& params, const Body& body) {
  const auto with_noise = [&](auto mean) {
    params.noise != 0 ? body(mean, std::true_type{}) : body(mean, std::false_type{});
  };
  params.stencil == Stencil::kLaplace ? with_noise(std::false_type{}) : with_noise(std::true_type{});
}

// How fields are launched. Tests choose the numbers, of which the results are independent.
struct EvolveOptions {
  std::size_t most_shared = kDefaultSharedBytes;
  int64_t most_blocks = kMaxGridX;
  int64_t most_threads = kMostEvolveThreads;
  int64_t resident_bytes = kResidentBytes;
};

template <typename S, typename LaunchKernel>
class EvolveLauncher {
 public:
  EvolveLauncher(const EvolveNumbers& numbers, const LaunchKernel& launch_kernel, const EvolveOptions& options)
      : numbers_(numbers), launch_kernel_(launch_kernel), options_(options) {}

  // The steps go to and fro between out and the workspace, and end in out.
  void step_by_step(EvolveParams p, int64_t steps, void* workspace) const {
    const EvolveTile tile = evolve_tile(p.stepping(), sizeof(S), options_.most_threads);
    const int64_t tiles = TileCounts(p.stepping(), tile).of_item() * p.batch;
    void* const out = p.out;
    for (int64_t step = 0; step < steps; ++step) {
      p.out = (steps - step) % 2 == 1 ? out : workspace;
      with_evolve_kind(p, [&](auto mean, auto noise) {
        launch_kernel_(kName, evolve_kernel<S, decltype(mean)::value, decltype(noise)::value>, grid_for(tiles),
                       dim3(static_cast<unsigned>(tile.threads)), evolve_shared_bytes<compute_t<S>>(tile), p, numbers_,
                       tile);
      });
      p.field = p.out;
      p.first += static_cast<uint64_t>(p.noise_blocks());
    }
  }

  // Some channels at a time: they become items of one channel in the workspace, which go through all steps and back.
  void resident(const EvolveParams& p, const ResidentPlan& plan, int64_t steps, void* workspace) const {
    if (p.channels == 1) {
      return run_channels(p, 0, p.batch, plan, steps, p.field, p.out);
    }
    const int64_t volume = p.volume();
    const int64_t most = std::max<int64_t>(1, options_.resident_bytes / (volume * static_cast<int64_t>(sizeof(S))));
    const int64_t items = std::max<int64_t>(1, most / p.channels);
    const int64_t channels = std::min(p.channels, std::max<int64_t>(1, most / kTransposeTile) * kTransposeTile);
    for (int64_t item = 0; item < p.batch; item += items) {
      for (int64_t channel = 0; channel < p.channels; channel += channels) {
        TransposeParams there;
        there.batch = std::min(items, p.batch - item);
        there.rows = volume;
        there.columns = std::min(channels, p.channels - channel);
        there.in_stride = p.channels;
        there.out_stride = volume;
        there.in_batch = volume * p.channels;
        there.out_batch = volume * there.columns;
        const int64_t first = item * there.in_batch + channel;
        there.in = static_cast<const S*>(p.field) + first;
        there.out = workspace;
        transpose(there);
        run_channels(p, item * p.channels + channel, there.batch * there.columns, plan, steps, workspace, workspace);
        TransposeParams back = there;
        std::swap(back.rows, back.columns);
        std::swap(back.in_stride, back.out_stride);
        std::swap(back.in_batch, back.out_batch);
        back.in = workspace;
        back.out = static_cast<S*>(p.out) + first;
        transpose(back);
      }
    }
  }

 private:
  static constexpr const char* kName = "field_evolve";

  void run_channels(EvolveParams p, int64_t first, int64_t count, const ResidentPlan& plan, int64_t steps,
                    const void* field, void* out) const {
    const ResidentSteps all{steps, first, p.noise_blocks(), plan.slabs};
    p.field = field;
    p.out = out;
    p.batch = count;
    p.channels = 1;
    with_evolve_kind(p, [&](auto mean, auto noise) {
      launch_kernel_(kName, resident_evolve_kernel<S, decltype(mean)::value, decltype(noise)::value>,
                     grid_for(count, 1, options_.most_blocks),
                     dim3(static_cast<unsigned>(plan.slabs * plan.tile.threads)),
                     resident_shared_bytes<S>(p, plan.tile, plan.slabs), p, numbers_, plan.tile, all);
    });
  }

  void transpose(const TransposeParams& p) const {
    using Bits = std::conditional_t<sizeof(S) == 2, uint16_t, std::conditional_t<sizeof(S) == 4, uint32_t, uint64_t>>;
    const int64_t tiles = ceil_divide(p.rows, kTransposeTile) * ceil_divide(p.columns, kTransposeTile) * p.batch;
    launch_kernel_(kName, transpose_kernel<Bits>, grid_for(tiles, 1, options_.most_blocks),
                   dim3(kTransposeTile, kTransposeRows), kTransposeSharedBytes<Bits>, p);
  }

  const EvolveNumbers& numbers_;
  const LaunchKernel& launch_kernel_;
  const EvolveOptions& options_;
};

template <typename LaunchKernel>
void launch_evolve_with(Storage storage, const EvolveParams& params, const EvolveNumbers& numbers, int64_t steps,
                        void* workspace, const LaunchKernel& launch_kernel, const EvolveOptions& options) {
  if (params.stepping().elements() == 0) {
    return;
  }
  with_storage(storage, [&](auto zero) {
    using S = decltype(zero);
    const EvolveLauncher<S, LaunchKernel> launcher(numbers, launch_kernel, options);
    if (steps >= kLeastResidentSteps) {
      FieldShape channel = params;
      channel.channels = 1;
      const ResidentPlan plan = resident_plan<S>(channel, options.most_shared, options.most_threads);
      if (plan.slabs > 0) {
        return launcher.resident(params, plan, steps, workspace);
      }
    }
    launcher.step_by_step(params, steps, workspace);
  });
}

}  // namespace torch_hrr::kernels
