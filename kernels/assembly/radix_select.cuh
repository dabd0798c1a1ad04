// Radix selection by a block: the k-th largest key of a row digit by digit, and the elements above and equal to it.
//
// Digits have 11 bits: 3 passes over 32-bit keys and 6 over 64-bit ones where 8 bits take 4 and 8, and the first digit
// of a float then includes two bits of its fraction, so that few threads meet at one counter. The 8 KiB of counters
// still let blocks of 512 threads fill a multiprocessor. A row is settled, and needs no further pass, once all keys
// that match are winners: usually when the first digits have told the k-th key from all others.
#pragma once

#include <type_traits>

#include "kernels/assembly/winners.h"
#include "kernels/cuda/element_run.cuh"
#include "kernels/numeric.h"

namespace torch_hrr::kernels {

constexpr int kDigitBits = 11;
constexpr int kDigits = 1 << kDigitBits;

// order_key without the low bits that widening leaves the same for all elements of one sign.
template <typename S>
struct WinnersKey {
  using Key = uint32_t;
  static constexpr int kBits = 32;
};
template <>
struct WinnersKey<double> {
  using Key = uint64_t;
  static constexpr int kBits = 64;
};
template <>
struct WinnersKey<int64_t> {
  using Key = uint64_t;
  static constexpr int kBits = 64;
};
template <>
struct WinnersKey<Half> {
  using Key = uint32_t;
  static constexpr int kBits = 19;
};
template <>
struct WinnersKey<BFloat16> {
  using Key = uint32_t;
  static constexpr int kBits = 16;
};
template <typename S>
using winners_key_t = typename WinnersKey<S>::Key;
template <typename S>
constexpr int kKeyBits = WinnersKey<S>::kBits;
// Whether a pass over the row to learn in which bits its keys differ saves more than itself: inputs of neurons leave
// half of their 64 bits alone.
template <typename S>
constexpr bool kNarrowsKeys = std::is_same_v<S, int64_t>;

template <typename S>
KERNEL_DEVICE winners_key_t<S> winners_key(S element) {
  if constexpr (std::is_same_v<S, double>) {
    return order_key_of_double_bits(__builtin_bit_cast(uint64_t, element));
  } else if constexpr (std::is_integral_v<S>) {
    return order_key_of_integer(element);
  } else {
    return order_key_of_float_bits(__builtin_bit_cast(uint32_t, static_cast<float>(element))) >> (32 - kKeyBits<S>);
  }
}

// How many elements are above the k-th key, in the low half, and equal to it, in the high half.
using Tally = uint64_t;
constexpr Tally kAbove = 1;
constexpr Tally kEqual = Tally{1} << 32;

KERNEL_DEVICE int64_t above_of(Tally tally) {
  return static_cast<int64_t>(tally % kEqual);
}
KERNEL_DEVICE int64_t equal_of(Tally tally) {
  return static_cast<int64_t>(tally / kEqual);
}

// The lowest and one past the highest set bit; 0 and 0 without one.
KERNEL_DEVICE int lowest_bit(uint32_t bits) {
  return bits == 0 ? 0 : __ffs(static_cast<int>(bits)) - 1;
}
KERNEL_DEVICE int lowest_bit(uint64_t bits) {
  return bits == 0 ? 0 : __ffsll(static_cast<long long>(bits)) - 1;
}
KERNEL_DEVICE int bit_width(uint32_t bits) {
  return 32 - __clz(static_cast<int>(bits));
}
KERNEL_DEVICE int bit_width(uint64_t bits) {
  return 64 - __clzll(static_cast<long long>(bits));
}

// What is known of the k-th largest key of a row.
template <typename Key>
struct KthKey {
  Key prefix;      // its bits from `shift` up, without those above the highest in which keys differ
  int32_t shift;   // the bits below are not known
  uint32_t need;   // how many of the keys with this prefix win
  uint32_t match;  // how many keys have it
  // The bits in which the row's keys may differ: those above and below all of them have nothing to tell.
  Key differing = static_cast<Key>(~Key{0});

  KERNEL_DEVICE int32_t unknown_bits() const {
    const int32_t width = bit_width(differing);
    return shift < width ? shift : width;
  }
  KERNEL_DEVICE bool settled() const {
    return unknown_bits() <= lowest_bit(differing) || need == match;
  }
  KERNEL_DEVICE Key known_bits(Key key) const {
    const int32_t unknown = unknown_bits();
    const int32_t width = bit_width(differing);
    return unknown < width ? static_cast<Key>(key << (kBits - width)) >> (kBits - width + unknown) : Key{0};
  }
  KERNEL_DEVICE bool matches(Key key) const {
    return known_bits(key) == prefix;
  }
  KERNEL_DEVICE Tally tally(Key key) const {
    const Key bits = known_bits(key);
    return bits > prefix ? kAbove : bits == prefix ? kEqual : Tally{0};
  }
  KERNEL_DEVICE int32_t next_shift() const {
    const int32_t lowest = lowest_bit(differing);
    return unknown_bits() > lowest + kDigitBits ? unknown_bits() - kDigitBits : lowest;
  }
  KERNEL_DEVICE int32_t next_digit_bits() const {
    return unknown_bits() - next_shift();
  }
  // The digit below the known bits of a key that matches.
  KERNEL_DEVICE uint32_t next_digit(Key key) const {
    return static_cast<uint32_t>(key >> next_shift()) & ((1u << next_digit_bits()) - 1);
  }

 private:
  static constexpr int32_t kBits = 8 * sizeof(Key);
};

template <typename S>
KERNEL_DEVICE KthKey<winners_key_t<S>> unknown_key(const WinnersParams& params) {
  return {0, kKeyBits<S>, static_cast<uint32_t>(params.k), static_cast<uint32_t>(params.n)};
}

// Elements [begin, end) of a row, a run a thread at a time.
template <typename S>
struct WinnersSpan {
  static constexpr int kRun = 16 / static_cast<int>(sizeof(S));

  const S* row;
  int64_t begin;
  int64_t end;
  bool aligned;

  KERNEL_DEVICE WinnersSpan(const WinnersParams& params, int64_t r, int64_t first, int64_t size)
      : row(static_cast<const S*>(params.input) + r * params.row_stride),
        begin(first),
        end(first + size < params.n ? first + size : params.n),
        aligned(is_run_aligned<S, kRun>(row + first)) {}

  KERNEL_DEVICE int64_t first_of_thread() const {
    return begin + static_cast<int64_t>(thread_rank()) * kRun;
  }
  KERNEL_DEVICE int64_t step() const {
    return static_cast<int64_t>(block_threads()) * kRun;
  }
  KERNEL_DEVICE int size_of_run(int64_t first) const {
    return first + kRun <= end ? kRun : first < end ? static_cast<int>(end - first) : 0;
  }
  KERNEL_DEVICE ElementRun<S, kRun> load(int64_t first) const {
    return load_run<S, kRun>(row + first, size_of_run(first), aligned);
  }
  // sink(key) for this thread's elements
  template <typename Sink>
  KERNEL_DEVICE void visit_keys(const Sink& sink) const {
    for (int64_t first = first_of_thread(); first < end; first += step()) {
      const auto run = load(first);
      const int size = size_of_run(first);
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        if (i < size) {
          sink(winners_key(run.elements[i]));
        }
      }
    }
  }
};

// The bits in which this thread's keys differ from the first of the row.
template <typename S>
KERNEL_DEVICE winners_key_t<S> differing_of_thread(const WinnersSpan<S>& span) {
  const auto first = winners_key(span.row[0]);
  winners_key_t<S> differing = 0;
  span.visit_keys([&](auto key) { differing |= key ^ first; });
  return differing;
}

KERNEL_DEVICE void clear_counters(uint32_t* counters) {
  for (int d = thread_rank(); d < kDigits; d += block_threads()) {
    counters[d] = 0;
  }
}

// Counts the next digits of a thread's keys that match. Equal digits that follow each other are added at once: a row of
// one value would otherwise queue at one counter.
template <typename Key>
struct DigitCounter {
  const KthKey<Key>& kth;
  uint32_t* counters;
  uint32_t digit = 0;
  uint32_t repeats = 0;

  KERNEL_DEVICE void add(Key key) {
    if (!kth.matches(key)) {
      return;
    }
    const uint32_t next = kth.next_digit(key);
    if (next != digit) {
      flush();
    }
    digit = next;
    ++repeats;
  }
  KERNEL_DEVICE void flush() {
    if (repeats > 0) {
      atomicAdd(&counters[digit], repeats);
    }
    repeats = 0;
  }
};

// counters[d] += the number of matching keys whose next digit is d; visit(sink) calls sink(key) for every key of this
// thread.
template <typename Key, typename Visit>
KERNEL_DEVICE void count_digits(const KthKey<Key>& kth, uint32_t* counters, const Visit& visit) {
  DigitCounter<Key> counter{kth, counters};
  visit([&](Key key) { counter.add(key); });
  counter.flush();
}

// kth learns its next digit from the counters, which are 0 again on return. The block's threads share kth and meet at a
// barrier before they use it.
template <typename Key>
KERNEL_DEVICE void pick_digit(uint32_t* counters, KthKey<Key>& kth, Tally* scan) {
  const KthKey<Key> known = kth;
  const int each = (kDigits + block_threads() - 1) / block_threads();
  const int first = thread_rank() * each < kDigits ? thread_rank() * each : kDigits;
  const int end = first + each < kDigits ? first + each : kDigits;
  Tally own = 0;
  for (int i = first; i < end; ++i) {
    own += counters[kDigits - 1 - i];
  }
  Tally total = 0;
  // Digits from the highest down: `larger` keys are larger than those of digit i.
  Tally larger = block_exclusive_sum(own, scan, total);
  for (int i = first; i < end; ++i) {
    uint32_t& counter = counters[kDigits - 1 - i];
    if (larger < known.need && known.need <= larger + counter) {
      kth.shift = known.next_shift();
      kth.prefix = (known.prefix << known.next_digit_bits()) | static_cast<Key>(kDigits - 1 - i);
      kth.need = known.need - static_cast<uint32_t>(larger);
      kth.match = counter;
    }
    larger += counter;
    counter = 0;
  }
}

// The shared memory of a block that finds a k-th key by itself; the counters are 0 between two searches.
template <typename Key>
struct RadixShared {
  Tally scan[kWarpSize];
  KthKey<Key> kth;
  alignas(16) uint32_t counters[kDigits];
};

// What is known of the k-th of the block's keys, from `kth` until it is settled; visit as in count_digits. The block
// meets at a barrier between two searches.
template <typename Key, typename Visit>
KERNEL_DEVICE KthKey<Key> find_kth_key(RadixShared<Key>& shared, KthKey<Key> kth, const Visit& visit) {
  if (thread_rank() == 0) {
    shared.kth = kth;
  }
  block_sync();
  while (!kth.settled()) {
    count_digits(kth, shared.counters, visit);
    block_sync();
    pick_digit(shared.counters, shared.kth, shared.scan);
    block_sync();
    kth = shared.kth;
  }
  return kth;
}

// The tally of a thread's elements of the span.
template <typename S>
KERNEL_DEVICE Tally tally_of_thread(const WinnersSpan<S>& span, const KthKey<winners_key_t<S>>& kth) {
  Tally own = 0;
  span.visit_keys([&](auto key) { own += kth.tally(key); });
  return own;
}

// Writes the winners of the span; `before` is the tally of the elements of row r that precede it.
template <typename S>
KERNEL_DEVICE void write_winners(const WinnersParams& params, int64_t r, const WinnersSpan<S>& span,
                                 const KthKey<winners_key_t<S>>& kth, Tally before, Tally* scan) {
  S* const values = params.values == nullptr ? nullptr : static_cast<S*>(params.values) + r * params.k;
  int64_t* const indices = params.indices + r * params.k;
  const auto need = static_cast<int64_t>(kth.need);
  for (int64_t tile = span.begin; tile < span.end; tile += span.step()) {
    const int64_t first = tile - span.begin + span.first_of_thread();
    const auto run = span.load(first);
    const int size = span.size_of_run(first);
    Tally own = 0;
#pragma unroll
    for (int i = 0; i < span.kRun; ++i) {
      own += i < size ? kth.tally(winners_key(run.elements[i])) : Tally{0};
    }
    Tally total = 0;
    Tally lower = before + block_exclusive_sum(own, scan, total);
    before += total;
    if (own == 0) {
      continue;
    }
#pragma unroll
    for (int i = 0; i < span.kRun; ++i) {
      const Tally tally = i < size ? kth.tally(winners_key(run.elements[i])) : Tally{0};
      const int64_t equal = equal_of(lower);
      if (tally == kAbove || (tally == kEqual && equal < need)) {
        const int64_t at = above_of(lower) + (equal < need ? equal : need);
        indices[at] = first + i;
        if (values != nullptr) {
          values[at] = run.elements[i];
        }
      }
      lower += tally;
    }
  }
}

}  // namespace torch_hrr::kernels
