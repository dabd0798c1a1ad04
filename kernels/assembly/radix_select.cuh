// Radix selection by a block: the k-th largest key of a row digit by digit, and the elements above and equal to it.
//
// Digits have 11 bits: 3 passes over 32-bit keys and 6 over 64-bit ones (integers one more) where 8 bits take 4 and 8,
// and the first digit of a float then includes two bits of its fraction, so that few threads meet at one counter. The
// first digit of an integer is what a float would begin with: its sign, how many bits it has and the four after the
// highest. Its top 11 bits would be the same for almost all. The 8 KiB of counters still let blocks of 512 threads fill
// a multiprocessor. A row is settled, and needs no further pass, once all keys that match are winners: usually when the
// first digits have told the k-th key from all others.
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

// The lowest set bit, which there is, and one past the highest, 0 without one.
KERNEL_DEVICE int lowest_bit(uint32_t bits) {
  return __ffs(static_cast<int>(bits)) - 1;
}
KERNEL_DEVICE int lowest_bit(uint64_t bits) {
  return __ffsll(static_cast<long long>(bits)) - 1;
}
KERNEL_DEVICE int bit_width(uint32_t bits) {
  return 32 - __clz(static_cast<int>(bits));
}
KERNEL_DEVICE int bit_width(uint64_t bits) {
  return 64 - __clzll(static_cast<long long>(bits));
}

// The first digit of integers, as if they were floats: numbers below kSteps are told apart, larger ones by their width
// in bits and the kFraction bits after the highest. Digits grow with the key; all keys of one digit share their high
// bits, and no others have these.
template <typename Key>
struct IntegerDigit {
  static constexpr int kFraction = 4;
  static constexpr uint32_t kSteps = 2u << kFraction;
  static constexpr int kKeyBits = 8 * sizeof(Key);
  static constexpr Key kSign = Key{1} << (kKeyBits - 1);
  static constexpr int kMaxShift = kKeyBits - 1 - (kFraction + 1);
  static constexpr uint32_t kOfOneSign = kMaxShift * kSteps / 2 + kSteps;
  static_assert(2 * kOfOneSign <= kDigits);

  static KERNEL_DEVICE uint32_t of(Key key) {
    const bool positive = (key & kSign) != 0;
    const Key magnitude = (positive ? key : static_cast<Key>(~key)) & static_cast<Key>(~kSign);
    const int excess = bit_width(magnitude) - (kFraction + 1);
    const int shift = excess > 0 ? excess : 0;
    const uint32_t digit = static_cast<uint32_t>(shift) * (kSteps / 2) + static_cast<uint32_t>(magnitude >> shift);
    return positive ? kOfOneSign + digit : kOfOneSign - 1 - digit;
  }
  // How many low bits the digit leaves open, and all keys' bits above them.
  static KERNEL_DEVICE int32_t shift_of(uint32_t digit) {
    const uint32_t own = of_magnitude(digit);
    return own < kSteps ? 0 : static_cast<int32_t>(own / (kSteps / 2)) - 1;
  }
  static KERNEL_DEVICE Key prefix_of(uint32_t digit) {
    const uint32_t own = of_magnitude(digit);
    const int32_t shift = shift_of(digit);
    const Key key = kSign | static_cast<Key>(own - static_cast<uint32_t>(shift) * (kSteps / 2)) << shift;
    return (digit >= kOfOneSign ? key : static_cast<Key>(~key)) >> shift;
  }

 private:
  static KERNEL_DEVICE uint32_t of_magnitude(uint32_t digit) {
    return digit >= kOfOneSign ? digit - kOfOneSign : kOfOneSign - 1 - digit;
  }
};

// How many digits a key has at most.
template <typename S>
constexpr int kKeyDigits = std::is_integral_v<S>
                               ? 1 + (IntegerDigit<winners_key_t<S>>::kMaxShift + kDigitBits - 1) / kDigitBits
                               : (kKeyBits<S> + kDigitBits - 1) / kDigitBits;

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

// What is known of the k-th largest key of a row.
template <typename S>
struct KthKey {
  using Key = winners_key_t<S>;

  Key prefix;          // its bits from `shift` up
  int32_t shift;       // the bits below are not known
  uint32_t need;       // how many of the keys with this prefix win
  uint32_t match;      // how many keys have it
  int32_t lowest = 0;  // below this bit all keys of the row are the same

  KERNEL_DEVICE bool nothing_known() const {
    return shift == kKeyBits<S>;
  }
  KERNEL_DEVICE bool settled() const {
    return shift <= lowest || need == match;
  }
  KERNEL_DEVICE Key known_bits(Key key) const {
    return shift < static_cast<int32_t>(8 * sizeof(Key)) ? key >> shift : Key{0};
  }
  KERNEL_DEVICE bool matches(Key key) const {
    return known_bits(key) == prefix;
  }
  KERNEL_DEVICE Tally tally(Key key) const {
    const Key bits = known_bits(key);
    return bits > prefix ? kAbove : bits == prefix ? kEqual : Tally{0};
  }
  // The digit below the known bits of a key that matches.
  KERNEL_DEVICE uint32_t next_digit(Key key) const {
    if (std::is_integral_v<S> && nothing_known()) {
      return IntegerDigit<Key>::of(key);
    }
    return static_cast<uint32_t>(key >> next_shift()) & ((1u << (shift - next_shift())) - 1);
  }
  // What is known once the next digit is: `larger` of the keys that match have a larger one, `equal` this one.
  KERNEL_DEVICE KthKey with_digit(uint32_t digit, uint32_t larger, uint32_t equal) const {
    KthKey next = *this;
    next.need -= larger;
    next.match = equal;
    if (std::is_integral_v<S> && nothing_known()) {
      next.shift = IntegerDigit<Key>::shift_of(digit);
      next.prefix = IntegerDigit<Key>::prefix_of(digit);
    } else {
      next.shift = next_shift();
      next.prefix = (prefix << (shift - next.shift)) | static_cast<Key>(digit);
    }
    return next;
  }

 private:
  KERNEL_DEVICE int32_t next_shift() const {
    return shift > lowest + kDigitBits ? shift - kDigitBits : lowest;
  }
};

template <typename S>
KERNEL_DEVICE KthKey<S> unknown_key(int64_t n, int64_t k) {
  return {0, kKeyBits<S>, static_cast<uint32_t>(k), static_cast<uint32_t>(n)};
}

// Elements [begin, end) of a row, a run a thread at a time.
template <typename S>
struct WinnersSpan {
  static constexpr int kRun = 16 / static_cast<int>(sizeof(S));

  const S* row;
  int64_t begin;
  int64_t end;
  bool aligned;
  const uint32_t* indices = nullptr;  // of the elements in the row that they were taken from; null where this is it

  KERNEL_DEVICE WinnersSpan(const S* elements, int64_t first, int64_t past)
      : row(elements), begin(first), end(past), aligned(is_run_aligned<S, kRun>(elements + first)) {}
  KERNEL_DEVICE WinnersSpan(const WinnersParams& params, int64_t r, int64_t first, int64_t size)
      : WinnersSpan(static_cast<const S*>(params.input) + r * params.row_stride, first,
                    first + size < params.n ? first + size : params.n) {}

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
  KERNEL_DEVICE int64_t index(int64_t i) const {
    return indices == nullptr ? i : static_cast<int64_t>(indices[i]);
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

// Four counters at once: threads side by side then read them from different banks.
using CounterRun = ElementRun<uint32_t, 4>;
constexpr int kCounterRuns = kDigits / 4;

KERNEL_DEVICE void clear_counters(uint32_t* counters) {
  for (int run = thread_rank(); run < kCounterRuns; run += block_threads()) {
    reinterpret_cast<CounterRun*>(counters)[run] = CounterRun{};
  }
}

// Counts the next digits of a thread's keys that match. Equal digits that follow each other are added at once: a row of
// one value would otherwise queue at one counter.
template <typename S>
struct DigitCounter {
  const KthKey<S>& kth;
  uint32_t* counters;
  uint32_t digit = 0;
  uint32_t repeats = 0;

  KERNEL_DEVICE void add(winners_key_t<S> key) {
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
template <typename S, typename Visit>
KERNEL_DEVICE void count_digits(const KthKey<S>& kth, uint32_t* counters, const Visit& visit) {
  DigitCounter<S> counter{kth, counters};
  visit([&](winners_key_t<S> key) { counter.add(key); });
  counter.flush();
}

// kth learns its next digit from the counters, which are 0 again on return. The block's threads share kth and meet at a
// barrier before they use it.
template <typename S>
KERNEL_DEVICE void pick_digit(uint32_t* counters, KthKey<S>& kth, Tally* scan) {
  const KthKey<S> known = kth;
  uint32_t larger = 0;  // keys of digits above those of this tile
  for (int tile = 0; tile < kCounterRuns; tile += block_threads()) {
    // Runs from the highest digits down.
    const int at = kCounterRuns - 1 - tile - thread_rank();
    CounterRun run{};
    if (at >= 0) {
      auto& place = reinterpret_cast<CounterRun*>(counters)[at];
      run = place;
      place = CounterRun{};
    }
    uint32_t own = 0;
    for (const uint32_t count : run.elements) {
      own += count;
    }
    uint32_t total = 0;
    uint32_t above = larger + block_exclusive_sum(own, reinterpret_cast<uint32_t*>(scan), total);
    larger += total;
    if (above < known.need && known.need <= above + own) {
#pragma unroll
      for (int i = 3; i >= 0; --i) {
        const uint32_t count = run.elements[i];
        if (above < known.need && known.need <= above + count) {
          kth = known.with_digit(static_cast<uint32_t>(4 * at + i), above, count);
        }
        above += count;
      }
    }
  }
}

// The shared memory of a block that finds a k-th key by itself; the counters are 0 between two searches.
template <typename S>
struct RadixShared {
  Tally scan[kWarpSize];
  KthKey<S> kth;
  alignas(16) uint32_t counters[kDigits];
};

// What is known of the k-th of the block's keys, from `kth` until it is settled; visit as in count_digits. The block
// meets at a barrier between two searches.
template <typename S, typename Visit>
KERNEL_DEVICE KthKey<S> find_kth_key(RadixShared<S>& shared, KthKey<S> kth, const Visit& visit) {
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

// put(place, index, element) for the elements of the span that are above the k-th key, and for those equal to it while
// there are fewer than `need` in the row. Their places follow their order in the row; `before` is the tally of the
// elements of the row that precede the span. Returns the tally with the span's.
template <typename S, typename Put>
KERNEL_DEVICE Tally put_winners(const WinnersSpan<S>& span, const KthKey<S>& kth, int64_t need, Tally before,
                                Tally* scan, const Put& put) {
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
        put(above_of(lower) + (equal < need ? equal : need), span.index(first + i), run.elements[i]);
      }
      lower += tally;
    }
  }
  return before;
}

// Writes the winners of the span; `before` is the tally of the elements of row r that precede it.
template <typename S>
KERNEL_DEVICE void write_winners(const WinnersParams& params, int64_t r, const WinnersSpan<S>& span,
                                 const KthKey<S>& kth, Tally before, Tally* scan) {
  S* const values = params.values == nullptr ? nullptr : static_cast<S*>(params.values) + r * params.k;
  int64_t* const indices = params.indices + r * params.k;
  put_winners(span, kth, static_cast<int64_t>(kth.need), before, scan, [&](int64_t place, int64_t index, S element) {
    indices[place] = index;
    if (values != nullptr) {
      values[place] = element;
    }
  });
}

}  // namespace torch_hrr::kernels
