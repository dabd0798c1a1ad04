// Sinusoids of positions on the CPU; compiled once per instruction set.
#include <type_traits>

#include "kernels/encoding/sinusoid_row.h"
#include "kernels/registry.h"
#include "kernels/streaming.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// Short rows are made by the block and leave in whole lines; a block stays in the first-level cache.
constexpr int64_t kBlockElements = 2048;

template <typename S>
KERNEL_HOST_DEVICE bool streams_result(const SinusoidParams& params) {
  return params.rows * params.dim >= kStreamBytes / static_cast<int64_t>(sizeof(S));
}

KERNEL_HOST_DEVICE int64_t rows_of_block(int64_t dim) {
  return dim < kBlockElements ? kBlockElements / dim : 1;
}
template <typename S>
int64_t block_bytes(int64_t dim) {
  return (dim < kBlockElements ? kBlockElements : dim) * static_cast<int64_t>(sizeof(compute_t<S>));
}

template <typename S>
void sinusoid_rows(const SinusoidRowParams& params, int64_t begin, int64_t end, void* scratch) {
  auto* const block = static_cast<compute_t<S>*>(scratch);
  const int64_t dim = params.dim;
  const bool streams = streams_result<S>(params);
  const int64_t block_rows = rows_of_block(dim);
  for (int64_t first = begin; first < end; first += block_rows) {
    const int64_t count = end - first < block_rows ? end - first : block_rows;
    for (int64_t r = 0; r < count; ++r) {
      make_row(params, params.turns, first + r, block + r * dim);
    }
    write_elements(block, count * dim, streams, static_cast<S*>(params.out) + first * dim);
  }
  if (streams) {
    finish_streaming();
  }
}

template <typename S>
constexpr RowKernel<SinusoidRowParams> kSinusoid = {
    [](const SinusoidRowParams& params) { return params.dim; },
    [](const SinusoidRowParams& params) { return block_bytes<S>(params.dim); }, sinusoid_rows<S>};

// sum = (table row + sinusoids) / temperature
template <typename T>
KERNEL_HOST_DEVICE void add_rows(const T* table, const T* sinusoids, int64_t dim, T temperature, T* sum) {
  constexpr int W = kLanes<T>;
  using V = Simd<T, W>;
  const V divisor = V::broadcast(temperature);
  const bool divides = temperature != 1;
  int64_t i = 0;
  for (; i + W <= dim; i += W) {
    const V both = V::load(table + i) + V::load(sinusoids + i);
    (divides ? both / divisor : both).store(sum + i);
  }
  for (; i < dim; ++i) {
    sum[i] = (table[i] + sinusoids[i]) / temperature;
  }
}

// The row of a token in the compute type: where it lies, or copied to `wide`.
template <typename T>
KERNEL_HOST_DEVICE const T* table_row(const TableParams& params, int64_t token, T* wide) {
  const auto place = [&](auto zero) {
    return static_cast<const decltype(zero)*>(params.table) + token * params.table_stride;
  };
  if constexpr (std::is_same_v<T, double>) {
    return place(double{});
  } else {
    if (params.table_storage == Storage::kFloat) {
      return place(float{});
    }
    params.table_storage == Storage::kHalf ? widen_row(place(Half{}), params.sinusoid.dim, wide)
                                           : widen_row(place(BFloat16{}), params.sinusoid.dim, wide);
    return wide;
  }
}

template <typename S>
struct TableScratch {
  using T = compute_t<S>;

  T* block;
  T* wide;
  T* sum;

  TableScratch(void* memory, int64_t dim) : block(static_cast<T*>(memory)) {
    wide = reinterpret_cast<T*>(static_cast<char*>(memory) + block_bytes<S>(dim));
    sum = wide + dim;
  }
  static int64_t bytes(int64_t dim) {
    return block_bytes<S>(dim) + 2 * dim * static_cast<int64_t>(sizeof(T));
  }
};

template <typename S>
KERNEL_HOST_DEVICE void write_table_row(const TableParams& params, int64_t r, const compute_t<S>* sinusoids,
                                        bool streams, const TableScratch<S>& scratch) {
  using T = compute_t<S>;
  const int64_t dim = params.sinusoid.dim;
  const int64_t token = load_token(params, r);
  S* const out = static_cast<S*>(params.sinusoid.out) + r * dim;
  T* sum = scratch.sum;
  if constexpr (std::is_same_v<S, T>) {
    sum = streams ? sum : out;
  }
  if (token < 0 || token >= params.table_rows) {
    fill_nan(sum, dim);
  } else if (token == params.padding) {
    __builtin_memset(static_cast<void*>(sum), 0, static_cast<size_t>(dim) * sizeof(T));
  } else {
    add_rows(table_row(params, token, scratch.wide), sinusoids, dim, static_cast<T>(params.temperature), sum);
  }
  if (static_cast<const void*>(sum) != out) {
    write_elements(sum, dim, streams, out);
  }
}

// Positions that repeat, as in a batch of sequences, are encoded once for all rows from begin to end that have them.
template <typename S>
void table_rows(const TableRowParams& params, int64_t begin, int64_t end, void* memory) {
  const SinusoidParams& sinusoid = params.sinusoid;
  const int64_t dim = sinusoid.dim;
  const TableScratch<S> scratch(memory, dim);
  const bool streams = streams_result<S>(sinusoid);
  const int64_t block_rows = rows_of_block(dim);
  const int64_t period = sinusoid.positions.period;
  // Of a part of a period, each row is one of its own.
  const int64_t step = end - begin > period ? period : end - begin;
  for (int64_t first = begin; first < begin + step; first += block_rows) {
    const int64_t count = begin + step - first < block_rows ? begin + step - first : block_rows;
    for (int64_t r = 0; r < count; ++r) {
      make_row(sinusoid, params.turns, first + r, scratch.block + r * dim);
    }
    for (int64_t again = first; again < end; again += step) {
      for (int64_t r = 0; r < count && again + r < end; ++r) {
        write_table_row<S>(params, again + r, scratch.block + r * dim, streams, scratch);
      }
    }
  }
  if (streams) {
    finish_streaming();
  }
}

template <typename S>
constexpr RowKernel<TableRowParams> kTable = {
    [](const TableRowParams& params) { return 2 * params.sinusoid.dim; },
    [](const TableRowParams& params) { return TableScratch<S>::bytes(params.sinusoid.dim); }, table_rows<S>};

// The gradients of a row's sines and cosines: where they lie, or apart from each other in `wide`.
template <typename S>
KERNEL_HOST_DEVICE SineCosine<const compute_t<S>*> split_gradients(const S* grad, int64_t count, bool interleaved,
                                                                   compute_t<S>* wide) {
  using T = compute_t<S>;
  constexpr int W = kLanes<T>;
  using V = Simd<T, W>;
  const T* row = wide;
  if constexpr (std::is_same_v<S, T>) {
    row = grad;
  } else {
    widen_row(grad, 2 * count, wide);
  }
  if (!interleaved) {
    return {row, row + count};
  }
  T* const apart = wide + 2 * count;
  int64_t i = 0;
  for (; i + W <= count; i += W) {
    const V first = V::load(row + 2 * i);
    const V second = V::load(row + 2 * i + W);
    shuffle<EvenLanes>(first, second).store(apart + i);
    shuffle<OddLanes>(first, second).store(apart + count + i);
  }
  for (; i < count; ++i) {
    apart[i] = row[2 * i];
    apart[count + i] = row[2 * i + 1];
  }
  return {apart, apart + count};
}

// S: of the gradient.
template <typename S>
void angle_gradient_rows(const AngleGradientRowParams& params, int64_t begin, int64_t end, void* scratch) {
  using T = compute_t<S>;
  constexpr int W = kLanes<T>;
  using V = Simd<T, W>;
  SinusoidParams sinusoid = params.sinusoid;
  const bool interleaved = sinusoid.interleaved;
  sinusoid.interleaved = false;
  const int64_t count = sinusoid.dim / 2;
  T* const sines = static_cast<T*>(scratch);
  const T* const cosines = sines + count;
  T* const wide = sines + sinusoid.dim;
  for (int64_t r = begin; r < end; ++r) {
    make_row(sinusoid, params.turns, r, sines);
    const auto grad = split_gradients(static_cast<const S*>(params.grad) + r * sinusoid.dim, count, interleaved, wide);
    T* const out = static_cast<T*>(sinusoid.out) + r * count;
    int64_t i = 0;
    for (; i + W <= count; i += W) {
      (V::load(grad.sine + i) * V::load(cosines + i) - V::load(grad.cosine + i) * V::load(sines + i)).store(out + i);
    }
    for (; i < count; ++i) {
      out[i] = grad.sine[i] * cosines[i] - grad.cosine[i] * sines[i];
    }
  }
}

template <typename S>
constexpr RowKernel<AngleGradientRowParams> kAngleGradient = {
    [](const AngleGradientRowParams& params) { return 2 * params.sinusoid.dim; },
    [](const AngleGradientRowParams& params) {
      return 3 * params.sinusoid.dim * static_cast<int64_t>(sizeof(compute_t<S>));
    },
    angle_gradient_rows<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<SinusoidRowParams>, kSinusoid)
KERNEL_REGISTER_BY_STORAGE(RowKernel<TableRowParams>, kTable)
KERNEL_REGISTER_BY_STORAGE(RowKernel<AngleGradientRowParams>, kAngleGradient)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
