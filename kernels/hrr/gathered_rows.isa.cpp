// Gathered rows on the CPU: each is copied to the first cache in order, and read from there in the order of the table.
#include "kernels/hrr/gathered_rows.h"

#include <bit>
#include <cstddef>

#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

static_assert(std::endian::native == std::endian::little, "elements are shifted to their places in a word");

template <typename Bits>
constexpr int64_t kElementsPerWord = static_cast<int64_t>(sizeof(uint64_t) / sizeof(Bits));

// The elements at as many places as a word holds, side by side.
template <typename Bits>
inline uint64_t gathered_word(const Bits* row, const int32_t* places) {
  uint64_t word = 0;
  for (int64_t i = 0; i < kElementsPerWord<Bits>; ++i) {
    word |= static_cast<uint64_t>(row[static_cast<uint32_t>(places[i])])
            << (8 * static_cast<int64_t>(sizeof(Bits)) * i);
  }
  // Kept in a register of its own: vectors of gathers, which compilers would make of this loop, take twice as long.
  asm volatile("" : "+r"(word));
  return word;
}

template <typename Bits>
void gather_rows(const GatheredRowsParams& params, int64_t begin, int64_t end, void* scratch) {
  constexpr int64_t kStep = kElementsPerWord<Bits>;
  Bits* const row = static_cast<Bits*>(scratch);
  const int64_t whole = params.dim / kStep * kStep;
  for (int64_t r = begin; r < end; ++r) {
    __builtin_memcpy(row, static_cast<const Bits*>(params.input) + row_offset(params.map, 0, r),
                     static_cast<size_t>(params.dim) * sizeof(Bits));
    Bits* const out = static_cast<Bits*>(params.out) + r * params.dim;
    for (int64_t i = 0; i < whole; i += kStep) {
      const uint64_t word = gathered_word(row, params.table + i);
      __builtin_memcpy(out + i, &word, sizeof(word));
    }
    for (int64_t i = whole; i < params.dim; ++i) {
      out[i] = row[params.table[i]];
    }
  }
}

template <typename Bits>
constexpr RowKernel<GatheredRowsParams> kGatherRows = {
    [](const GatheredRowsParams& params) { return 2 * params.dim; },
    [](const GatheredRowsParams& params) { return params.dim * static_cast<int64_t>(sizeof(Bits)); },
    gather_rows<Bits>};

}  // namespace

// In the order of Storage.
KERNEL_REGISTER(ByStorage<RowKernel<GatheredRowsParams>>,
                {{kGatherRows<uint32_t>, kGatherRows<uint64_t>, kGatherRows<uint16_t>, kGatherRows<uint16_t>}})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
