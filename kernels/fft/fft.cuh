// The complex transform of one row of M = 2^log2 points by M/8 threads that hold eight points each.
//
// Stockham stages: with P the product of the radices before it, butterfly q < M/R of a stage reads the points
// q + j M/R, multiplies point j by e^{-2 pi i (q mod P) j / (P R)}, and writes X_j to (q div P) P R + q mod P + j P.
// Between two stages the points pass through shared memory. The layouts of thread t's array v that a caller sees:
//
//   time: v[g 8/G + j] is point G t + g + (j mod R) M/R + (j div R) M/8, R the outer radix (kRadix), G (kRun) points of
//   16 bytes together, 8/R at most: forward's input, inverse's output.
//
//   spectrum: v[j] is bin t + j M/4, v[4 + j] bin t' + j M/4, t' = M/4 - t (M/8 where t = 0): mirrors share a thread.
#pragma once

#include "kernels/cuda/element_run.cuh"
#include "kernels/fft/twiddles.h"
#include "kernels/numeric.h"

// A step that works on a thread's whole array: inlined on the device, where the array must stay in registers; a
// function on the host, where a test compiles it once for all the kernels that take it.
#if defined(__CUDACC__)
#define KERNEL_DEVICE_STEP KERNEL_DEVICE
#else
#define KERNEL_DEVICE_STEP __attribute__((noinline))
#endif

// Rare paths stay out of line: inlined, they would cost the common path half of its registers.
#if defined(__CUDACC__)
#define KERNEL_COLD __device__ __noinline__
#else
#define KERNEL_COLD __attribute__((noinline))
#endif

namespace torch_hrr::kernels {

constexpr int kPointsPerThread = 8;

// Shared memory serves the accesses of a warp in phases of as many lanes as ask for this much, every bank once.
constexpr int kSharedPhaseBytes = 128;

template <typename T>
KERNEL_DEVICE Complex<T> add(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename T>
KERNEL_DEVICE Complex<T> subtract(Complex<T> a, Complex<T> b) {
  return {a.re - b.re, a.im - b.im};
}

// The 4-point transform of v[0], v[kStep], ...: in place, natural order.
template <int kStep, typename T>
KERNEL_DEVICE void transform4(Complex<T>* v) {
  const Complex<T> s0 = add(v[0], v[2 * kStep]);
  const Complex<T> d0 = subtract(v[0], v[2 * kStep]);
  const Complex<T> s1 = add(v[kStep], v[3 * kStep]);
  const Complex<T> d1 = subtract(v[kStep], v[3 * kStep]);
  v[0] = add(s0, s1);
  v[kStep] = {d0.re + d1.im, d0.im - d1.re};
  v[2 * kStep] = subtract(s0, s1);
  v[3 * kStep] = {d0.re - d1.im, d0.im + d1.re};
}

// The 8-point transform: even bins from v_j + v_{j+4}, odd bins from (v_j - v_{j+4}) e^{-2 pi i j / 8}.
template <typename T>
KERNEL_DEVICE void transform8(Complex<T>* v) {
  constexpr T kHalfRoot = static_cast<T>(0.70710678118654752440);
  Complex<T> even[4];
  Complex<T> odd[4];
  for (int j = 0; j < 4; ++j) {
    even[j] = add(v[j], v[j + 4]);
    odd[j] = subtract(v[j], v[j + 4]);
  }
  odd[1] = {(odd[1].re + odd[1].im) * kHalfRoot, (odd[1].im - odd[1].re) * kHalfRoot};
  odd[2] = {odd[2].im, -odd[2].re};
  odd[3] = {(odd[3].im - odd[3].re) * kHalfRoot, -((odd[3].re + odd[3].im) * kHalfRoot)};
  transform4<1>(even);
  transform4<1>(odd);
  for (int j = 0; j < 4; ++j) {
    v[2 * j] = even[j];
    v[2 * j + 1] = odd[j];
  }
}

// A block holds block_threads() / kThreads rows. The threads that must reach a barrier together, the team, are a warp
// where a row (or several) fits into one, else the block.
template <typename T, int kLog2>
struct RowFft {
  static constexpr int kPoints = 1 << kLog2;  // M
  static constexpr int kThreads = kPoints / kPointsPerThread;
  static constexpr bool kTeamIsWarp = kThreads <= kWarpSize;
  static constexpr int kRadix = device_fft_stages(kLog2, false).radix[0];
  static constexpr int kStages = device_fft_stages(kLog2, false).count;

  using Point = TwiddlePoint<T>;

  // G: neighbouring points of a thread in the time layout, one load of a lane.
  static constexpr int kRun = sizeof(Point) < 16 ? kPointsPerThread / kRadix : 1;
  static constexpr int kPhasePoints = kSharedPhaseBytes / sizeof(Point);
  static constexpr bool kSharesPhase = kThreads < kPhasePoints;
  static constexpr int kPhase = kSharesPhase ? kThreads : kPhasePoints;  // threads of one row in a phase
  // Points of shared memory from a row to the next; rows that share a phase begin at different banks.
  static constexpr int kRowPoints = kPoints + (kSharesPhase ? kThreads : 0);

  int thread;       // t, of this row
  int row;          // of this block
  Point* exchange;  // all rows'
  int first_point;  // this row's
  T* partials;      // warp_count() values, the block's
  const Point* twiddles;

  static constexpr std::size_t shared_bytes(int threads) {
    return static_cast<std::size_t>(threads / kThreads) * kRowPoints * sizeof(Point) +
           static_cast<std::size_t>(threads / kWarpSize) * sizeof(T);
  }

  KERNEL_DEVICE explicit RowFft(const Point* twiddle_table) : twiddles(twiddle_table) {
    thread = thread_rank() % kThreads;
    row = thread_rank() / kThreads;
    exchange = dynamic_shared<Point>();
    first_point = row * kRowPoints;
    partials = reinterpret_cast<T*>(exchange + rows_per_block() * kRowPoints);
  }

  // The same thread of the same row, which the compiler cannot know: it computes addresses anew rather than keep those
  // of the last load or transform through the next, where registers decide how many blocks run. Every lane calls it.
  KERNEL_DEVICE RowFft with_fresh_addresses() const {
    RowFft same = *this;
    same.thread = shuffle(thread, lane_index());
    same.first_point = shuffle(first_point, lane_index());
    return same;
  }

  KERNEL_DEVICE static int rows_per_block() {
    return block_threads() / kThreads;
  }

  KERNEL_DEVICE void sync() const {
    if constexpr (kTeamIsWarp) {
      warp_sync();
    } else {
      block_sync();
    }
  }

  // combine over the threads of a row in an order that depends on kLog2 alone; every thread gets the same bits.
  template <typename V, typename Combine>
  KERNEL_DEVICE V row_reduce(V value, const Combine& combine) const {
    static_assert(sizeof(V) <= sizeof(T));
    [[maybe_unused]] V* const of_warps = reinterpret_cast<V*>(partials);
    constexpr int kLanes = kTeamIsWarp ? kThreads : kWarpSize;
    const auto among = [&](int lanes) {
      for (int mask = lanes / 2; mask > 0; mask /= 2) {
        value = combine(value, shuffle_xor(value, mask));
      }
    };
    among(kLanes);
    if constexpr (!kTeamIsWarp) {
      constexpr int kWarps = kThreads / kWarpSize;
      if (lane_index() == 0) {
        of_warps[warp_index()] = value;
      }
      block_sync();
      value = of_warps[row * kWarps + lane_index() % kWarps];
      among(kWarps);
      block_sync();
    }
    return value;
  }

  KERNEL_DEVICE T row_sum(T value) const {
    return row_reduce(value, [](T a, T b) { return a + b; });
  }
  KERNEL_DEVICE uint32_t row_max(uint32_t value) const {
    return row_reduce(value, [](uint32_t a, uint32_t b) { return a < b ? b : a; });
  }

  // Point n of the row, in the exchange buffer: where the last stage of an inverse reads it.
  KERNEL_DEVICE Point& stored(int n) const {
    return exchange[first_point + place<Stage<true, kStages - 2>, Stage<true, kStages - 1>>(n)];
  }

  // The first point of run j in the time layout; the run has kRun points.
  KERNEL_DEVICE int time_point(int j) const {
    return kRun * thread + j % kRadix * (kPoints / kRadix) + j / kRadix * kThreads;
  }

  KERNEL_DEVICE int mirror_thread() const {
    return thread == 0 ? kPoints / 8 : kPoints / 4 - thread;
  }

  // e^{-2 pi i p / M} for p < M/4
  KERNEL_DEVICE Complex<T> root(int p) const {
    const Point w = twiddles[first_twiddle(kPoints) + p];
    return {w.re, w.im};
  }

  KERNEL_DEVICE_STEP void forward(Complex<T> (&v)[kPointsPerThread]) const {
    with_fresh_addresses().template run_stages<false, 0>(v);
  }

  // M times the inverse transform: the forward one with re and im swapped on both sides.
  KERNEL_DEVICE_STEP void inverse(Complex<T> (&v)[kPointsPerThread]) const {
    swap_parts(v);
    with_fresh_addresses().template run_stages<true, 0>(v);
    swap_parts(v);
  }

 private:
  template <bool kInverse, int kStage>
  struct Stage {
    static constexpr int kCount = device_fft_stages(kLog2, kInverse).count;
    static constexpr int kRadix = device_fft_stages(kLog2, kInverse).radix[kStage];
    static constexpr int kButterflies = kPointsPerThread / kRadix;
    static constexpr int kPeriod = stage_period(kLog2, kInverse, kStage);
    static constexpr int kStep = kPoints / kRadix;
    static constexpr bool kOuter = kStage == (kInverse ? kCount - 1 : 0);
    static constexpr bool kMirrored = kStage == (kInverse ? 0 : kCount - 1);
    static constexpr int kNeighbours = kOuter ? kRun : 1;  // butterflies from a thread to the next
  };

  KERNEL_DEVICE static void swap_parts(Complex<T> (&v)[kPointsPerThread]) {
    for (int i = 0; i < kPointsPerThread; ++i) {
      v[i] = {v[i].im, v[i].re};
    }
  }

  // The butterfly q that is this thread's g-th.
  template <typename S>
  KERNEL_DEVICE unsigned butterfly(int g) const {
    if constexpr (S::kMirrored) {
      return g == 0 ? thread : mirror_thread();
    } else {
      return S::kNeighbours * thread + g % S::kNeighbours + g / S::kNeighbours * kThreads;
    }
  }

  template <bool kInverse, int kStage>
  KERNEL_DEVICE void run_stages(Complex<T> (&v)[kPointsPerThread]) const {
    using S = Stage<kInverse, kStage>;
    if constexpr (kStage > 0) {
      for (int g = 0; g < S::kButterflies; g += S::kNeighbours) {
        multiply_twiddles<S>(v + g * S::kRadix, butterfly<S>(g) % S::kPeriod);
      }
    }
    for (int g = 0; g < S::kButterflies; ++g) {
      Complex<T>* const points = v + g * S::kRadix;
      if constexpr (S::kRadix == 8) {
        transform8(points);
      } else {
        transform4<1>(points);
      }
    }
    if constexpr (kStage + 1 < S::kCount) {
      pass_on<S, Stage<kInverse, kStage + 1>>(v);
      run_stages<kInverse, kStage + 1>(v);
    }
  }

  // e^{-2 pi i (p + i) / kSize}, i < kCount, in as few loads as may be
  template <int kSize, int kCount>
  KERNEL_DEVICE ElementRun<T, 2 * kCount> roots(unsigned p) const {
    return *reinterpret_cast<const ElementRun<T, 2 * kCount>*>(twiddles + first_twiddle(kSize) + p);
  }

  // The points of neighbouring butterflies times their twiddles, of which the first one's are number p of their period.
  template <typename S>
  KERNEL_DEVICE void multiply_twiddles(Complex<T>* v, unsigned p) const {
    constexpr int kSize = S::kPeriod * S::kRadix;
    const auto run1 = roots<kSize, S::kNeighbours>(p);
    const auto run2 = roots<kSize / 2, S::kNeighbours>(p);
    for (int i = 0; i < S::kNeighbours; ++i) {
      Complex<T>* const points = v + i * S::kRadix;
      const Complex<T> w1{run1.elements[2 * i], run1.elements[2 * i + 1]};
      const Complex<T> w2{run2.elements[2 * i], run2.elements[2 * i + 1]};
      const Complex<T> w3 = multiply(w1, w2);
      points[1] = multiply(points[1], w1);
      points[2] = multiply(points[2], w2);
      points[3] = multiply(points[3], w3);
      if constexpr (S::kRadix == 8) {
        static_assert(S::kNeighbours == 1);
        const auto run4 = roots<kSize / 4, 1>(p);
        const Complex<T> w4{run4.elements[0], run4.elements[1]};
        points[4] = multiply(points[4], w4);
        points[5] = multiply(points[5], multiply(w4, w1));
        points[6] = multiply(points[6], multiply(w4, w2));
        points[7] = multiply(points[7], multiply(w4, w3));
      }
    }
  }

  // Where point n of an exchange lies, so that each phase meets every bank once. Only the last bits, below kPhase, tell
  // the bank, and only they change; place(m ^ n) = place(m) ^ place(n), on which joined stands. The second term:
  // threads write kPeriod points side by side, and then kRadix kNeighbours further on, so the bits of n / (kRadix
  // kNeighbours) above kPeriod are added. The third: where threads read every second point, the bit that is lost comes
  // from above.
  template <typename From, typename To>
  static constexpr KERNEL_HOST_DEVICE int place(unsigned n) {
    constexpr unsigned kWriters = From::kPeriod < kPhase ? kPhase - From::kPeriod : 0;
    return n ^ (n / (From::kRadix * From::kNeighbours) & kWriters) ^ (n / kPhase & unsigned{To::kNeighbours - 1});
  }

  // The place of the sum of two indices that have no bit in common: of a variable and a constant one, which then costs
  // an addition in the address and, where it has a part in the bank, an exclusive or.
  static constexpr KERNEL_HOST_DEVICE int joined(int variable_place, int constant_place) {
    return (variable_place ^ constant_place % kPhase) + constant_place / kPhase * kPhase;
  }

  template <typename From, typename To>
  KERNEL_DEVICE void pass_on(Complex<T> (&v)[kPointsPerThread]) const {
    sync();
    for (int g = 0; g < From::kButterflies; ++g) {
      const unsigned q = butterfly<From>(g);
      const unsigned n = q / From::kPeriod * From::kPeriod * From::kRadix + q % From::kPeriod;
      const int base = first_point + place<From, To>(n);
      for (int j = 0; j < From::kRadix; ++j) {
        const Complex<T> value = v[g * From::kRadix + j];
        exchange[joined(base, place<From, To>(j * From::kPeriod))] = {value.re, value.im};
      }
    }
    sync();
    for (int g = 0; g < To::kButterflies; ++g) {
      const int base = first_point + place<From, To>(butterfly<To>(g));
      for (int j = 0; j < To::kRadix; ++j) {
        const Point value = exchange[joined(base, place<From, To>(j * To::kStep))];
        v[g * To::kRadix + j] = {value.re, value.im};
      }
    }
  }
};

}  // namespace torch_hrr::kernels
