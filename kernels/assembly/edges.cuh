// Phases over the potentiated edges of fibers between slots, as in rounds.cuh: their sums, the search for those that
// come into use, and plasticity.
//
// A warp follows the list of chunks of one firing row, or draws that row of the connectome. Edges that come into use
// are counted first, so that their chunks are numbered by a scan, row by row, and then drawn again and filed by column:
// the table is the same whatever the order of blocks, and the CPU's.
#pragma once

#include "kernels/assembly/connectome_draw.cuh"
#include "kernels/assembly/connectome_launch.h"
#include "kernels/assembly/rounds.cuh"

namespace torch_hrr::kernels {

// A fiber with both ends, of a batch or of one brain.
struct Link {
  Fiber fiber;
  Area source;
  Area target;

  KERNEL_DEVICE Link of_brain(int64_t b) const {
    return {fiber.of_brain(b, source, target), source.of_brain(b), target.of_brain(b)};
  }
};

// body(i, firing neuron) for the firing rows of one brain, a warp each.
template <typename Body>
KERNEL_DEVICE void for_each_row_of_warps(const Link& own, const Body& body) {
  for_each_of_warps(*own.source.winner_count, [&](int64_t i) { body(i, own.source.winners[i]); });
}

// body(edge) for this lane's known edges of a row: lanes above a chunk's edges have none of it.
template <typename Body>
KERNEL_DEVICE void for_each_known_edge(const EdgeTable& edges, int32_t slot, const Body& body) {
  auto filled = static_cast<int32_t>(edges_in_newest_chunk(edges.length[slot]));
  for (int32_t chunk = edges.head[slot]; chunk >= 0; chunk = edges.next[chunk]) {
    if (lane_index() < filled) {
      body(static_cast<int64_t>(chunk) * kEdgesPerChunk + lane_index());
    }
    filled = kEdgesPerChunk;
  }
}

// excess[target slot] += what the known edges of the firing rows add to the base counts.
KERNEL_DEVICE void add_excess(const Batch& batch, const Link& link, int64_t* excess) {
  for_each_running(batch, [&](int64_t b) {
    const Link own = link.of_brain(b);
    const int64_t base = own.fiber.connectome != nullptr ? kFixedOne : 0;
    for_each_row_of_warps(own, [&](int64_t, int64_t neuron) {
      for_each_known_edge(own.fiber.edges, own.source.slot_of[neuron], [&](int64_t edge) {
        const int64_t more = fixed_point(own.fiber.edges.weight[edge]) - base;
        atomicAdd(as_counter(excess + b * link.target.capacity + own.fiber.edges.target[edge]),
                  static_cast<unsigned long long>(more));
      });
    });
  });
}
__global__ void add_excess_kernel(Batch batch, Link link, int64_t* excess) {
  add_excess(batch, link, excess);
}

// Where columns are divided by their sums before every round: those of the winners grew in the round before.
KERNEL_DEVICE void refresh_scales(const Batch& batch, const Link& link) {
  for_each_running(batch, [&](int64_t b) {
    const Link own = link.of_brain(b);
    for_each_of_grid(*own.target.winner_count, [&](int64_t i) { refresh_scale(own.fiber, own.target.winners[i]); });
  });
}
__global__ void refresh_scales_kernel(Batch batch, Link link) {
  refresh_scales(batch, link);
}

KERNEL_DEVICE void potentiate_edges(const Batch& batch, const Link& link, const int32_t* last_round, int32_t round) {
  for (int64_t b = blockIdx.y; b < batch.brains; b += gridDim.y) {
    if (!batch.commits(b)) {
      continue;
    }
    const Link own = link.of_brain(b);
    const int32_t* wins = last_round + b * link.target.capacity;
    for_each_row_of_warps(own, [&](int64_t, int64_t neuron) {
      for_each_known_edge(own.fiber.edges, own.source.slot_of[neuron], [&](int64_t edge) {
        if (wins[own.fiber.edges.target[edge]] == round) {
          float& weight = own.fiber.edges.weight[edge];
          const float grown = potentiated(weight, own.fiber.factor, own.fiber.largest);
          if (own.fiber.sums != nullptr) {
            const int64_t more = fixed_point(grown) - fixed_point(weight);
            atomicAdd(as_counter(own.fiber.sums + own.target.neuron_of[own.fiber.edges.target[edge]]),
                      static_cast<unsigned long long>(more));
          }
          weight = grown;
        }
      });
    });
  }
}
__global__ void potentiate_kernel(Batch batch, Link link, const int32_t* last_round, int32_t round) {
  potentiate_edges(batch, link, last_round, round);
}

// The search of a fiber's connectome for edges from firing rows into target slots that these rows do not know yet.
struct EdgeSearchLaunch {
  Batch batch;
  Link link;
  DeviceGapTables gaps;
  int64_t blocks = 0;              // of columns
  const uint32_t* bits = nullptr;  // [brains, bit_words(n)] neurons of the target that have a slot
  int32_t* newest = nullptr;       // [brains, blocks] the newest slot of each column block, -1 without one
  int32_t* found = nullptr;        // [brains, source k] edges of each firing row
  int32_t* first_chunk = nullptr;  // [brains, source k] the first of the chunks that they add
  int64_t field = 0;               // of progress: chunks in use once they are filed
};

// A fiber of a call, and the memory of its rounds.
struct Wire {
  EdgeSearchLaunch search;   // its arrays where the fiber learns; batch, link and tables always
  uint64_t* keys = nullptr;  // [brains] of a connectome

  KERNEL_HOST_DEVICE const Link& link() const {
    return search.link;
  }
  KERNEL_HOST_DEVICE bool procedural() const {
    return search.link.fiber.connectome != nullptr;
  }
  KERNEL_HOST_DEVICE DeliverLaunch delivery(const Changes& changes) const {
    DeliverLaunch params;
    params.gaps = search.gaps;
    params.keys = keys;
    params.rows = changes.rows;
    params.row_counts = changes.row_counts;
    params.signs = changes.signs;
    params.batches = search.batch.brains;
    params.row_count = 2 * search.link.source.k;
    params.n = search.link.target.n;
    params.counts = search.link.fiber.counts;
    return params;
  }
};

KERNEL_DEVICE void find_newest_slots(const EdgeSearchLaunch& search) {
  for (int64_t b = blockIdx.y; b < search.batch.brains; b += gridDim.y) {
    const Area own = search.link.target.of_brain(b);
    for_each_of_grid_in_step(search.batch.running[b] != 0 ? own.slots[0] : 0, [&](int64_t s, bool live) {
      const auto block = live ? static_cast<int32_t>(own.neuron_of[s] / search.gaps.width) : -1;
      // Of neighbours in one block the last is the newest: where there is one block, all of a warp meet in it.
      const bool last = shuffle_down(block, 1) != block || lane_index() == kWarpSize - 1;
      if (live && last) {
        atomicMax(search.newest + b * search.blocks + block, static_cast<int32_t>(s));
      }
    });
  }
}
__global__ void newest_slots_kernel(EdgeSearchLaunch search) {
  find_newest_slots(search);
}

// body(LaneEdges, first column of the block) for every step of a warp, with the edges from a row into slots >= known;
// they ascend by step, lane and gap.
template <bool kTwoLevel, typename Body>
KERNEL_DEVICE void for_each_new_edge(const EdgeSearchLaunch& search, const Link& own, const uint32_t* tables, int64_t b,
                                     int64_t neuron, int32_t known, const Body& body) {
  const PhiloxKey key = philox_key(own.fiber.key());
  const int64_t n = own.target.n;
  const uint32_t* bits = search.bits + b * bit_words(n);
  for (int64_t group = 0; group < search.blocks; group += kWarpSize) {
    const int64_t lanes_block = group + lane_index();
    const bool wanted = lanes_block < search.blocks && search.newest[b * search.blocks + lanes_block] >= known;
    for (uint32_t left = warp_ballot(wanted); left != 0; left &= left - 1) {
      const int64_t block = group + __ffs(static_cast<int>(left)) - 1;
      const int64_t first = block * search.gaps.width;
      for_each_edge_of_warp<kTwoLevel>(tables, key, static_cast<uint32_t>(neuron), static_cast<uint32_t>(block),
                                       columns_of_block(search.gaps, n, block), [&](LaneEdges<kTwoLevel> lane) {
#pragma unroll
                                         for (int g = 0; g < kGapsOfDraw<kTwoLevel>; ++g) {
                                           const int64_t column = first + lane.columns[g];
                                           lane.edges[g] = lane.edges[g] &&
                                                           (bits[column / 32] >> (column % 32) & 1) != 0 &&
                                                           own.target.slot_of[column] >= known;
                                         }
                                         body(lane, first);
                                       });
    }
  }
}

// found[i] = new edges of firing row i
template <bool kTwoLevel>
KERNEL_DEVICE void count_new_edges(const EdgeSearchLaunch& search) {
  const uint32_t* tables = shared_gap_tables<kTwoLevel>(*search.gaps.tables);
  block_sync();
  for_each_running(search.batch, [&](int64_t b) {
    const Link own = search.link.of_brain(b);
    const auto slots = static_cast<int32_t>(own.target.slots[0]);
    for_each_row_of_warps(own, [&](int64_t i, int64_t neuron) {
      const int32_t known = own.fiber.known[own.source.slot_of[neuron]];
      int32_t count = 0;
      if (known < slots) {
        for_each_new_edge<kTwoLevel>(search, own, tables, b, neuron, known,
                                     [&](const LaneEdges<kTwoLevel>& lane, int64_t) {
#pragma unroll
                                       for (int g = 0; g < kGapsOfDraw<kTwoLevel>; ++g) {
                                         count += lane.edges[g] ? 1 : 0;
                                       }
                                     });
      }
      count = warp_sum(count);
      if (lane_index() == 0) {
        search.found[b * search.link.source.k + i] = count;
      }
    });
  });
}
template <bool kTwoLevel>
__global__ void count_edges_kernel(EdgeSearchLaunch search) {
  count_new_edges<kTwoLevel>(search);
}

// Numbers the chunks that rows add, and says whether there is memory for them: a block a brain.
KERNEL_DEVICE void allot_chunks(const EdgeSearchLaunch& search) {
  auto* const scan = dynamic_shared<int64_t>();
  for_each_running(search.batch, [&](int64_t b) {
    const Link own = search.link.of_brain(b);
    const int64_t count = *own.source.winner_count;
    int64_t next = *own.fiber.chunks;
    for (int64_t tile = 0; tile < count; tile += block_threads()) {
      const int64_t i = tile + thread_rank();
      const int64_t at = b * search.link.source.k + i;
      int64_t needed = 0;
      if (i < count) {
        const int64_t length = own.fiber.edges.length[own.source.slot_of[own.source.winners[i]]];
        needed = chunks_of(length + search.found[at]) - chunks_of(length);
      }
      int64_t total = 0;
      const int64_t lower = block_exclusive_sum(needed, scan, total);
      if (i < count) {
        search.first_chunk[at] = static_cast<int32_t>(next + lower);
      }
      next += total;
    }
    if (thread_rank() == 0) {
      search.batch.progress[b * search.batch.fields + search.field] = next;
      if (next > own.fiber.chunk_capacity) {
        search.batch.fits[b] = 0;
      }
    }
  });
}
__global__ void __launch_bounds__(kSlotThreads) allot_chunks_kernel(EdgeSearchLaunch search) {
  allot_chunks(search);
}

// Files the new edges of one row, which a warp draws, behind those it has.
template <bool kTwoLevel>
KERNEL_DEVICE void append_edges_of_row(const EdgeSearchLaunch& search, const Link& own, const uint32_t* tables,
                                       int64_t b, int64_t i, int64_t neuron, int32_t slots) {
  const EdgeTable& edges = own.fiber.edges;
  const int32_t row = own.source.slot_of[neuron];
  const int32_t known = own.fiber.known[row];
  const int32_t found = search.found[b * search.link.source.k + i];
  const int32_t first_chunk = search.first_chunk[b * search.link.source.k + i];
  const int32_t length = edges.length[row];
  const int32_t head = edges.head[row];
  const int32_t chunks = static_cast<int32_t>(chunks_of(length + found) - chunks_of(length));
  // Every lane has read the row before one of them changes it.
  warp_sync();
  if (found > 0) {
    const int32_t room = static_cast<int32_t>(chunks_of(length)) * kEdgesPerChunk - length;
    const uint32_t below = (1u << lane_index()) - 1;
    int32_t filed = 0;
    for_each_new_edge<kTwoLevel>(
        search, own, tables, b, neuron, known, [&](const LaneEdges<kTwoLevel>& lane, int64_t first) {
          // By lane, then by gap: columns ascend.
          int32_t place = filed;
#pragma unroll
          for (int g = 0; g < kGapsOfDraw<kTwoLevel>; ++g) {
            const uint32_t hits = warp_ballot(lane.edges[g]);
            place += __popc(hits & below);
            filed += __popc(hits);
          }
#pragma unroll
          for (int g = 0; g < kGapsOfDraw<kTwoLevel>; ++g) {
            if (lane.edges[g]) {
              const int32_t beyond = place - room;
              const int64_t edge = beyond < 0
                                       ? static_cast<int64_t>(head) * kEdgesPerChunk + length % kEdgesPerChunk + place
                                       : static_cast<int64_t>(first_chunk) * kEdgesPerChunk + beyond;
              edges.target[edge] = own.target.slot_of[first + lane.columns[g]];
              edges.weight[edge] = 1;
              ++place;
            }
          }
        });
    for (int32_t c = lane_index(); c < chunks; c += kWarpSize) {
      edges.next[first_chunk + c] = c == 0 ? head : first_chunk + c - 1;
    }
  }
  if (lane_index() == 0) {
    if (chunks > 0) {
      edges.head[row] = first_chunk + chunks - 1;
    }
    edges.length[row] = length + found;
    own.fiber.known[row] = slots;
  }
}

template <bool kTwoLevel>
KERNEL_DEVICE void append_edges(const EdgeSearchLaunch& search) {
  const uint32_t* tables = shared_gap_tables<kTwoLevel>(*search.gaps.tables);
  block_sync();
  for (int64_t b = blockIdx.y; b < search.batch.brains; b += gridDim.y) {
    if (!search.batch.commits(b)) {
      continue;
    }
    const Link own = search.link.of_brain(b);
    const auto slots = static_cast<int32_t>(own.target.slots[0]);
    for_each_row_of_warps(own, [&](int64_t i, int64_t neuron) {
      // Its pointers are made anew for each row: held through the loop, they would cost registers.
      append_edges_of_row<kTwoLevel>(search, search.link.of_brain(b), tables, b, i, neuron, slots);
    });
    if (blockIdx.x == 0 && thread_rank() == 0) {
      *own.fiber.chunks = search.batch.progress[b * search.batch.fields + search.field];
    }
  }
}
template <bool kTwoLevel>
__global__ void append_edges_kernel(EdgeSearchLaunch search) {
  append_edges<kTwoLevel>(search);
}

}  // namespace torch_hrr::kernels
