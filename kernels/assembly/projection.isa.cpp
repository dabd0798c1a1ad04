// Rounds of projections on the CPU: sums of counts to candidates, and passes over the potentiated edges of a few rows.
#include "kernels/assembly/projection.h"

#include "kernels/assembly/sampled_selection.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// Sums of rows of counts, never negative, as keys.
struct SummedCounts {
  const int32_t* const* sources;
  int64_t source_count;

  KERNEL_HOST_DEVICE KeyVector<uint32_t> whole(int64_t j) const {
    KeyVector<uint32_t> sum = KeyVector<uint32_t>::load(reinterpret_cast<const uint32_t*>(sources[0]) + j);
    for (int64_t s = 1; s < source_count; ++s) {
      sum.lanes += KeyVector<uint32_t>::load(reinterpret_cast<const uint32_t*>(sources[s]) + j).lanes;
    }
    return sum;
  }
  KERNEL_HOST_DEVICE KeyVector<uint32_t> keys_of(KeyVector<uint32_t> sums) const {
    return sums;
  }
  KERNEL_HOST_DEVICE bool has_bound(uint32_t) const {
    return true;
  }
  KERNEL_HOST_DEVICE KeyVector<uint32_t> bound(uint32_t threshold) const {
    return KeyVector<uint32_t>::broadcast(threshold);
  }
  KERNEL_HOST_DEVICE uint32_t passing(int64_t j, KeyVector<uint32_t> bound) const {
    for (int64_t s = 0; s < source_count; ++s) {
      prefetch_ahead(sources[s] + j);
    }
    return at_least_mask(whole(j), bound);
  }
  KERNEL_HOST_DEVICE KeyVector<uint32_t> part(int64_t j, int64_t count) const {
    uint32_t lanes[kKeyLanes<uint32_t>] = {};
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t s = 0; s < source_count; ++s) {
        lanes[i] += static_cast<uint32_t>(sources[s][j + i]);
      }
    }
    return KeyVector<uint32_t>::load(lanes);
  }
};

int64_t sum_winners_scratch(int64_t k) {
  return Selector<uint32_t>::scratch_bytes(k);
}

int64_t sum_winners(const SumWinnersParams& params, void* scratch) {
  const SummedCounts source{params.sources, params.source_count};
  Selector<uint32_t> selector(params.k, scratch);
  if (params.least > 0) {
    selector.clear();
    selector.set_threshold(params.least);
    selector.push(source, 0, params.n, 0);
    selector.finish(/*with_keys=*/true);
  } else {
    select_top(selector, source, params.n, params.k, /*with_keys=*/true);
  }
  const int64_t found = selector.size();
  __builtin_memcpy(params.indices, selector.indices(), static_cast<size_t>(found) * sizeof(int32_t));
  __builtin_memcpy(params.sums, selector.keys(), static_cast<size_t>(found) * sizeof(uint32_t));
  return found;
}

// sums[i] += source[i] scale[i]; a null scale stands for ones.
template <typename T>
inline void add_counts(const int32_t* source, const double* scale, int64_t count, T* sums) {
  if (scale == nullptr) {
    for (int64_t i = 0; i < count; ++i) {
      sums[i] += static_cast<T>(source[i]);
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      sums[i] += static_cast<T>(static_cast<double>(source[i]) * scale[i]);
    }
  }
}

// T is an integer where no column is scaled.
template <typename T>
int64_t candidates_of(const CandidatesParams& params, T least) {
  constexpr int64_t kBlock = 128;
  int64_t found = 0;
  for (int64_t first = 0; first < params.n; first += kBlock) {
    const int64_t count = params.n - first < kBlock ? params.n - first : kBlock;
    T sums[kBlock] = {};
    for (int64_t s = 0; s < params.source_count; ++s) {
      add_counts(params.sources[s] + first, params.scales[s] == nullptr ? nullptr : params.scales[s] + first, count,
                 sums);
    }
    // Most blocks have none.
    int32_t reached = 0;
    for (int64_t i = 0; i < count; ++i) {
      reached += sums[i] >= least ? 1 : 0;
    }
    for (int64_t i = 0; reached != 0 && i < count; ++i) {
      params.indices[found] = static_cast<int32_t>(first + i);
      found += sums[i] >= least ? 1 : 0;
    }
  }
  return found;
}

int64_t candidates(const CandidatesParams& params) {
  bool scaled = false;
  for (int64_t s = 0; s < params.source_count; ++s) {
    scaled = scaled || params.scales[s] != nullptr;
  }
  if (scaled) {
    return candidates_of<double>(params, params.least);
  }
  // Sums of counts are below 2^31.
  constexpr double kMost = 0x7fffffff;
  const double least = params.least < 0 ? 0 : params.least < kMost ? __builtin_ceil(params.least) : kMost;
  return candidates_of<int32_t>(params, static_cast<int32_t>(least));
}

// body(first edge, edges) for every chunk of the rows.
template <typename Body>
inline void for_each_chunk(const EdgeTable& table, const int32_t* rows, int64_t count, const Body& body) {
  for (int64_t r = 0; r < count; ++r) {
    const int32_t row = rows[r];
    int64_t edges = edges_in_newest_chunk(table.length[row]);
    for (int32_t chunk = table.head[row]; chunk >= 0; chunk = table.next[chunk]) {
      body(static_cast<int64_t>(chunk) * kEdgesPerChunk, edges);
      edges = kEdgesPerChunk;
    }
  }
}

void add_excess(const EdgeTable& table, const int32_t* rows, int64_t count, int64_t base, int64_t* excess) {
  for_each_chunk(table, rows, count, [&](int64_t first, int64_t edges) {
    for (int64_t e = first; e < first + edges; ++e) {
      excess[table.target[e]] += fixed_point(table.weight[e]) - base;
    }
  });
}

void potentiate(const EdgeTable& table, const int32_t* rows, int64_t count, const uint8_t* wins, float factor,
                float largest, const ColumnSums& columns) {
  if (columns.sums != nullptr) {
    for_each_chunk(table, rows, count, [&](int64_t first, int64_t edges) {
      for (int64_t e = first; e < first + edges; ++e) {
        if (wins[table.target[e]] != 0) {
          const float grown = potentiated(table.weight[e], factor, largest);
          columns.sums[columns.neuron_of[table.target[e]]] += fixed_point(grown) - fixed_point(table.weight[e]);
          table.weight[e] = grown;
        }
      }
    });
    return;
  }
  for_each_chunk(table, rows, count, [&](int64_t first, int64_t edges) {
    for (int64_t e = first; e < first + edges; ++e) {
      // Which targets won is unpredictable: no branch depends on it.
      const float grown = potentiated(table.weight[e], factor, largest);
      table.weight[e] = wins[table.target[e]] != 0 ? grown : table.weight[e];
    }
  });
}

bool are_edges(const EdgeTable& table, const int32_t* rows, int64_t count, int64_t chunks, int64_t slots) {
  // The largest numbers at each place of a chunk: bits of floats that are not negative are in the order of the floats.
  uint32_t targets[kEdgesPerChunk] = {};
  uint32_t weights[kEdgesPerChunk] = {};
  bool right = true;
  for (int64_t r = 0; r < count; ++r) {
    const int32_t row = rows[r];
    int64_t left = chunks_of(table.length[row]);
    int64_t edges = edges_in_newest_chunk(table.length[row]);
    int64_t newer = chunks;
    for (int32_t chunk = table.head[row]; chunk >= 0; chunk = table.next[chunk]) {
      if (chunk >= newer) {
        return false;
      }
      const int64_t first = static_cast<int64_t>(chunk) * kEdgesPerChunk;
      uint32_t bits[kEdgesPerChunk];
      __builtin_memcpy(bits, table.weight + first, sizeof(bits));
      for (int64_t e = 0; e < kEdgesPerChunk; ++e) {
        const auto target = static_cast<uint32_t>(table.target[first + e]);
        targets[e] = e < edges && target > targets[e] ? target : targets[e];
        weights[e] = e < edges && bits[e] > weights[e] ? bits[e] : weights[e];
      }
      newer = chunk;
      edges = kEdgesPerChunk;
      --left;
    }
    right = right && left == 0 && table.length[row] >= 0 && (slots > 0 || table.head[row] < 0);
  }
  constexpr uint32_t kLargestBits = __builtin_bit_cast(uint32_t, kLargestWeight);
  for (int e = 0; e < kEdgesPerChunk; ++e) {
    right = right && targets[e] < static_cast<uint64_t>(slots > 0 ? slots : 1) && weights[e] <= kLargestBits;
  }
  return right;
}

}  // namespace

KERNEL_REGISTER(ProjectionKernels, {sum_winners_scratch, sum_winners, candidates, add_excess, potentiate, are_edges})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
