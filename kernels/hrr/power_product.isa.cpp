// Products of powers of rows on the CPU; compiled once per instruction set.
#include "kernels/hrr/power_product.h"

#include <limits>
#include <type_traits>

#include "kernels/hrr/row_scaling.h"
#include "kernels/hrr/safe_range.h"
#include "kernels/math.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

constexpr int64_t kBlock = LogarithmTable::kBlock;
// Rows of one table whose sums are taken together, each in its own order: a part of the table is read for all of them.
constexpr int kRowsTogether = 4;
constexpr int kDoubles = kVectorBytes / 8;
using Doubles = Simd<double, kDoubles>;

// Stands for the logarithm of an empty bin: no computed one is so close to 0 without being 0.
template <typename T>
constexpr T kLogarithmOfEmpty = std::numeric_limits<T>::min();

template <typename T>
constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(T));

// Re A_0, 0, Re A_1, Im A_1, ..., zeros up to whole blocks, and back. Where D is even the last bin has 0 too.
template <typename T>
void unpack_row(const T* packed, const LogarithmTable& table, T* bins) {
  const int64_t dim = table.dim;
  bins[0] = packed[0];
  bins[1] = 0;
  __builtin_memcpy(static_cast<void*>(bins + 2), packed + 1, static_cast<size_t>(dim - 1) * sizeof(T));
  for (int64_t i = dim + 1; i < 2 * kBlock * table.blocks(); ++i) {
    bins[i] = 0;
  }
}
template <typename T>
void pack_row(const T* bins, int64_t dim, T* packed) {
  packed[0] = bins[0];
  __builtin_memcpy(static_cast<void*>(packed + 1), bins + 2, static_cast<size_t>(dim - 1) * sizeof(T));
}

// The sum of |A|^2 over all D bins, which is D norm2^2. A bin is empty where |A|^2 is at most eps^2 times that.
template <typename T>
T squared_sum(const T* bins, const LogarithmTable& table) {
  T sum = 2 * dot<kWidth<T>>(bins, bins, 2 * kBlock * table.blocks()) - bins[0] * bins[0];
  if (table.dim % 2 == 0) {
    sum -= bins[table.dim] * bins[table.dim];
  }
  return sum;
}

template <typename T>
void logarithms_of_rows(const LogarithmParams& params, int64_t begin, int64_t end, T* bins) {
  constexpr int W = kWidth<T>;
  using V = Simd<T, W>;
  const LogarithmTable& table = params.table;
  const V zero = V::broadcast(0);
  const V one = V::broadcast(1);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t item = r % table.items;
    double* const turns = params.tables + r / table.items * table.size();
    T* const sizes = reinterpret_cast<T*>(turns + table.turns());
    T* const marks = reinterpret_cast<T*>(turns + table.marks());
    const T* const row = static_cast<const T*>(params.spectra) + r * table.dim;
    if (!all_finite(row, table.dim)) {
      // All bins of the products are NaN.
      for (int64_t k = 0; k < kBlock * table.blocks(); k += W) {
        const int64_t place = table.place(k / kBlock, item) + k % kBlock;
        V::broadcast(std::numeric_limits<T>::quiet_NaN()).store(sizes + place);
        store_as(zero, turns + place);
      }
      continue;
    }
    unpack_row(row, table, bins);
    T sum = squared_sum(bins, table);
    int exponent = 0;
    if (!safe_squared_norm(sum)) {
      // Squares out of range: the row times a power of two, whose logarithm is subtracted again.
      exponent = unit_exponent(largest_magnitude(row, table.dim, 0));
      scale_row(bins, 2 * kBlock * table.blocks(), exponent);
      sum = squared_sum(bins, table);
    }
    constexpr T kEpsilon = NumberLimits<T>::kEpsilon;
    const V threshold = V::broadcast(kEpsilon * kEpsilon * sum);
    const V half = V::broadcast(T(0.5));
    const V logarithm_of_scale = V::broadcast(static_cast<T>(-exponent * kLn2));
    for (int64_t k = 0; k < kBlock * table.blocks(); k += W) {
      const int64_t place = table.place(k / kBlock, item) + k % kBlock;
      const V low = V::load(bins + 2 * k);
      const V high = V::load(bins + 2 * k + W);
      const V re = shuffle<EvenLanes>(low, high);
      const V im = shuffle<OddLanes>(low, high);
      const V power = multiply_add(re, re, im * im);
      const auto empty = power <= threshold;
      const V size = multiply_add(logarithm(select(empty, one, power)), half, logarithm_of_scale);
      select(empty, V::broadcast(kLogarithmOfEmpty<T>), size).store(sizes + place);
      store_as(angle_in_turns(select(empty, one, re), select(empty, zero, im)), turns + place);
      if (any(empty)) {
        // Rows of a group, on several threads, mark the same bins.
        const V flags = select(empty, one, zero);
        for (int64_t j = 0; j < W && k + j < table.bins(); ++j) {
          T flag = flags.lanes[j];
          if (flag != 0) {
            __atomic_store(marks + k + j, &flag, __ATOMIC_RELAXED);
          }
        }
      }
    }
    const auto move_sign = [&](int64_t k, T* negative) {
      double& turn = turns[table.place(k / kBlock, item) + k % kBlock];
      *negative = turn != 0 ? T(1) : T(0);
      turn = 0;
    };
    move_sign(0, marks + table.first_is_negative() + item);
    if (table.dim % 2 == 0 && table.dim > 1) {
      move_sign(table.dim / 2, marks + table.last_is_negative() + item);
    }
  }
}

// What is left of a turn when whole ones are dropped. Exact; numbers too large for the rounding are whole.
KERNEL_HOST_DEVICE Doubles part_of_turn(Doubles turns) {
  const Doubles rounding = Doubles::broadcast(NumberFormat<double>::kRounding);
  return turns - ((turns + rounding) - rounding);
}

template <typename T>
KERNEL_HOST_DEVICE SineCosine<Simd<T, kWidth<T>>> direction_of(const Doubles* turns) {
  using V = Simd<T, kWidth<T>>;
  if constexpr (sizeof(T) == 8) {
    const Doubles part = part_of_turn(turns[0]);
    return sine_cosine_pi<V>(part + part);
  } else {
    // Beside this number the last bits of a fraction are its 32 bits.
    const Doubles beside = Doubles::broadcast(0x1.8p20);
    const auto fraction = [&](Doubles turn) { return bits_of(part_of_turn(turn) + beside) << 32; };
    return sine_cosine_of_phase<V>(high_halves(fraction(turns[0]), fraction(turns[1])));
  }
}

template <typename T>
struct ProductScratch {
  T* exponents;    // kRowsTogether rows
  double* padded;  // one row
  T* bins;         // kRowsTogether rows

  static constexpr int64_t padded_items(int64_t items) {
    return (items + 7) / 8 * 8;
  }
  static int64_t row_size(const LogarithmTable& table) {
    return 2 * kBlock * table.blocks();
  }
  ProductScratch(const LogarithmTable& table, void* memory)
      : exponents(static_cast<T*>(memory)),
        padded(reinterpret_cast<double*>(exponents + kRowsTogether * padded_items(table.items))),
        bins(reinterpret_cast<T*>(padded + padded_items(table.items))) {}
  static int64_t bytes(const LogarithmTable& table) {
    const int64_t numbers = kRowsTogether * (padded_items(table.items) + row_size(table));
    return numbers * static_cast<int64_t>(sizeof(T)) + padded_items(table.items) * 8;
  }
};

// The powers' signs at real bins: a product of cos(pi x) over the rows that are negative there.
template <typename T>
void multiply_real_bins(const LogarithmTable& table, const T* marks, const double* exponents, double* padded, T* bins) {
  const int64_t items = table.items;
  double first = 1;
  double last = 1;
  for (int64_t k = 0; k < items; ++k) {
    padded[k] = exponents[k];
  }
  for (int64_t k = items; k < ProductScratch<T>::padded_items(items); ++k) {
    padded[k] = 0;
  }
  for (int64_t k = 0; k < items; k += kDoubles) {
    sine_cosine_pi(Doubles::load(padded + k)).cosine.store(padded + k);
  }
  const bool has_last = table.dim % 2 == 0;
  for (int64_t k = 0; k < items; ++k) {
    first *= marks[table.first_is_negative() + k] != 0 ? padded[k] : 1;
    last *= has_last && marks[table.last_is_negative() + k] != 0 ? padded[k] : 1;
  }
  bins[0] = static_cast<T>(bins[0] * first);
  if (has_last) {
    bins[table.dim] = static_cast<T>(bins[table.dim] * last);
  }
}

// 0 where a bin is empty in a row of another exponent than 0, else exp(size). A row that is not finite makes the empty
// bins of others NaN, too.
template <typename T>
KERNEL_HOST_DEVICE Simd<T, kWidth<T>> length_beside_empty(Simd<T, kWidth<T>> size, const T* sizes,
                                                          const double* exponents, int64_t items) {
  using V = Simd<T, kWidth<T>>;
  const V zero = V::broadcast(0);
  V length = exponential(size);
  for (int64_t k = 0; k < items; ++k) {
    if (exponents[k] != 0) {
      const auto empty = V::load(sizes + k * kBlock) == V::broadcast(kLogarithmOfEmpty<T>);
      length = select(empty, select(size == size, zero, size), length);
    }
  }
  return length;
}

// kRows rows from row r on, of one table.
template <typename T, int kRows>
void product_of_rows(const PowerProductParams& params, const double* group, int64_t r,
                     const ProductScratch<T>& scratch) {
  constexpr int W = kWidth<T>;
  constexpr int kParts = W / kDoubles;
  using V = Simd<T, W>;
  const LogarithmTable& table = params.table;
  const int64_t items = table.items;
  const double* const turns = group;
  const T* const sizes = reinterpret_cast<const T*>(group + table.turns());
  const T* const marks = reinterpret_cast<const T*>(group + table.marks());
  const int64_t row_size = ProductScratch<T>::row_size(table);
  const double* exponents[kRows];
  for (int i = 0; i < kRows; ++i) {
    exponents[i] = params.exponents + row_offset(params.map, 1, r + i);
    for (int64_t k = 0; k < items; ++k) {
      scratch.exponents[i * items + k] = static_cast<T>(exponents[i][k]);
    }
  }
  for (int64_t bin = 0; bin < kBlock * table.blocks(); bin += W) {
    const int64_t place = table.place(bin / kBlock, 0) + bin % kBlock;
    V size[kRows];
    Doubles turn[kRows][kParts];
    for (int i = 0; i < kRows; ++i) {
      size[i] = V::broadcast(0);
      for (int part = 0; part < kParts; ++part) {
        turn[i][part] = Doubles::broadcast(0);
      }
    }
    for (int64_t k = 0; k < items; ++k) {
      const int64_t own = place + k * kBlock;
      const V logarithm = V::load(sizes + own);
      Doubles angle[kParts];
      for (int part = 0; part < kParts; ++part) {
        angle[part] = Doubles::load(turns + own + part * kDoubles);
      }
      for (int i = 0; i < kRows; ++i) {
        size[i] = multiply_add(V::broadcast(scratch.exponents[i * items + k]), logarithm, size[i]);
        const Doubles exponent = Doubles::broadcast(exponents[i][k]);
        for (int part = 0; part < kParts; ++part) {
          turn[i][part] = multiply_add(exponent, angle[part], turn[i][part]);
        }
      }
    }
    const bool has_empty = any(V::broadcast(0) < V::load(marks + bin));
    for (int i = 0; i < kRows; ++i) {
      const V length =
          has_empty ? length_beside_empty<T>(size[i], sizes + place, exponents[i], items) : exponential(size[i]);
      const SineCosine<V> direction = direction_of<T>(turn[i]);
      const V re = length * direction.cosine;
      const V im = length * direction.sine;
      T* const target = scratch.bins + i * row_size + 2 * bin;
      shuffle<InterleaveLow>(re, im).store(target);
      shuffle<InterleaveHigh>(re, im).store(target + W);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    T* const out = static_cast<T*>(params.out) + (r + i) * table.dim;
    if (!all_finite(exponents[i], items)) {
      fill_nan(out, table.dim);
      continue;
    }
    T* const bins = scratch.bins + i * row_size;
    multiply_real_bins(table, marks, exponents[i], scratch.padded, bins);
    pack_row(bins, table.dim, out);
  }
}

template <typename T>
void products_of_rows(const PowerProductParams& params, int64_t begin, int64_t end, void* memory) {
  const ProductScratch<T> scratch(params.table, memory);
  const auto table_of = [&](int64_t r) { return params.tables + row_offset(params.map, 0, r); };
  for (int64_t r = begin; r < end;) {
    const double* const group = table_of(r);
    bool together = r + kRowsTogether <= end;
    for (int64_t i = 1; together && i < kRowsTogether; ++i) {
      together = table_of(r + i) == group;
    }
    if (together) {
      product_of_rows<T, kRowsTogether>(params, group, r, scratch);
    } else {
      product_of_rows<T, 1>(params, group, r, scratch);
    }
    r += together ? kRowsTogether : 1;
  }
}

}  // namespace

KERNEL_REGISTER(RowKernel<LogarithmParams>,
                {[](const LogarithmParams& params) { return 4 * params.table.dim; },
                 [](const LogarithmParams& params) { return 2 * kBlock * params.table.blocks() * 8; },
                 [](const LogarithmParams& params, int64_t begin, int64_t end, void* scratch) {
                   params.table.is_double ? logarithms_of_rows(params, begin, end, static_cast<double*>(scratch))
                                          : logarithms_of_rows(params, begin, end, static_cast<float*>(scratch));
                 }})
KERNEL_REGISTER(RowKernel<PowerProductParams>,
                {[](const PowerProductParams& params) { return (params.table.items + 4) * params.table.dim; },
                 [](const PowerProductParams& params) {
                   return params.table.is_double ? ProductScratch<double>::bytes(params.table)
                                                 : ProductScratch<float>::bytes(params.table);
                 },
                 [](const PowerProductParams& params, int64_t begin, int64_t end, void* scratch) {
                   params.table.is_double ? products_of_rows<double>(params, begin, end, scratch)
                                          : products_of_rows<float>(params, begin, end, scratch);
                 }})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
