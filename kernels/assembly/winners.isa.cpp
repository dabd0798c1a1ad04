// k_winners on the CPU: a threshold from a sample of the row, one pass that collects what reaches it, an exact
// selection.
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

template <typename S>
void winners_of_rows(const WinnersParams& params, int64_t begin, int64_t end, void* scratch) {
  using Key = typename ElementKeys<S>::Key;
  using Bits = typename ElementKeys<S>::Bits;
  const int64_t k = params.k;
  if (k == 0) {
    return;
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

KERNEL_REGISTER(RowKernel<WinnersParams>,
                {[](const WinnersParams& params) { return params.n; }, winners_scratch, winners})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
