// k_winners on the CPU: a threshold from a part of the row, one pass that collects what reaches it, an exact selection;
// of one winner, a search for the largest.
#include "kernels/assembly/winners.h"

#include "kernels/assembly/element_keys.h"
#include "kernels/assembly/sampled_selection.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

namespace {

template <typename Bits>
void gather_winners(const Bits* KERNEL_RESTRICT row, const int32_t* KERNEL_RESTRICT winners, int64_t k,
                    Bits* KERNEL_RESTRICT values, int64_t* KERNEL_RESTRICT indices) {
  for (int64_t i = 0; i < k; ++i) {
    indices[i] = winners[i];
  }
  for (int64_t i = 0; i < k; ++i) {
    values[i] = row[winners[i]];
  }
}

// The first of the largest keys of a row. Only the block that holds it is read twice.
template <typename S>
int64_t first_largest(const ElementKeys<S>& source, int64_t n) {
  using Key = typename ElementKeys<S>::Key;
  using V = KeyVector<Key>;
  constexpr int64_t kWidth = V::kLanes;
  constexpr int64_t kBlock = 256 * kWidth;
  const auto keys_at = [&](int64_t j) { return source.keys_of(source.whole(j)); };
  int64_t first = 0;
  Key largest = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = lesser(n, begin + kBlock);
    V best[4] = {V::broadcast(0), V::broadcast(0), V::broadcast(0), V::broadcast(0)};
    int64_t j = begin;
    for (; j + 4 * kWidth <= end; j += 4 * kWidth) {
      for (int i = 0; i < 4; ++i) {
        prefetch_ahead(source.row + j + i * kWidth);
        best[i] = larger(best[i], keys_at(j + i * kWidth));
      }
    }
    for (; j + kWidth <= end; j += kWidth) {
      best[0] = larger(best[0], keys_at(j));
    }
    Key here = largest_lane(larger(larger(best[0], best[1]), larger(best[2], best[3])));
    if (j < end) {
      const V rest = source.keys_of(source.part(j, end - j));
      for (int64_t i = 0; i < end - j; ++i) {
        here = greater(here, static_cast<Key>(rest.lanes[i]));
      }
    }
    if (begin == 0 || here > largest) {
      largest = here;
      first = begin;
    }
  }
  const V wanted = V::broadcast(largest);
  for (; first + kWidth <= n; first += kWidth) {
    if (const uint32_t mask = equal_mask(keys_at(first), wanted); mask != 0) {
      return first + __builtin_ctz(mask);
    }
  }
  return first + __builtin_ctz(equal_mask(source.keys_of(source.part(first, n - first)), wanted));
}

template <typename S>
void winner_of_rows(const WinnersParams& params, int64_t begin, int64_t end) {
  using Bits = typename ElementKeys<S>::Bits;
  for (int64_t r = begin; r < end; ++r) {
    const ElementKeys<S> source{static_cast<const Bits*>(params.input) + r * params.row_stride};
    const int64_t winner = first_largest(source, params.n);
    static_cast<Bits*>(params.values)[r] = source.row[winner];
    params.indices[r] = winner;
  }
}

template <typename S>
void winners_of_rows(const WinnersParams& params, int64_t begin, int64_t end, void* scratch) {
  using Key = typename ElementKeys<S>::Key;
  using Bits = typename ElementKeys<S>::Bits;
  const int64_t k = params.k;
  if (k == 0) {
    return;
  }
  if (k == 1) {
    return winner_of_rows<S>(params, begin, end);
  }
  Selector<Key> selector(k, scratch);
  for (int64_t r = begin; r < end; ++r) {
    const ElementKeys<S> source{static_cast<const Bits*>(params.input) + r * params.row_stride};
    select_top(selector, source, params.n, k, params.sorted);
    if (params.sorted) {
      selector.sort_winners();
    }
    gather_winners(source.row, selector.indices(), k, static_cast<Bits*>(params.values) + r * k,
                   params.indices + r * k);
  }
}

int64_t winners_scratch(const WinnersParams& params) {
  if (params.k == 1) {
    return 0;
  }
  return with_element(params.element, [&](auto element) {
    return Selector<typename ElementKeys<decltype(element)>::Key>::scratch_bytes(params.k);
  });
}

void winners(const WinnersParams& params, int64_t begin, int64_t end, void* scratch) {
  with_element(params.element, [&](auto element) { winners_of_rows<decltype(element)>(params, begin, end, scratch); });
}

}  // namespace

KERNEL_REGISTER(RowKernel<WinnersParams>,
                {[](const WinnersParams& params) { return params.n; }, winners_scratch, winners})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
