// Searches rows of the connectome for edges into new slots and files them in the table.
#include "kernels/assembly/edge_search.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <stdexcept>

#include "kernels/assembly/column_blocks.h"
#include "kernels/assembly/connectome.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {

int64_t EdgeSearch::find(size_t index, std::vector<uint64_t>& pairs) {
  const Fiber& fiber = brain_.fibers[index];
  const Area& source = source_of(fiber);
  const auto slots = static_cast<int32_t>(target_of(fiber).slots[0]);
  const std::vector<int32_t>& firing = firing_of(fiber).slots;
  pairs.clear();
  // Most rounds fire the rows of the round before, and no new neuron wins.
  if (searched_[index] == searched(fiber)) {
    return *fiber.chunks;
  }
  // Rows that know all but the newest slots look for those alone, in few columns; the others for all they lack.
  int32_t newest = 0;
  for (const int32_t row : firing) {
    newest = fiber.known[row] < slots ? std::max(newest, fiber.known[row]) : newest;
  }
  found_.clear();
  for (const bool up_to_date : {true, false}) {
    rows_.clear();
    places_.clear();
    int32_t least = slots;
    for (size_t i = 0; i < firing.size(); ++i) {
      const int32_t known = fiber.known[firing[i]];
      if (known < slots && (known == newest) == up_to_date) {
        rows_.push_back(source.winners[i]);
        places_.push_back(static_cast<int32_t>(i));
        least = std::min(least, known);
      }
    }
    if (!rows_.empty()) {
      match(fiber, *kept_[index], least, slots);
    }
  }
  // By place, then column: a row has few pairs, which mostly ascend already.
  ends_.assign(firing.size() + 1, 0);
  for (const uint64_t pair : found_) {
    ++ends_[(pair >> 32) + 1];
  }
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  pairs.resize(found_.size());
  for (const uint64_t pair : found_) {
    pairs[ends_[pair >> 32]++] = pair;
  }
  int64_t chunks = *fiber.chunks;
  size_t first = 0;
  for (size_t i = 0; i < firing.size(); ++i) {
    const size_t last = ends_[i];
    const auto begin = pairs.begin() + static_cast<int64_t>(first), end = pairs.begin() + static_cast<int64_t>(last);
    if (!std::is_sorted(begin, end)) {
      std::sort(begin, end);
    }
    const int64_t before = fiber.edges.length[firing[i]];
    chunks += chunks_of(before + static_cast<int64_t>(last - first)) - chunks_of(before);
    first = last;
  }
  return chunks;
}

// Appends (place, column) of every edge from rows_ into target slots [least, slots) that its row lacks to found_.
void EdgeSearch::match(const Fiber& fiber, KeptRows& kept, int32_t least, int32_t slots) {
  const Area& source = source_of(fiber);
  const Area& target = target_of(fiber);
  const std::vector<int32_t>& firing = firing_of(fiber).slots;
  bits_.resize(static_cast<size_t>((target.n + 31) / 32), 0);
  for (int32_t s = least; s < slots; ++s) {
    if (target.slot_of[target.neuron_of[s]] != s) {
      throw std::out_of_range("neuron_of must name the neurons of slots");
    }
    bits_[static_cast<size_t>(target.neuron_of[s] / 32)] |= 1u << (target.neuron_of[s] % 32);
  }
  const int32_t* const places = kept.admit(source, rows_);
  std::mutex mutex;
  const int64_t blocks = std::min<int64_t>(block_count(*fiber.connectome, target.n - target.first), slots - least);
  const int64_t streams = static_cast<int64_t>(rows_.size()) * blocks;
  for_column_blocks(*fiber.connectome, target.first, target.n, streams, parallel_, [&](int64_t first, int64_t last) {
    // Some rows at a time, so that pairs take little memory.
    constexpr int64_t kRows = 256;
    const int64_t most = std::min<int64_t>(slots - least, (last - first) * fiber.connectome->width);
    const double expected =
        fiber.connectome->p * static_cast<double>(std::min<int64_t>(kRows, static_cast<int64_t>(rows_.size())) * most);
    std::vector<int32_t> found(static_cast<size_t>(2 * (expected + 8 * std::sqrt(expected)) + 64));
    std::vector<uint64_t> own;
    for (int64_t row = 0; row < static_cast<int64_t>(rows_.size()); row += kRows) {
      MatchParams params;
      params.tables = fiber.connectome;
      params.key = fiber.key();
      params.rows = rows_.data() + row;
      params.row_count = std::min<int64_t>(kRows, static_cast<int64_t>(rows_.size()) - row);
      params.n = target.n;
      params.bits = bits_.data();
      params.kept = kept.edges();
      params.places = places + row;
      int64_t count = 0;
      for (;;) {
        params.pairs = found.data();
        params.capacity = static_cast<int64_t>(found.size() / 2);
        count = kernel_table<ConnectomeKernels>().match(params, first, last);
        if (count <= params.capacity) {
          break;
        }
        found.resize(static_cast<size_t>(2 * count));
      }
      for (int64_t i = 0; i < count; ++i) {
        const int32_t from = places_[static_cast<size_t>(row + found[static_cast<size_t>(2 * i)])];
        const int32_t to = found[static_cast<size_t>(2 * i + 1)];
        if (target.slot_of[to] >= fiber.known[firing[static_cast<size_t>(from)]]) {
          own.push_back(static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to));
        }
      }
    }
    const std::lock_guard<std::mutex> lock(mutex);
    found_.insert(found_.end(), own.begin(), own.end());
  });
  for (int32_t s = least; s < slots; ++s) {
    bits_[static_cast<size_t>(target.neuron_of[s] / 32)] = 0;
  }
}

void EdgeSearch::file(Fiber& fiber, const std::vector<uint64_t>& pairs) {
  const Area& target = target_of(fiber);
  const std::vector<int32_t>& firing = firing_of(fiber).slots;
  for (const uint64_t pair : pairs) {
    const int32_t row = firing[pair >> 32];
    const int32_t place = fiber.edges.length[row]++ % kEdgesPerChunk;
    if (place == 0) {
      const auto chunk = static_cast<int32_t>((*fiber.chunks)++);
      fiber.edges.next[chunk] = fiber.edges.head[row];
      fiber.edges.head[row] = chunk;
    }
    const int64_t edge = static_cast<int64_t>(fiber.edges.head[row]) * kEdgesPerChunk + place;
    fiber.edges.target[edge] = target.slot_of[static_cast<uint32_t>(pair)];
    fiber.edges.weight[edge] = 1;
  }
  Searched& before = searched_[static_cast<size_t>(&fiber - brain_.fibers.data())];
  if (before == searched(fiber)) {
    return;
  }
  for (const int32_t row : firing) {
    fiber.known[row] = static_cast<int32_t>(target.slots[0]);
  }
  before = searched(fiber);
}

}  // namespace torch_hrr::kernels
