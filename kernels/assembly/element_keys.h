// Rows of stored elements as sources of order-preserving keys (winners.h says in which order).
#pragma once

#include <type_traits>

#include "kernels/assembly/key_vectors.h"
#include "kernels/assembly/winners.h"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// Keys of IEEE bits, as order_key_of_float_bits and order_key_of_double_bits of single elements.
template <typename Key>
KERNEL_HOST_DEVICE KeyVector<Key> order_keys_of_bits(KeyVector<Key> bits, Key infinity) {
  using Lanes = typename KeyVector<Key>::Lanes;
  using Signed = std::conditional_t<sizeof(Key) == 4, int32_t, int64_t>;
  typedef Signed SignedLanes __attribute__((vector_size(kKeyVectorBytes)));
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  const auto negative = (Lanes)((SignedLanes)bits.lanes >> static_cast<Signed>(8 * sizeof(Key) - 1));
  const auto magnitude = (SignedLanes)(bits.lanes & ~kSign);
  const Lanes key = bits.lanes ^ (negative | kSign);
  // -0 would come just below +0.
  const Lanes zeroed = magnitude == 0 ? Lanes{} + kSign : key;
  return {magnitude > static_cast<Signed>(infinity) ? ~Lanes{} : zeroed};
}

template <typename S>
struct ElementTraits;
template <>
struct ElementTraits<float> {
  using Bits = uint32_t;
  using Key = uint32_t;
  static KERNEL_HOST_DEVICE KeyVector<Key> keys_of(KeyVector<Key> bits) {
    return order_keys_of_bits<Key>(bits, 0x7f800000u);
  }
};
template <>
struct ElementTraits<double> {
  using Bits = uint64_t;
  using Key = uint64_t;
  static KERNEL_HOST_DEVICE KeyVector<Key> keys_of(KeyVector<Key> bits) {
    return order_keys_of_bits<Key>(bits, 0x7ff0000000000000u);
  }
};
// A float16 is ordered by its bits as a float is; they come in the upper half of a key.
template <>
struct ElementTraits<Half> {
  using Bits = uint16_t;
  using Key = uint32_t;
  static KERNEL_HOST_DEVICE KeyVector<Key> keys_of(KeyVector<Key> bits) {
    return order_keys_of_bits<Key>({bits.lanes << 16}, 0x7c000000u);
  }
};
template <>
struct ElementTraits<BFloat16> {
  using Bits = uint16_t;
  using Key = uint32_t;
  static KERNEL_HOST_DEVICE KeyVector<Key> keys_of(KeyVector<Key> bits) {
    return order_keys_of_bits<Key>({bits.lanes << 16}, 0x7f800000u);
  }
};
template <>
struct ElementTraits<int32_t> {
  using Bits = uint32_t;
  using Key = uint32_t;
  static KERNEL_HOST_DEVICE KeyVector<Key> keys_of(KeyVector<Key> bits) {
    return {bits.lanes ^ 0x80000000u};
  }
};
template <>
struct ElementTraits<int64_t> {
  using Bits = uint64_t;
  using Key = uint64_t;
  static KERNEL_HOST_DEVICE KeyVector<Key> keys_of(KeyVector<Key> bits) {
    return {bits.lanes ^ 0x8000000000000000u};
  }
};

// kLanes elements of 16 or more bits as vectors of their bits.
KERNEL_HOST_DEVICE KeyVector<uint32_t> load_bits(const uint32_t* source) {
  return KeyVector<uint32_t>::load(source);
}
KERNEL_HOST_DEVICE KeyVector<uint64_t> load_bits(const uint64_t* source) {
  return KeyVector<uint64_t>::load(source);
}
KERNEL_HOST_DEVICE KeyVector<uint32_t> load_bits(const uint16_t* source) {
  typedef uint16_t Narrow __attribute__((vector_size(kKeyVectorBytes / 2)));
  Narrow narrow;
  __builtin_memcpy(&narrow, source, sizeof(narrow));
  return {__builtin_convertvector(narrow, KeyVector<uint32_t>::Lanes)};
}

// Thresholds in the form in which a row is compared with them: floats in their own type, where that is one instruction.
template <typename S>
struct ElementBound {
  KeyVector<typename ElementTraits<S>::Key> least;
};
#if defined(__AVX512F__)
template <>
struct ElementBound<float> {
  __m512 least;
};
template <>
struct ElementBound<double> {
  __m512d least;
};
// The inverse of the keys' order; NaN is not less than anything.
KERNEL_HOST_DEVICE ElementBound<float> make_bound(float, uint32_t key) {
  const uint32_t bits = (key >> 31) != 0 ? key ^ 0x80000000u : ~key;
  return {_mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int32_t>(bits)))};
}
KERNEL_HOST_DEVICE ElementBound<double> make_bound(double, uint64_t key) {
  const uint64_t bits = (key >> 63) != 0 ? key ^ 0x8000000000000000u : ~key;
  return {_mm512_castsi512_pd(_mm512_set1_epi64(static_cast<int64_t>(bits)))};
}
KERNEL_HOST_DEVICE uint32_t reaching(const uint32_t* source, ElementBound<float> bound) {
  return _mm512_cmp_ps_mask(_mm512_loadu_ps(source), bound.least, _CMP_NLT_UQ);
}
KERNEL_HOST_DEVICE uint32_t reaching(const uint64_t* source, ElementBound<double> bound) {
  return _mm512_cmp_pd_mask(_mm512_loadu_pd(source), bound.least, _CMP_NLT_UQ);
}
// Beyond the key of infinity only NaN passes, and as a number the bound would let everything through.
KERNEL_HOST_DEVICE bool is_number(float, uint32_t key) {
  return key <= order_key_of_float_bits(0x7f800000u);
}
KERNEL_HOST_DEVICE bool is_number(double, uint64_t key) {
  return key <= order_key_of_double_bits(0x7ff0000000000000u);
}
#endif
template <typename S>
KERNEL_HOST_DEVICE ElementBound<S> make_bound(S, typename ElementTraits<S>::Key key) {
  return {KeyVector<typename ElementTraits<S>::Key>::broadcast(key)};
}
template <typename S>
KERNEL_HOST_DEVICE uint32_t reaching(const typename ElementTraits<S>::Bits* source, ElementBound<S> bound) {
  return at_least_mask(ElementTraits<S>::keys_of(load_bits(source)), bound.least);
}
template <typename S>
KERNEL_HOST_DEVICE bool is_number(S, typename ElementTraits<S>::Key) {
  return true;
}

// The keys of a row of elements of type S, as a source of a Selector.
template <typename S>
struct ElementKeys {
  using Traits = ElementTraits<S>;
  using Bits = typename Traits::Bits;
  using Key = typename Traits::Key;
  const Bits* row;

  KERNEL_HOST_DEVICE KeyVector<Key> whole(int64_t j) const {
    return load_bits(row + j);
  }
  KERNEL_HOST_DEVICE KeyVector<Key> part(int64_t j, int64_t count) const {
    Bits lanes[kKeyLanes<Key>] = {};
    __builtin_memcpy(lanes, row + j, static_cast<size_t>(count) * sizeof(Bits));
    return load_bits(lanes);
  }
  KERNEL_HOST_DEVICE KeyVector<Key> keys_of(KeyVector<Key> bits) const {
    return Traits::keys_of(bits);
  }
  KERNEL_HOST_DEVICE bool has_bound(Key threshold) const {
    return is_number(S{}, threshold);
  }
  KERNEL_HOST_DEVICE ElementBound<S> bound(Key threshold) const {
    return make_bound(S{}, threshold);
  }
  KERNEL_HOST_DEVICE uint32_t passing(int64_t j, ElementBound<S> bound) const {
    prefetch_ahead(row + j);
    return reaching(row + j, bound);
  }
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
