// k_winners on the CPU: a threshold from a sample of the row, one pass that collects what reaches it, an exact
// selection.
#include "kernels/assembly/winners.h"

#include "kernels/assembly/element_keys.h"
#include "kernels/assembly/families.h"
#include "kernels/assembly/selection.h"

namespace torch_hrr::kernels {
HRR_ISA_BEGIN

namespace {

constexpr int64_t kSampleBlock = 16;  // elements: a cache line of floats
constexpr int64_t kLeastSample = 512;
constexpr int64_t kMostSample = 4096;
constexpr int64_t kElementsPerSample = 48;

// How many elements of a row are sampled; 0 where the whole row is as cheap.
int64_t sample_size(int64_t n, int64_t k) {
  if (n < 4 * kLeastSample || k > n / 8) {
    return 0;
  }
  return lesser(greater(n / kElementsPerSample / kSampleBlock * kSampleBlock, kLeastSample), kMostSample);
}

// A threshold that k elements of the row reach in all likelihood, and not many more. Blocks at equal distances see a
// sorted row as well as a random one; one block's length of slack is for those, three deviations for random rows.
template <typename S, typename Key>
Key sampled_threshold(const ElementKeys<S>& source, int64_t n, int64_t k, int64_t sample, Key* keys, Key* work) {
  const int64_t blocks = sample / kSampleBlock;
  const int64_t distance = n / blocks;
  int64_t size = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * distance + (distance - kSampleBlock) / 2;
    for (int64_t j = 0; j < kSampleBlock; j += kKeyLanes<Key>, size += kKeyLanes<Key>) {
      source.whole(begin + j).store(keys + size);
    }
  }
  pad_keys(keys, size);
  const double expected = static_cast<double>(k) * static_cast<double>(size) / static_cast<double>(n);
  const auto slack = static_cast<int64_t>(3 * __builtin_sqrt(expected)) + kSampleBlock / 2;
  const int64_t rank = lesser(size, static_cast<int64_t>(expected) + slack);
  return cut(keys, size, rank, rank / 8, work).threshold;
}

template <typename Bits>
void gather_winners(const Bits* HRR_RESTRICT row, const int32_t* HRR_RESTRICT winners, int64_t k,
                    Bits* HRR_RESTRICT values, int64_t* HRR_RESTRICT indices) {
  for (int64_t i = 0; i < k; ++i) {
    indices[i] = winners[i];
  }
  for (int64_t i = 0; i < k; ++i) {
    values[i] = row[winners[i]];
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
  const int64_t sample = sample_size(params.n, k);
  Selector<Key> selector(k, scratch);
  for (int64_t r = begin; r < end; ++r) {
    const ElementKeys<S> source{static_cast<const Bits*>(params.input) + r * params.row_stride};
    selector.clear();
    if (sample != 0) {
      selector.set_threshold(
          sampled_threshold(source, params.n, k, sample, selector.spare_keys(), selector.spare_work()));
    }
    selector.push(source, 0, params.n, 0);
    if (!selector.finish(params.sorted)) {
      selector.clear();
      selector.push(source, 0, params.n, 0);
      selector.finish(params.sorted);
    }
    if (params.sorted) {
      selector.sort_winners();
    }
    gather_winners(source.row, selector.indices(), k, static_cast<Bits*>(params.values) + r * k,
                   params.indices + r * k);
  }
}

// The element type's own instance of a function template.
template <typename Call>
auto with_element(Element element, const Call& call) {
  switch (element) {
    case Element::kDouble:
      return call(double{});
    case Element::kHalf:
      return call(Half{});
    case Element::kBFloat16:
      return call(BFloat16{});
    case Element::kInt32:
      return call(int32_t{});
    case Element::kInt64:
      return call(int64_t{});
    case Element::kFloat:
      break;
  }
  return call(float{});
}

int64_t winners_scratch(const WinnersParams& params) {
  return with_element(params.element, [&](auto element) {
    return Selector<typename ElementKeys<decltype(element)>::Key>::scratch_bytes(params.k);
  });
}

void winners(const WinnersParams& params, int64_t begin, int64_t end, void* scratch) {
  with_element(params.element, [&](auto element) { winners_of_rows<decltype(element)>(params, begin, end, scratch); });
}

}  // namespace

void add_winners(AssemblyKernels& kernels) {
  kernels.winners_scratch = winners_scratch;
  kernels.winners = winners;
}

HRR_ISA_END
}  // namespace torch_hrr::kernels
