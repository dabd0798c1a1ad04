// Codes of rows and the search over them on the CPU.
//
// The search goes over blocks of items, which stay in the second cache while all queries of the group meet them: dot
// products of codes, bounds, and the cosines of the items that a bound cannot exclude. Where few are excluded the
// cosines of a whole block are computed at once, and the codes of the blocks after it are not even read.
#include "kernels/hrr/quantized_rows.h"

#include <limits>

#include "kernels/convert.h"
#include "kernels/math.h"
#include "kernels/registry.h"
#include "kernels/simd.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// No templates of the standard library: the linker would merge them with those of other instruction sets.
template <typename T>
constexpr T least(T a, T b) {
  return a < b ? a : b;
}
template <typename T>
constexpr T most(T a, T b) {
  return a < b ? b : a;
}
template <typename T>
inline void fill(T* target, int64_t count, T value) {
  for (int64_t i = 0; i < count; ++i) {
    target[i] = value;
  }
}
template <typename T>
inline void copy(const T* source, int64_t count, T* target) {
  __builtin_memcpy(target, source, static_cast<size_t>(count) * sizeof(T));
}
// ---- Products of codes: unsigned ones of queries, which are offset, with signed ones of items.

constexpr int kCodesPerStep = 64;

constexpr int64_t padded_dim(int64_t dim) {
  return (dim + kCodesPerStep - 1) / kCodesPerStep * kCodesPerStep;
}

#if defined(__AVX2__)
inline int32_t total_of(__m256i sums) {
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
#endif

#if defined(__AVX512F__)
constexpr int kTileQueries = 4;
using CodeSums = __m512i;

inline CodeSums no_sums() {
  return _mm512_setzero_si512();
}
// sums += products of 64 codes. Sums of two products of codes up to 127 fit 16 bits; with vpdpbusd offset queries may
// reach 255.
template <bool kDotProducts>
KERNEL_HOST_DEVICE void add_products(CodeSums& sums, const uint8_t* query, const int8_t* item) {
  const __m512i a = _mm512_loadu_si512(query);
  const __m512i b = _mm512_loadu_si512(item);
  if constexpr (kDotProducts) {
    // Not the intrinsic: the file is compiled for processors without it.
    asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(a), "v"(b));
  } else {
    sums = _mm512_add_epi32(sums, _mm512_madd_epi16(_mm512_maddubs_epi16(a, b), _mm512_set1_epi16(1)));
  }
}
inline int32_t total_of(CodeSums sums) {
  __m256i halves[2];
  __builtin_memcpy(halves, &sums, sizeof(sums));
  return total_of(_mm256_add_epi32(halves[0], halves[1]));
}
bool has_dot_products() {
  static const bool has = __builtin_cpu_supports("avx512vnni") != 0;
  return has;
}
#elif defined(__AVX2__)
constexpr int kTileQueries = 2;
using CodeSums = __m256i;

inline CodeSums no_sums() {
  return _mm256_setzero_si256();
}
template <bool kDotProducts>
KERNEL_HOST_DEVICE void add_products(CodeSums& sums, const uint8_t* query, const int8_t* item) {
  for (int i = 0; i < kCodesPerStep; i += 32) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(query + i));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(item + i));
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
  }
}
constexpr bool has_dot_products() {
  return false;
}
#else
constexpr int kTileQueries = 2;
using CodeSums = int32_t;

inline CodeSums no_sums() {
  return 0;
}
template <bool kDotProducts>
KERNEL_HOST_DEVICE void add_products(CodeSums& sums, const uint8_t* query, const int8_t* item) {
  for (int i = 0; i < kCodesPerStep; ++i) {
    sums += static_cast<int32_t>(query[i]) * item[i];
  }
}
inline int32_t total_of(CodeSums sums) {
  return sums;
}
constexpr bool has_dot_products() {
  return false;
}
#endif

// Codes of queries are -limit..limit, kept as the code plus offset.
int query_limit() {
  return has_dot_products() ? 127 : 63;
}
int query_offset() {
  return query_limit() + 1;
}

constexpr int64_t kTileItems = 4;
constexpr int64_t kBlockItems = 64;

// products[j][i], j < kQueries, with a row of kBlockItems a query.
template <bool kDotProducts, int kQueries>
void multiply_codes(const uint8_t* queries, const int8_t* const* items, int64_t padded, int32_t* products) {
  CodeSums sums[kQueries][kTileItems];
  for (auto& row : sums) {
    fill(row, kTileItems, no_sums());
  }
  for (int64_t d = 0; d < padded; d += kCodesPerStep) {
#pragma GCC unroll 4
    for (int j = 0; j < kQueries; ++j) {
#pragma GCC unroll 4
      for (int64_t i = 0; i < kTileItems; ++i) {
        add_products<kDotProducts>(sums[j][i], queries + j * padded + d, items[i] + d);
      }
    }
  }
  for (int j = 0; j < kQueries; ++j) {
    for (int64_t i = 0; i < kTileItems; ++i) {
      products[j * kBlockItems + i] = total_of(sums[j][i]);
    }
  }
}

template <bool kDotProducts>
void multiply_block(const uint8_t* queries, int64_t count, const int8_t* const* items, int64_t padded,
                    int32_t* products) {
  for (int64_t i = 0; i < kBlockItems; i += kTileItems) {
    int64_t j = 0;
    for (; j + kTileQueries <= count; j += kTileQueries) {
      multiply_codes<kDotProducts, kTileQueries>(queries + j * padded, items + i, padded,
                                                 products + j * kBlockItems + i);
    }
    for (; j < count; ++j) {
      multiply_codes<kDotProducts, 1>(queries + j * padded, items + i, padded, products + j * kBlockItems + i);
    }
  }
}

// ---- Cosines from the floats. The order of a sum depends on the length alone.

template <typename T>
constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(T));

template <typename T, int W>
KERNEL_HOST_DEVICE T sum_of_lanes(const Simd<T, W>& lanes) {
  if constexpr (W * sizeof(T) > 16) {
    Simd<T, W / 2> halves[2];
    __builtin_memcpy(halves, &lanes, sizeof(lanes));
    return sum_of_lanes(halves[0] + halves[1]);
  } else {
    T sum = lanes.lanes[0];
    for (int i = 1; i < W; ++i) {
      sum += lanes.lanes[i];
    }
    return sum;
  }
}

// sums[j][i] = <queries[j], rows[i]>, and squares[i] = <rows[i], rows[i]> where they are asked for.
template <bool kSquares, typename T, int kQueries, int64_t kRows>
void multiply_rows(const T* const* queries, const T* const* rows, int64_t dim, double (*sums)[kRows],
                   [[maybe_unused]] double* squares = nullptr) {
  using Lanes = Simd<T, kWidth<T>>;
  constexpr int kSums = kQueries + (kSquares ? 1 : 0);
  double totals[kSums][kRows] = {};
  for (int64_t begin = 0; begin < dim; begin += kCosineChunk) {
    const int64_t end = least(dim, begin + kCosineChunk);
    Lanes lanes[kSums][kRows];
    for (auto& row : lanes) {
      fill(row, kRows, Lanes::broadcast(0));
    }
    const auto add = [&](const auto& load) __attribute__((always_inline)) {
      // Sixteen registers hold twelve sums, the queries and a row.
      Lanes own[kQueries];
#pragma GCC unroll 4
      for (int j = 0; j < kQueries; ++j) {
        own[j] = load(queries[j]);
      }
#pragma GCC unroll 4
      for (int64_t i = 0; i < kRows; ++i) {
        const Lanes row = load(rows[i]);
#pragma GCC unroll 4
        for (int j = 0; j < kQueries; ++j) {
          lanes[j][i] = multiply_add(own[j], row, lanes[j][i]);
        }
        if constexpr (kSquares) {
          lanes[kQueries][i] = multiply_add(row, row, lanes[kQueries][i]);
        }
      }
    };
    int64_t d = begin;
    for (; d + kWidth<T> <= end; d += kWidth<T>) {
      add([&](const T* row) __attribute__((always_inline)) { return Lanes::load(row + d); });
    }
    if (d < end) {
      add([&](const T* row) {
        T tail[kWidth<T>] = {};
        copy(row + d, end - d, tail);
        return Lanes::load(tail);
      });
    }
    for (int j = 0; j < kSums; ++j) {
      for (int64_t i = 0; i < kRows; ++i) {
        totals[j][i] += static_cast<double>(sum_of_lanes(lanes[j][i]));
      }
    }
  }
  for (int64_t i = 0; i < kRows; ++i) {
    for (int j = 0; j < kQueries; ++j) {
      sums[j][i] = totals[j][i];
    }
    if constexpr (kSquares) {
      squares[i] = totals[kQueries][i];
    }
  }
}

// The power of two that brings the largest element of a row near 1; 0 for a zero row, NaN for one that is not finite.
template <typename T>
double normal_factor(const T* row, int64_t dim) {
  double largest = 0;
  bool finite = true;
  for (int64_t d = 0; d < dim; ++d) {
    const double size = magnitude(static_cast<double>(row[d]));
    finite = finite && size <= std::numeric_limits<double>::max();
    largest = most(largest, size);
  }
  if (!finite) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (largest == 0) {
    return 0;
  }
  // A factor for a subnormal double would overflow.
  return __builtin_ldexp(1.0, least(1023, -__builtin_ilogb(largest)));
}

// The cosine of a row whose squares leave the range of T, or do not exist.
template <typename T>
double careful_cosine(double product, const T* query, const T* row, int64_t dim) {
  const double factor = normal_factor(row, dim);
  if (!(factor > 0)) {
    // 0, or NaN where either holds NaN or infinity.
    return factor * product;
  }
  product = 0;
  double squares = 0;
  for (int64_t d = 0; d < dim; ++d) {
    const double element = static_cast<double>(row[d]) * factor;
    product = multiply_add(static_cast<double>(query[d]), element, product);
    squares = multiply_add(element, element, squares);
  }
  return product / square_root(squares);
}

// The norm of a row, NaN where its squares are of no use.
double norm_of(double squares) {
  return squares >= kLeastSquares && squares <= 1 / kLeastSquares ? square_root(squares)
                                                                  : std::numeric_limits<double>::quiet_NaN();
}

// ---- Rows to codes

struct Coding {
  float scale;
  float residual;
};

// visit(vector, first element) for a row, filled up with zeros.
template <typename T, typename Visit>
KERNEL_HOST_DEVICE void each_vector(const T* row, int64_t dim, const Visit& visit) {
  using Lanes = Simd<T, kWidth<T>>;
  int64_t d = 0;
  for (; d + kWidth<T> <= dim; d += kWidth<T>) {
    visit(Lanes::load(row + d), d);
  }
  if (d < dim) {
    T tail[kWidth<T>] = {};
    copy(row + d, dim - d, tail);
    visit(Lanes::load(tail), d);
  }
}

// The codes -limit..limit of a row, plus offset, as bytes.
template <typename T>
Coding code_row(const T* row, int64_t dim, int limit, int offset, uint8_t* codes) {
  using Lanes = Simd<T, kWidth<T>>;
  using Integers = Simd<int32_t, kWidth<T>>;
  // Added and subtracted, it leaves the nearest integer of a number that is far smaller.
  constexpr T kRounding = sizeof(T) == 4 ? T{0x1.8p23} : T{0x1.8p52};
  Lanes largest_lanes = Lanes::broadcast(0);
  Lanes zeros = Lanes::broadcast(0);
  each_vector(
      row, dim, [&](const Lanes& value, int64_t) __attribute__((always_inline)) {
        const Lanes size = magnitude(value);
        largest_lanes = select(size > largest_lanes, size, largest_lanes);
        zeros = zeros + (value - value);  // NaN where it is not finite
      });
  T parts[kWidth<T>];
  largest_lanes.store(parts);
  T largest = 0;
  for (const T part : parts) {
    largest = most(largest, part);
  }
  const bool finite = sum_of_lanes(zeros) == 0;
  if (!finite || largest < static_cast<T>(kLeastCoded) || largest > static_cast<T>(kLargestCoded)) {
    fill(codes, dim, static_cast<uint8_t>(offset));
    return {0, finite && largest == 0 ? 0 : std::numeric_limits<float>::infinity()};
  }
  double squares[1][1];
  multiply_rows<false, T, 1, 1>(&row, &row, dim, squares);
  const double norm = square_root(squares[0][0]);
  const auto scale = static_cast<float>(static_cast<double>(largest) / norm / limit);
  const Lanes steps = Lanes::broadcast(static_cast<T>(limit / static_cast<double>(largest)));
  const Lanes inverse = Lanes::broadcast(static_cast<T>(1 / norm));
  const Lanes unit = Lanes::broadcast(static_cast<T>(scale));
  const Lanes rounding = Lanes::broadcast(kRounding);
  Lanes rest = Lanes::broadcast(0);
  each_vector(
      row, dim, [&](const Lanes& value, int64_t first) __attribute__((always_inline)) {
        const Lanes code = (value * steps + rounding) - rounding;
        const Lanes missing = value * inverse - unit * code;
        rest = multiply_add(missing, missing, rest);
        int32_t integers[kWidth<T>];
        Integers own = converted<int32_t>(code);
        own.store(integers);
        for (int64_t i = 0; i < least(int64_t{kWidth<T>}, dim - first); ++i) {
          codes[first + i] = static_cast<uint8_t>(integers[i] + offset);
        }
      });
  // Rounded up by far more than the sums may be wrong.
  const double residual = square_root(static_cast<double>(sum_of_lanes(rest)));
  return {scale, static_cast<float>(1.001 * residual + 1e-6)};
}

template <typename S>
void quantize_rows(const QuantizeParams& params, int64_t begin, int64_t end, void* scratch) {
  using T = compute_t<S>;
  T* const row = static_cast<T*>(scratch);
  for (int64_t r = begin; r < end; ++r) {
    widen_row<S>(operand_row<S>(params.input, params.map, 0, r), params.dim, row);
    const Coding coding =
        code_row(row, params.dim, kLargestCode, 0, reinterpret_cast<uint8_t*>(params.codes) + r * params.dim);
    params.bounds[kQuantizedBounds * r] = coding.scale;
    params.bounds[kQuantizedBounds * r + 1] = coding.residual;
  }
}

template <typename S>
constexpr RowKernel<QuantizeParams> kQuantizeRows = {
    [](const QuantizeParams& params) { return 8 * params.dim; },
    [](const QuantizeParams& params) { return params.dim * static_cast<int64_t>(sizeof(compute_t<S>)); },
    quantize_rows<S>};

// ---- The search

// Divides memory into aligned parts; without memory it only counts.
struct Carver {
  char* memory;
  int64_t used = 0;

  template <typename U>
  void take(U*& part, int64_t elements) {
    part = memory == nullptr ? nullptr : reinterpret_cast<U*>(memory + used);
    used += (elements * static_cast<int64_t>(sizeof(U)) + 63) / 64 * 64;
  }
};

// What all threads know of the queries of a group.
template <typename T>
struct Prepared {
  T* units;       // [count][dim]
  float* scales;  // [count]
  float* residuals;
  uint8_t* codes;  // [1 + count][padded]: the first are ones, whose products are the sums of items' codes

  // Returns the bytes taken.
  static int64_t lay_out(const CleanupParams& params, void* memory, Prepared& prepared) {
    Carver carver{static_cast<char*>(memory)};
    carver.take(prepared.units, params.count * params.dim);
    carver.take(prepared.scales, params.count);
    carver.take(prepared.residuals, params.count);
    carver.take(prepared.codes, (1 + params.count) * padded_dim(params.dim));
    return carver.used;
  }
};

template <typename T>
int64_t prepared_bytes(const CleanupParams& params) {
  Prepared<T> prepared;
  return Prepared<T>::lay_out(params, nullptr, prepared);
}

template <typename T>
void prepare(const CleanupParams& params, void* memory) {
  Prepared<T> prepared;
  Prepared<T>::lay_out(params, memory, prepared);
  const int64_t dim = params.dim;
  const int64_t padded = padded_dim(dim);
  fill(prepared.codes, (1 + params.count) * padded, uint8_t{0});
  fill(prepared.codes, dim, uint8_t{1});
  for (int64_t j = 0; j < params.count; ++j) {
    const T* const query = static_cast<const T*>(params.queries) + j * dim;
    T* const unit = prepared.units + j * dim;
    const double factor = normal_factor(query, dim);
    double squares = 0;
    for (int64_t d = 0; d < dim; ++d) {
      const double element = static_cast<double>(query[d]) * factor;
      squares = multiply_add(element, element, squares);
    }
    const double norm = factor > 0 ? square_root(squares) : 1;
    for (int64_t d = 0; d < dim; ++d) {
      unit[d] = static_cast<T>(static_cast<double>(query[d]) * factor / norm);
    }
    const Coding coding = code_row(unit, dim, query_limit(), query_offset(), prepared.codes + (1 + j) * padded);
    prepared.scales[j] = coding.scale;
    prepared.residuals[j] = coding.residual;
  }
}

// The best items of a query so far: a heap, the last one in front.
struct Best {
  FoundItem* items;
  int64_t& size;
  int64_t limit;

  // What an item must reach.
  double threshold() const {
    return size < limit ? -std::numeric_limits<double>::infinity() : items[0].value;
  }
  void offer(const FoundItem& item) const {
    if (size < limit) {
      int64_t at = size++;
      for (; at > 0 && ranks_before(items[(at - 1) / 2], item); at = (at - 1) / 2) {
        items[at] = items[(at - 1) / 2];
      }
      items[at] = item;
    } else if (ranks_before(item, items[0])) {
      int64_t at = 0;
      for (int64_t child = 1; child < size; child = 2 * at + 1) {
        child += child + 1 < size && ranks_before(items[child], items[child + 1]) ? 1 : 0;
        if (!ranks_before(item, items[child])) {
          break;
        }
        items[at] = items[child];
        at = child;
      }
      items[at] = item;
    }
  }
};

// Loads rows of a storage type.
template <typename S, typename T>
void load_row(const CleanupParams& params, int64_t item, T* target) {
  const S* const row = static_cast<const S*>(params.rows) + item * params.row_stride;
  if constexpr (std::is_same_v<T, compute_t<S>>) {
    widen_row<S>(row, params.dim, target);
  } else {
    for (int64_t d = 0; d < params.dim; ++d) {
      target[d] = static_cast<T>(static_cast<compute_t<S>>(row[d]));
    }
  }
}

template <typename T>
class Search {
 public:
  Search(const CleanupParams& params, const void* memory, FoundItem* found, int64_t* sizes, void* scratch)
      : params_(params), found_(found), sizes_(sizes) {
    Prepared<T>::lay_out(params, const_cast<void*>(memory), prepared_);
    lay_out(params, scratch, *this);
    fill(limits_, params.count, -std::numeric_limits<double>::infinity());
  }
  static int64_t scratch_bytes(const CleanupParams& params) {
    Search nothing(params);
    return lay_out(params, nullptr, nothing);
  }

  void run(int64_t begin, int64_t end) {
    // Four places at once, each read in order: memory delivers more to several streams.
    const int64_t part = (end - begin + kTileItems - 1) / kTileItems;
    const int64_t steps = block_items(params_.dim) / kTileItems;
    int64_t unread = 0;
    int64_t wait = 1;
    for (int64_t first = 0; first < part; first += steps) {
      count_ = 0;
      for (int64_t s = first; s < least(part, first + steps); ++s) {
        for (int64_t i = 0; i < kTileItems; ++i) {
          const int64_t item = begin + i * part + s;
          if (item < least(end, begin + (i + 1) * part) && (params_.places == nullptr || params_.places[item] >= 0)) {
            items_[count_++] = item;
          }
        }
      }
      if (count_ == 0) {
        continue;
      }
      if (params_.dim > kMaxCodedDim || unread > 0) {
        --unread;
        compute_block();
        continue;
      }
      const int64_t left = bound_block();
      if (4 * left > params_.count * count_) {
        compute_block();
        // Not of the first blocks, when nothing is known yet.
        const bool known = sizes_[0] == params_.top_k;
        unread = known ? wait : 0;
        wait = known ? least(2 * wait, int64_t{64}) : 1;
      } else {
        wait = 1;
        if (left > 0) {
          compute_left();
        }
      }
    }
  }

 private:
  static constexpr int kCosineQueries = 3;

  explicit Search(const CleanupParams& params) : params_(params), found_(nullptr), sizes_(nullptr) {}

  static int64_t block_items(int64_t dim) {
    return least(kBlockItems, most(kTileItems, (int64_t{1} << 18) / dim / kTileItems * kTileItems));
  }
  bool reads_in_place() const {
    return params_.storage == (params_.is_double ? Storage::kDouble : Storage::kFloat);
  }
  static int64_t lay_out(const CleanupParams& params, void* memory, Search& search) {
    Carver carver{static_cast<char*>(memory)};
    carver.take(search.products_, (1 + params.count) * kBlockItems);
    carver.take(search.left_, params.count);
    carver.take(search.limits_, params.count);
    // Of so many items a step reads beyond the last one.
    const int64_t last = least(kBlockItems, (padded_dim(params.dim) - 1) / params.dim);
    carver.take(search.last_codes_, last * padded_dim(params.dim));
    carver.take(search.rows_, search.reads_in_place() ? 0 : block_items(params.dim) * params.dim);
    return carver.used;
  }

  Best best(int64_t j) const {
    return {found_ + j * params_.top_k, sizes_[j], params_.top_k};
  }

  // left_[j]: the items of the block that query j cannot exclude, as bits. Returns how many all have.
  int64_t bound_block() {
    const int64_t padded = padded_dim(params_.dim);
    const int8_t* codes[kBlockItems];
    float scales[kBlockItems] = {};
    float residuals[kBlockItems] = {};
    int64_t copies = 0;
    for (int64_t i = 0; i < kBlockItems; ++i) {
      // Beyond the block its last item again, whose products nobody reads.
      const int64_t item = items_[least(i, count_ - 1)];
      codes[i] = params_.codes + item * params_.dim;
      if ((params_.items - item) * params_.dim < padded) {
        // A step would read beyond the last item.
        if (i < count_) {
          int8_t* const own = last_codes_ + copies++ * padded;
          copy(codes[i], params_.dim, own);
          fill(own + params_.dim, padded - params_.dim, int8_t{0});
          codes[i] = own;
        } else {
          codes[i] = codes[count_ - 1];
        }
      }
      scales[i] = params_.bounds[kQuantizedBounds * item];
      residuals[i] = params_.bounds[kQuantizedBounds * item + 1];
    }
#if defined(__AVX512F__)
    if (has_dot_products()) {
      multiply_block<true>(prepared_.codes, 1 + params_.count, codes, padded, products_);
    } else
#endif
    {
      multiply_block<false>(prepared_.codes, 1 + params_.count, codes, padded, products_);
    }
    using Numbers = Simd<float, kWidth<float>>;
    using Integers = Simd<int32_t, kWidth<float>>;
    const uint64_t all = count_ == 64 ? ~uint64_t{0} : (uint64_t{1} << count_) - 1;
    const int32_t offset = query_offset();
    int64_t total = 0;
    for (int64_t j = 0; j < params_.count; ++j) {
      const int32_t* const products = products_ + (1 + j) * kBlockItems;
      const float residual = prepared_.residuals[j];
      const Numbers scale = Numbers::broadcast(prepared_.scales[j]);
      // product + cosine_margin(e, f) >= threshold
      const Numbers weight = Numbers::broadcast(1 + residual);
      const Numbers least = Numbers::broadcast(static_cast<float>(limits_[j]) - residual);
      uint64_t excluded = 0;
      for (int64_t i = 0; i < kBlockItems; i += kWidth<float>) {
        const Integers raw = Integers::load(products + i);
        const Integers sums = Integers::load(products_ + i);
        const Integers exact{raw.lanes - offset * sums.lanes};
        const Numbers bound = multiply_add(scale * Numbers::load(scales + i), converted<float>(exact),
                                           weight * Numbers::load(residuals + i));
        excluded |= static_cast<uint64_t>(mask_of(bound < least)) << i;
      }
      // NaN, the bound of a query that is not finite, excludes nothing.
      left_[j] = ~excluded & all;
      total += __builtin_popcountll(left_[j]);
    }
    return total;
  }

  const T* row_of(int64_t item, int64_t slot) const {
    if (reads_in_place()) {
      return static_cast<const T*>(params_.rows) + item * params_.row_stride;
    }
    T* const row = rows_ + slot * params_.dim;
    switch (params_.storage) {
      case Storage::kFloat:
        load_row<float>(params_, item, row);
        break;
      case Storage::kDouble:
        load_row<double>(params_, item, row);
        break;
      case Storage::kHalf:
        load_row<Half>(params_, item, row);
        break;
      case Storage::kBFloat16:
        load_row<BFloat16>(params_, item, row);
        break;
    }
    return row;
  }

  void offer(int64_t j, int64_t item, double product, double norm, const T* row) const {
    // Most are refused here. Of NaN nothing is.
    if (product < limits_[j] * norm) {
      return;
    }
    const T* const query = prepared_.units + j * params_.dim;
    const double exact = norm == norm ? product / norm : careful_cosine(product, query, row, params_.dim);
    // As T gives it, so that what ranks is what is returned.
    const auto cosine = static_cast<double>(static_cast<T>(exact < -1 ? -1 : exact > 1 ? 1 : exact));
    const Best found = best(j);
    found.offer({cosine == cosine ? cosine : -2, params_.places == nullptr ? item : params_.places[item], item});
    limits_[j] = found.threshold() - static_cast<double>(kCosineSlack);
  }

  // The cosines of all items of the block with all queries.
  void compute_block() {
    const T* rows[kBlockItems];
    double norms[kBlockItems];
    for (int64_t i = 0; i < count_; ++i) {
      rows[i] = row_of(items_[i], i);
    }
    const int64_t padded = (count_ + kTileItems - 1) / kTileItems * kTileItems;
    fill(rows + count_, padded - count_, rows[count_ - 1]);
    for (int64_t i = 0; i < padded; i += kTileItems) {
      compute_tile<true, 1>(0, i, rows + i, norms + i);
      int64_t j = 1;
      for (; j + kCosineQueries <= params_.count; j += kCosineQueries) {
        compute_tile<false, kCosineQueries>(j, i, rows + i, norms + i);
      }
      for (; j < params_.count; ++j) {
        compute_tile<false, 1>(j, i, rows + i, norms + i);
      }
    }
  }
  template <bool kNorms, int kQueries>
  void compute_tile(int64_t first, int64_t i, const T* const* rows, double* norms) const {
    const T* queries[kQueries];
    for (int j = 0; j < kQueries; ++j) {
      queries[j] = prepared_.units + (first + j) * params_.dim;
    }
    double sums[kQueries][kTileItems];
    multiply_rows<kNorms, T, kQueries, kTileItems>(queries, rows, params_.dim, sums, norms);
    if constexpr (kNorms) {
      for (int64_t own = 0; own < kTileItems; ++own) {
        norms[own] = norm_of(norms[own]);
      }
    }
    for (int j = 0; j < kQueries; ++j) {
      for (int64_t own = 0; own < least(kTileItems, count_ - i); ++own) {
        offer(first + j, items_[i + own], sums[j][own], norms[own], rows[own]);
      }
    }
  }

  // The cosines of the items that are left.
  void compute_left() const {
    for (int64_t j = 0; j < params_.count; ++j) {
      const T* const query = prepared_.units + j * params_.dim;
      for (uint64_t mask = left_[j]; mask != 0;) {
        int64_t items[kTileItems];
        const T* rows[kTileItems] = {};
        int64_t taken = 0;
        for (; taken < kTileItems && mask != 0; mask &= mask - 1, ++taken) {
          items[taken] = items_[__builtin_ctzll(mask)];
          rows[taken] = row_of(items[taken], taken);
        }
        fill(rows + taken, kTileItems - taken, rows[0]);
        double sums[1][kTileItems];
        double squares[kTileItems];
        multiply_rows<true, T, 1, kTileItems>(&query, rows, params_.dim, sums, squares);
        for (int64_t i = 0; i < taken; ++i) {
          offer(j, items[i], sums[0][i], norm_of(squares[i]), rows[i]);
        }
      }
    }
  }

  const CleanupParams& params_;
  Prepared<T> prepared_;
  FoundItem* found_;
  int64_t* sizes_;
  int32_t* products_;  // [1 + count][kBlockItems]
  uint64_t* left_;     // [count]
  double* limits_;     // [count]: what a cosine must reach, less what rounding may add
  int8_t* last_codes_;
  T* rows_;
  int64_t items_[kBlockItems];
  int64_t count_ = 0;
};

template <typename T>
void search(const CleanupParams& params, const void* prepared, int64_t begin, int64_t end, FoundItem* found,
            int64_t* sizes, void* scratch) {
  Search<T>(params, prepared, found, sizes, scratch).run(begin, end);
}

template <typename T>
constexpr CleanupKernels kCleanup = {prepared_bytes<T>, prepare<T>, Search<T>::scratch_bytes, search<T>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<QuantizeParams>, kQuantizeRows)
// By the compute type.
KERNEL_REGISTER(ByStorage<CleanupKernels>, {{kCleanup<float>, kCleanup<double>, kCleanup<float>, kCleanup<float>}})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
