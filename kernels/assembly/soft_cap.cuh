// Soft winners on a GPU: one block a row, sums in the order of block_sum.
//
// Where shared memory has room for eight bytes an element the row is read once and every exponential computed once. Of
// longer rows the elements stay there, or the first of them and the others are read anew in every step of the search;
// exponentials are computed anew for all. Bits depend on the row, the kernel's block size and the storage type alone.
#pragma once

#include <limits>
#include <type_traits>

#include "kernels/assembly/radix_select.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/stored.cuh"
#include "kernels/numeric.h"

#include "kernels/assembly/cap_formulas.h"

namespace torch_hrr::kernels {

constexpr int kCapThreads = 256;

// What of a row stays in shared memory.
struct CapRoom {
  bool numbers = false;  // a double of each element
  int32_t elements = 0;  // or so many elements, the first ones
};

// Keeping part of a row leaves a multiprocessor room for one block only. It pays where two thirds fit: about ten passes
// over the rest are then some 1 + 10/3 reads of the row.
template <typename T>
CapRoom cap_room(int64_t n, std::size_t shared_limit) {
  const std::size_t fixed = sizeof(RadixShared<T>);
  const auto room = static_cast<int64_t>(shared_limit > fixed ? shared_limit - fixed : 0);
  if (n <= room / static_cast<int64_t>(sizeof(double))) {
    return {true, 0};
  }
  const int64_t fit = room / static_cast<int64_t>(sizeof(T));
  return {false, static_cast<int32_t>(fit >= n ? n : fit >= (2 * n + 2) / 3 ? fit : 0)};
}

// A row as its block sees it; every member function but element is a call of the whole block.
template <typename T>
struct BlockRow {
  using Key = winners_key_t<T>;

  StoredInput<T> stored;
  int n;
  RadixShared<T>& shared;
  CapRoom room;

  // [n], with room for numbers: the elements until the search for the threshold begins, then proximities, then d.
  KERNEL_DEVICE double* numbers() const {
    return reinterpret_cast<double*>(&shared + 1);
  }
  // [room.elements]
  KERNEL_DEVICE T* elements() const {
    return reinterpret_cast<T*>(&shared + 1);
  }

  // body(i) for this thread's elements, the same ones each time
  template <typename Body>
  KERNEL_DEVICE void each(const Body& body) const {
    for (int64_t i = thread_rank(); i < n; i += kCapThreads) {
      body(i);
    }
  }
  KERNEL_DEVICE T element(int64_t i) const {
    return room.numbers ? static_cast<T>(numbers()[i]) : i < room.elements ? elements()[i] : stored[i];
  }
  template <typename Value>
  KERNEL_DEVICE Value total(Value value) const {
    return block_sum(value, reinterpret_cast<Value*>(shared.scan));
  }
  KERNEL_DEVICE Key largest(Key value) const {
    return block_max(value, reinterpret_cast<Key*>(shared.scan));
  }

  // Begins with the row; whether it is finite.
  KERNEL_DEVICE bool load() const {
    bool finite = true;
    each([&](int64_t i) {
      const T element = stored[i];
      finite = finite && element - element == 0;
      if (room.numbers) {
        numbers()[i] = element;
      } else if (i < room.elements) {
        elements()[i] = element;
      }
    });
    return block_all(finite);
  }

  // 1 <= k < n
  KERNEL_DEVICE CapCut cut(int k) const {
    const KthKey<T> kth = find_kth_key(shared, unknown_key<T>(n, k), [&](const auto& sink) {
      each([&](int64_t i) { sink(winners_key(element(i))); });
    });
    // The least key that reaches the k-th one's known bits, as the largest of the complements.
    Key complement = 0;
    Key below = 0;
    each([&](int64_t i) {
      const Key key = winners_key(element(i));
      const bool reaches = kth.known_bits(key) >= kth.prefix;
      Key& bound = reaches ? complement : below;
      const Key candidate = reaches ? static_cast<Key>(~key) : key;
      bound = bound < candidate ? candidate : bound;
    });
    const Key least = ~largest(complement);
    return {static_cast<double>(number_of_order_key<T>(least)),
            static_cast<double>(number_of_order_key<T>(largest(below))), static_cast<int64_t>(kth.match - kth.need)};
  }
};

// The row as find_offset asks for it. One body serves both shapes: the branch is the same for all threads.
template <typename T>
struct BlockSearch {
  // In place of the proximity of the elements equal to c, which no sum is to see: theirs is 1.
  static constexpr double kTied = 2;

  const BlockRow<T>& row;
  const CapCut& cut;
  CapScale scale;
  CapShape shape;

  KERNEL_DEVICE double measure(double element) const {
    const double p = scale.proximity(element);
    return element == cut.value ? kTied : element < cut.value ? -p : p;
  }
  // exp(-|z|), negative below c, of an element that census has seen
  KERNEL_DEVICE double proximity(int64_t i) const {
    return row.room.numbers ? row.numbers()[i] : measure(static_cast<double>(row.element(i)));
  }
  KERNEL_DEVICE static bool is_below(double p) {
    return __builtin_bit_cast(int64_t, p) < 0;
  }
  KERNEL_DEVICE CapCensus census() const {
    double above = 0;
    double below = 0;
    int tied = 0;
    row.each([&](int64_t i) {
      const double p = measure(static_cast<double>(row.element(i)));
      if (row.room.numbers) {
        row.numbers()[i] = p;
      }
      if (p == kTied) {
        ++tied;
      } else {
        (is_below(p) ? below : above) += magnitude(p);
      }
    });
    above = row.total(above);
    below = row.total(below);
    return {above, below, static_cast<double>(row.total(tied))};
  }
  KERNEL_DEVICE CapPoint<double> point(double a) const {
    return shape == CapShape::kSigmoid ? cap_point<CapShape::kSigmoid>(a) : cap_point<CapShape::kLaplace>(a);
  }
  KERNEL_DEVICE CapPoint<double> point(double p, double w, double v) const {
    return point((p == kTied ? 1 : magnitude(p)) * (is_below(p) ? v : w));
  }
  KERNEL_DEVICE CapSums sums(double w, double v) const {
    CapSums sums{0, 0, 0, 0};
    row.each([&](int64_t i) {
      const double p = proximity(i);
      if (p != kTied) {
        const CapPoint<double> at = point(p, w, v);
        const bool below = is_below(p);
        (below ? sums.present : sums.lacking) += at.q;
        (below ? sums.present_slope : sums.lacking_slope) += at.d;
      }
    });
    return {row.total(sums.lacking), row.total(sums.present), row.total(sums.lacking_slope),
            row.total(sums.present_slope)};
  }
};

// J v with J = 0, or NaN where v is not finite.
template <typename T>
KERNEL_DEVICE void store_zeros(const BlockRow<T>& row, const StoredInput<T>& v, const StoredOutput<T>& out) {
  bool finite = true;
  row.each([&](int64_t i) { finite = finite && v[i] - v[i] == 0; });
  const T value = block_all(finite) ? T{0} : std::numeric_limits<T>::quiet_NaN();
  row.each([&](int64_t i) { out.set(i, value); });
}

// J v at w; NaN where v is not finite.
template <typename T>
KERNEL_DEVICE void store_jacobian(const BlockSearch<T>& search, double w, const StoredInput<T>& v, double temperature,
                                  const StoredOutput<T>& out) {
  const BlockRow<T>& row = search.row;
  const double inverse = 1 / w;
  const auto slope = [&](int64_t i) {
    return row.room.numbers ? row.numbers()[i] : search.point(search.proximity(i), w, inverse).d;
  };
  double weight = 0;
  double weighted = 0;
  bool finite = true;
  row.each([&](int64_t i) {
    const T direction = v[i];
    const double d = search.point(search.proximity(i), w, inverse).d;
    if (row.room.numbers) {
      row.numbers()[i] = d;
    }
    finite = finite && direction - direction == 0;
    weight += d;
    weighted = multiply_add(d, static_cast<double>(direction), weighted);
  });
  if (!block_all(finite)) {
    row.each([&](int64_t i) { out.set(i, std::numeric_limits<T>::quiet_NaN()); });
    return;
  }
  weight = row.total(weight);
  weighted = row.total(weighted);
  double part = 1;
  double mean = weight > 0 ? weighted / weight : 0;
  if (!is_safe_mean(mean)) {
    part = kSmallerDirections;
    weighted = 0;
    row.each([&](int64_t i) { weighted = multiply_add(slope(i), static_cast<double>(v[i]) * part, weighted); });
    mean = row.total(weighted) / weight;
  }
  const CapJacobian jacobian(temperature, part, mean);
  row.each([&](int64_t i) { out.set(i, static_cast<T>(jacobian(slope(i), static_cast<double>(v[i])))); });
}

template <typename T>
__global__ void __launch_bounds__(kCapThreads, 2) soft_cap_kernel(SoftCapParams params, CapRoom room) {
  auto& shared = *dynamic_shared<RadixShared<T>>();
  const int k = static_cast<int>(params.k);
  const bool soft = params.result == CapResult::kSoft;
  clear_counters(shared.counters);
  for (int64_t r = blockIdx.x; r < params.rows; r += gridDim.x) {
    const BlockRow<T> row{stored_input<T>(params.inputs, params.storage) + row_offset(params.map, 0, r),
                          static_cast<int>(params.n), shared, room};
    const StoredInput<T> v = stored_input<T>(params.v, params.storage) + (soft ? 0 : row_offset(params.map, 1, r));
    const StoredOutput<T> out = stored_output<T>(params.out, params.storage) + r * params.n;
    if (!row.load()) {
      row.each([&](int64_t i) { out.set(i, std::numeric_limits<T>::quiet_NaN()); });
      continue;
    }
    const bool inner = k > 0 && k < params.n;
    const CapCut cut = inner ? row.cut(k) : CapCut{-std::numeric_limits<double>::infinity(), 0, 0};
    if (!inner || is_wide(cut, params.temperature)) {
      if (soft) {
        row.each(
            [&](int64_t i) { out.set(i, k > 0 && static_cast<double>(row.element(i)) >= cut.value ? T{1} : T{0}); });
      } else {
        store_zeros(row, v, out);
      }
      continue;
    }
    const BlockSearch<T> search{row, cut, CapScale(cut.value, params.temperature), params.shape};
    const double w = exponential(find_offset(search, cut, row.n, k, params.temperature));
    if (soft) {
      row.each([&](int64_t i) {
        const double p = search.proximity(i);
        const CapPoint<double> at = search.point(p, w, 1 / w);
        out.set(i, static_cast<T>(search.is_below(p) ? at.q : at.rest));
      });
    } else {
      store_jacobian(search, w, v, params.temperature, out);
    }
  }
}

// Bytes of shared memory for rows of n elements.
template <typename T>
constexpr std::size_t soft_cap_shared_bytes(int64_t n, const CapRoom& room) {
  return sizeof(RadixShared<T>) + (room.numbers ? static_cast<std::size_t>(n) * sizeof(double)
                                                : static_cast<std::size_t>(room.elements) * sizeof(T));
}

// Grids of at most max_blocks, and any shared memory a block may have, give the same bits; `launch_kernel` is a
// DeviceLauncher or a HostLauncher.
template <typename LaunchKernel>
void launch_soft_cap_with(const SoftCapParams& params, std::size_t shared_limit, const LaunchKernel& launch_kernel,
                          int64_t max_blocks = kMaxGridX) {
  if (params.rows == 0 || params.n == 0) {
    return;
  }
  const auto start = [&](auto zero) {
    using T = decltype(zero);
    const CapRoom room = cap_room<T>(params.n, shared_limit);
    launch_kernel("k_cap", soft_cap_kernel<T>, grid_for(params.rows, 1, max_blocks), dim3(kCapThreads),
                  soft_cap_shared_bytes<T>(params.n, room), params, room);
  };
  if (params.storage == Storage::kDouble) {
    start(double{});
  } else {
    start(float{});
  }
}

}  // namespace torch_hrr::kernels
