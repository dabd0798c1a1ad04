// Binding and records on the CPU; compiled once per instruction set.
#include "kernels/hrr/circular_convolution.h"

#include "kernels/hrr/row_groups.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// What plans are made for.
#if defined(__AVX512F__)
constexpr Isa kThisIsa = Isa::kAvx512;
#elif defined(__AVX2__)
constexpr Isa kThisIsa = Isa::kAvx2;
#else
constexpr Isa kThisIsa = Isa::kScalar;
#endif
static_assert(row_lanes(kThisIsa, Storage::kFloat) == kLanes<float> &&
              row_lanes(kThisIsa, Storage::kDouble) == kLanes<double>);

// An operand of products. Neighbouring rows that have the same one, as those of one role or one codebook do, transform
// it once.
template <typename S, typename Engine>
struct BoundOperand {
  typename Engine::Operand spectra;
  bool repeats;
  const S* rows[Engine::kRows] = {};

  void load(const Engine& engine, const S* const (&next)[Engine::kRows]) {
    if (repeats) {
      if (__builtin_memcmp(rows, next, sizeof(rows)) == 0) {
        return;
      }
      __builtin_memcpy(rows, next, sizeof(rows));
    }
    engine.load(next, spectra);
  }
  void forget() {
    rows[0] = nullptr;
  }
};

template <typename S, typename Engine>
struct BindRows {
  using Operand = typename Engine::Operand;
  static constexpr int kRows = Engine::kRows;

  const Engine& engine;
  const BindParams& params;
  BoundOperand<S, Engine> a;
  BoundOperand<S, Engine> b;
  Operand sum;  // of scaled rows
  bool prefetches;

  BindRows(const Engine& the_engine, const BindParams& the_params, void* scratch, int64_t& used)
      : engine(the_engine),
        params(the_params),
        a{engine.operand(scratch, used), repeats(0)},
        b{engine.operand(scratch, used), !repeats(0) && repeats(1)},
        sum(kRows == 1 ? engine.operand(scratch, used) : Operand{}),
        prefetches(kRows == 1 && prefetch_pays<S>(params.rows, params.dim, 2)) {}

  bool repeats(int operand) const {
    const int inner = params.map.ndim - 1;
    return inner >= 0 && params.map.strides[operand][inner] == 0;
  }
  const S* row_of(int operand, const void* base, int64_t r) const {
    return operand_row<S>(base, params.map, operand, r);
  }
  void load(int operand, const void* base, int64_t r, int64_t count, BoundOperand<S, Engine>& target) const {
    const S* rows[kRows];
    rows_of(params.map, operand, base, r, count, rows);
    target.load(engine, rows);
    if constexpr (kRows == 1) {
      if (prefetches && r + 1 < params.rows) {
        prefetch_row(row_of(operand, base, r + 1), params.dim);
      }
    }
  }

  uint32_t group(int64_t r, int64_t count) {
    load(0, params.a, r, count, a);
    load(1, params.b, r, count, b);
    // The product is left in the operand that the next rows do not have.
    const Operand c = a.repeats ? b.spectra : a.spectra;
    const auto squared = params.normalize && !kFolds<Engine>
                             ? multiply_spectra<true>(engine.spectra(), params.product, a.spectra, b.spectra, c)
                             : multiply_spectra<false>(engine.spectra(), params.product, a.spectra, b.spectra, c);
    return finish_product(engine, params.product, c, params.normalize, params.eps, squared,
                          result_row<S>(params.out, r, params.dim), count);
  }
  void scaled(int64_t r) {
    const ProductRow<S> row{row_of(0, params.a, r), row_of(1, params.b, r), nullptr,   1, 0, 0, 0,
                            params.product,         params.normalize,       params.eps};
    scaled_product(engine, row, a.spectra, b.spectra, sum, result_row<S>(params.out, r, params.dim));
    a.forget();
    b.forget();
  }
};

template <typename S>
int64_t bind_scratch(const BindParams& params) {
  return group_bytes<S>(params.plan.group, params.dim, 2) + product_scratch_bytes<S>(params.plan, params.dim, 3, 0);
}

// Spectra of a side that all rows share are worth keeping while they fit a core's own cache.
constexpr int64_t kMaxSharedBytes = int64_t{1} << 20;

bool is_shared(const BindSuperposeParams& params, int operand) {
  for (int d = 0; d < params.map.ndim; ++d) {
    if (params.map.strides[operand][d] != 0) {
      return false;
    }
  }
  return params.rows > 1 && params.items > 0;
}

// The pairs of records, step by step: those of kRows records side by side or, where one record has pairs enough to fill
// the lanes, as many pairs of it.
template <typename S, typename Engine>
struct RecordSteps {
  using T = compute_t<S>;
  static constexpr int kRows = Engine::kRows;

  const BindSuperposeParams& params;
  bool of_pairs;

  explicit RecordSteps(const BindSuperposeParams& the_params)
      : params(the_params), of_pairs(kRows > 1 && the_params.items >= kRows) {}

  int64_t count() const {
    return of_pairs ? (params.items + kRows - 1) / kRows : params.items;
  }
  // Where the rows of a step find their vectors or weights, for `records` records from r on.
  void find(int operand, const void* base, int64_t item_stride, int64_t r, int64_t records, int64_t step,
            const S* (&found)[kRows]) const {
    const S* const items = static_cast<const S*>(base);
    if (!of_pairs) {
      return rows_of(params.map, operand, items + step * item_stride, r, records, found);
    }
    const S* const first = items + row_offset(params.map, operand, r);
    for (int64_t lane = 0; lane < kRows; ++lane) {
      const int64_t k = step * kRows + lane;
      found[lane] = first + (k < params.items ? k : params.items - 1) * item_stride;
    }
  }
  // Lanes beyond the last pair repeat it with weight 0.
  typename Engine::Sum weights(int64_t r, int64_t records, int64_t step) const {
    T weights[kRows];
    for (T& weight : weights) {
      weight = 1;
    }
    if (params.weights != nullptr) {
      const S* found[kRows];
      find(2, params.weights, params.item_stride_weights, r, records, step, found);
      for (int lane = 0; lane < kRows; ++lane) {
        widen_row<S>(found[lane], 1, weights + lane);
      }
    }
    for (int64_t lane = 0; of_pairs && lane < kRows; ++lane) {
      weights[lane] = step * kRows + lane < params.items ? weights[lane] : 0;
    }
    return sum_of_rows<typename Engine::Sum>(weights);
  }
};

// Bytes for the spectra of all steps, if rows share a side and keeping it is worthwhile; else 0.
template <typename S, typename Engine>
int64_t shared_bytes(const BindSuperposeParams& params) {
  const bool shared = is_shared(params, 0) || is_shared(params, 1);
  if (!shared || params.items > kMaxSharedBytes / params.dim) {
    return 0;
  }
  const int steps = static_cast<int>(RecordSteps<S, Engine>(params).count());
  int64_t bytes = (steps + 1) * static_cast<int64_t>(sizeof(typename Engine::Operand)) + 64;
  if constexpr (Engine::kRows > 1) {
    bytes += Engine::scratch_bytes(params.dim, steps);
  } else {
    bytes += product_scratch_bytes<S>(params.plan, params.dim, steps, 0);
  }
  return bytes <= kMaxSharedBytes ? bytes : 0;
}

// One side of records: its vectors are transformed as they are needed or, where all records have the same, beforehand.
// Either way the numbers are the same.
template <typename S, typename Engine>
struct RecordSide {
  using Operand = typename Engine::Operand;

  Operand current;
  int operand;
  const void* base;
  int64_t item_stride;
  Operand* shared = nullptr;

  void load(const Engine& engine, const RecordSteps<S, Engine>& steps, int64_t r, int64_t records, int64_t step,
            Operand target) const {
    const S* found[Engine::kRows];
    steps.find(operand, base, item_stride, r, records, step, found);
    engine.load(found, target);
  }
  void share(const Engine& engine, const RecordSteps<S, Engine>& steps, void* scratch, int64_t& used) {
    shared = aligned<Operand>(scratch, used, steps.count());
    for (int64_t step = 0; step < steps.count(); ++step) {
      shared[step] = engine.operand(scratch, used);
      load(engine, steps, 0, 1, step, shared[step]);
    }
  }
  Operand at(const Engine& engine, const RecordSteps<S, Engine>& steps, int64_t r, int64_t records,
             int64_t step) const {
    if (shared != nullptr) {
      return shared[step];
    }
    load(engine, steps, r, records, step, current);
    return current;
  }
};

template <typename S, typename Engine>
struct RecordRows {
  using Operand = typename Engine::Operand;
  static constexpr bool kSingle = Engine::kRows == 1;

  const Engine& engine;
  const BindSuperposeParams& params;
  RecordSteps<S, Engine> steps;
  Operand sum;
  Operand partial;
  RecordSide<S, Engine> a;
  RecordSide<S, Engine> b;

  RecordRows(const Engine& the_engine, const BindSuperposeParams& the_params, void* scratch, int64_t& used)
      : engine(the_engine),
        params(the_params),
        steps(params),
        sum(engine.operand(scratch, used)),
        partial(kSingle ? sum : engine.operand(scratch, used)),
        a{engine.operand(scratch, used), 0, params.a, params.item_stride_a},
        b{engine.operand(scratch, used), 1, params.b, params.item_stride_b} {
    if (shared_bytes<S, Engine>(params) > 0) {
      (is_shared(params, 1) ? b : a).share(engine, steps, scratch, used);
    }
  }

  void add_products(int64_t r, int64_t records, Operand total) const {
    clear_spectra(engine.spectra(), total);
    for (int64_t step = 0; step < steps.count(); ++step) {
      const Operand of_a = a.at(engine, steps, r, records, step);
      const Operand of_b = b.at(engine, steps, r, records, step);
      accumulate_points<Product::kConvolution>(engine.spectra(), of_a, of_b, steps.weights(r, records, step), total);
    }
  }

  uint32_t group(int64_t r, int64_t count) const {
    if (kSingle || !steps.of_pairs) {
      add_products(r, count, sum);
    } else if constexpr (!kSingle) {
      clear_spectra(engine.spectra(), sum);
      for (int64_t lane = 0; lane < count; ++lane) {
        add_products(r + lane, 1, partial);
        engine.add_up(partial, lane, sum);
      }
    }
    const auto squared = params.normalize && !kFolds<Engine> ? engine.squared(sum) : typename Engine::Sum{};
    return finish_product(engine, Product::kConvolution, sum, params.normalize, params.eps, squared,
                          result_row<S>(params.out, r, params.dim), count);
  }
  void scaled(int64_t r) const {
    const auto row_of = [&](int operand, const void* base) { return operand_row<S>(base, params.map, operand, r); };
    const ProductRow<S> row{row_of(0, params.a),
                            row_of(1, params.b),
                            params.weights == nullptr ? nullptr : row_of(2, params.weights),
                            params.items,
                            params.item_stride_a,
                            params.item_stride_b,
                            params.item_stride_weights,
                            Product::kConvolution,
                            params.normalize,
                            params.eps};
    scaled_product(engine, row, a.current, b.current, sum, result_row<S>(params.out, r, params.dim));
  }
};

template <typename S>
int64_t bind_superpose_scratch(const BindSuperposeParams& params) {
  // Spectra of all engines of one row are as large in shared_bytes.
  const int64_t of_single =
      product_scratch_bytes<S>(params.plan, params.dim, 3, 0) + shared_bytes<S, MatrixEngine<S>>(params);
  return params.plan.group == RowGroup::kLanes
             ? of_single + LaneRows<S>::scratch_bytes(params.dim, 4) + shared_bytes<S, LaneRows<S>>(params)
             : of_single;
}

template <typename S>
constexpr RowKernel<BindParams> kBind = {[](const BindParams& params) { return params.dim; }, bind_scratch<S>,
                                         rows_by_plan<BindRows, Engines::kProducts, true, S, BindParams>};
template <typename S>
constexpr RowKernel<BindSuperposeParams> kBindSuperpose = {
    [](const BindSuperposeParams& params) { return params.dim * (params.items > 0 ? params.items : 1); },
    bind_superpose_scratch<S>, rows_by_plan<RecordRows, Engines::kProducts, false, S, BindSuperposeParams>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<BindParams>, kBind)
KERNEL_REGISTER_BY_STORAGE(RowKernel<BindSuperposeParams>, kBindSuperpose)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
