// Binding and records on the CPU; compiled once per instruction set.
#include "kernels/hrr/circular_convolution.h"

#include "kernels/hrr/bind_superpose_row.h"
#include "kernels/hrr/matrix_lane_rows.h"
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

template <typename S>
BindSuperposeRow<S> row_of_bind(const BindParams& params, const S* a, const S* b) {
  return {a, b, nullptr, 1, 0, 0, 0, params.product, params.normalize, params.eps};
}

template <typename S>
void single_bind_rows(const BindParams& params, int64_t begin, int64_t end, void* scratch) {
  with_engine<S>(params.plan, params.dim, scratch, [&](const auto& engine, int64_t used) {
    using Engine = std::remove_cvref_t<decltype(engine)>;
    const auto a = engine.operand(scratch, used);
    const auto b = engine.operand(scratch, used);
    const auto sum = engine.operand(scratch, used);
    const S* base_a = static_cast<const S*>(params.a);
    const S* base_b = static_cast<const S*>(params.b);
    const bool prefetch = prefetch_pays<S>(params.rows, params.dim, 2);
    const int inner = params.map.ndim - 1;
    BoundOperands<S, Engine> operands{a, b, inner >= 0 && params.map.strides[0][inner] == 0};
    for (int64_t r = begin; r < end; ++r) {
      const BindSuperposeRow<S> row =
          row_of_bind(params, base_a + row_offset(params.map, 0, r), base_b + row_offset(params.map, 1, r));
      S* out = static_cast<S*>(params.out) + r * params.dim;
      NextRow<S> next;
      if (prefetch && r + 1 < end) {
        next = {base_a + row_offset(params.map, 0, r + 1), base_b + row_offset(params.map, 1, r + 1)};
      }
      const bool done = params.product == Product::kConvolution
                            ? try_bind_row<Product::kConvolution, S>(engine, row, next, operands, out)
                            : try_bind_row<Product::kCorrelation, S>(engine, row, next, operands, out);
      if (!done) {
        scaled_row<S>(engine, row, a, b, sum, out);
        operands.forget();
      }
    }
  });
}

// The operands of a group of rows, whose transforms serve the next group if it has the same.
template <typename S, typename Lanes>
struct LaneOperand {
  typename Lanes::Vectors spectra;
  bool repeats;  // neighbouring rows have the same one
  const S* rows[Lanes::W] = {};

  void load(const Lanes& lanes, const RowMap& map, int operand, const S* base, int64_t r, int64_t count) {
    const S* next[Lanes::W];
    rows_of(map, operand, base, r, count, next);
    if (repeats && __builtin_memcmp(rows, next, sizeof(rows)) == 0) {
      return;
    }
    __builtin_memcpy(rows, next, sizeof(rows));
    lanes.load(rows, spectra);
  }
};

// What lanes are multiplied by: 1/M, over the norm that |C|^2, summed over M points, says; returns the lanes that need
// scaling first.
template <typename T, int W>
uint32_t scales_of(bool normalize, double eps, int64_t points, Simd<T, W> squared, T (&scale)[W]) {
  if (!normalize) {
    set_exact_scale(points, scale);
    return 0;
  }
  const double share = 1 / static_cast<double>(points);
  for (int lane = 0; lane < W; ++lane) {
    const double norm = square_root(static_cast<double>(squared.lanes[lane]) / static_cast<double>(points));
    scale[lane] = static_cast<T>(share / (norm_divides(norm, eps) ? norm : eps));
  }
  return unsafe_lanes(squared);
}

template <typename S, typename Lanes>
void bind_lanes(const BindParams& params, int64_t begin, int64_t end, void* scratch) {
  using T = compute_t<S>;
  constexpr int W = Lanes::W;
  int64_t used = 0;
  const Lanes lanes(params.dim, scratch, used);
  const int inner = params.map.ndim - 1;
  const auto repeats = [&](int operand) { return inner >= 0 && params.map.strides[operand][inner] == 0; };
  LaneOperand<S, Lanes> a{lanes.vectors(scratch, used), repeats(0)};
  LaneOperand<S, Lanes> b{lanes.vectors(scratch, used), repeats(1)};
  const auto product = a.repeats ? b.spectra : a.spectra;
  if (a.repeats) {
    b.repeats = false;
  }
  const auto group = [&](int64_t r, int64_t count) {
    a.load(lanes, params.map, 0, static_cast<const S*>(params.a), r, count);
    b.load(lanes, params.map, 1, static_cast<const S*>(params.b), r, count);
    const auto squared = params.normalize ? multiply_lanes<true>(lanes, params.product, a.spectra, b.spectra, product)
                                          : multiply_lanes<false>(lanes, params.product, a.spectra, b.spectra, product);
    T scale[W];
    const uint32_t unsafe = scales_of(params.normalize, params.eps, lanes.points(), squared, scale);
    return unsafe | lanes.finish(product, scale, static_cast<S*>(params.out) + r * params.dim, count);
  };
  void* const rest = scratch_behind<Lanes>(params.dim, 2, scratch);
  for_rows<Lanes>(begin, end, group,
                  [&](int64_t first, int64_t last) { single_bind_rows<S>(params, first, last, rest); });
}

template <typename S>
void bind_rows(const BindParams& params, int64_t begin, int64_t end, void* scratch) {
  const RowGroup group = params.plan.group;
  const auto rows = group == RowGroup::kLanes         ? bind_lanes<S, LaneRows<S>>
                    : group == RowGroup::kMatrixLanes ? bind_lanes<S, MatrixLaneRows<S>>
                                                      : single_bind_rows<S>;
  rows(params, begin, end, scratch);
}

template <typename S>
int64_t bind_scratch(const BindParams& params) {
  return group_bytes<S>(params.plan.group, params.dim, 2) + scratch_bytes<S>(params.plan, params.dim, 3, 0);
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

template <typename S>
int64_t shared_bytes(const BindSuperposeParams& params) {
  const bool shared = is_shared(params, 0) || is_shared(params, 1);
  if (!shared || params.items > kMaxSharedBytes / params.dim) {
    return 0;
  }
  const int64_t bytes = scratch_bytes<S>(params.plan, params.dim, static_cast<int>(params.items), 0) +
                        (params.items + 1) * static_cast<int64_t>(sizeof(Split<double>));
  return bytes <= kMaxSharedBytes ? bytes : 0;
}

template <typename S>
void single_bind_superpose_rows(const BindSuperposeParams& params, int64_t begin, int64_t end, void* scratch) {
  with_engine<S>(params.plan, params.dim, scratch, [&](const auto& engine, int64_t used) {
    using Engine = std::remove_cvref_t<decltype(engine)>;
    using Operand = typename Engine::Operand;
    BindSuperposeSide<S, Engine> a{engine.operand(scratch, used)};
    BindSuperposeSide<S, Engine> b{engine.operand(scratch, used)};
    const Operand sum = engine.operand(scratch, used);
    const S* base_a = static_cast<const S*>(params.a);
    const S* base_b = static_cast<const S*>(params.b);
    const S* base_weights = static_cast<const S*>(params.weights);
    if (shared_bytes<S>(params) > 0 && begin < end) {
      Operand* memory = aligned<Operand>(scratch, used, params.items);
      for (int64_t k = 0; k < params.items; ++k) {
        memory[k] = engine.operand(scratch, used);
      }
      if (is_shared(params, 1)) {
        b.share(engine, base_b + row_offset(params.map, 1, begin), params.item_stride_b, params.items, memory);
      } else {
        a.share(engine, base_a + row_offset(params.map, 0, begin), params.item_stride_a, params.items, memory);
      }
    }
    for (int64_t r = begin; r < end; ++r) {
      const BindSuperposeRow<S> row{base_a + row_offset(params.map, 0, r),
                                    base_b + row_offset(params.map, 1, r),
                                    base_weights == nullptr ? nullptr : base_weights + row_offset(params.map, 2, r),
                                    params.items,
                                    params.item_stride_a,
                                    params.item_stride_b,
                                    params.item_stride_weights,
                                    Product::kConvolution,
                                    params.normalize,
                                    params.eps};
      S* out = static_cast<S*>(params.out) + r * params.dim;
      if (!try_bind_superpose_row<S, Engine>(engine, row, a, b, sum, out)) {
        scaled_row<S>(engine, row, a.current, b.current, sum, out);
      }
    }
  });
}

// The pairs of records in lanes, step by step: those of W records side by side or, where one record has pairs enough
// to fill the lanes, W pairs of it.
template <typename S>
struct LaneSteps {
  using Lanes = LaneRows<S>;
  using T = typename Lanes::T;
  static constexpr int W = Lanes::W;

  const BindSuperposeParams& params;
  bool of_pairs;

  explicit LaneSteps(const BindSuperposeParams& the_params) : params(the_params), of_pairs(the_params.items >= W) {}

  int64_t count() const {
    return of_pairs ? (params.items + W - 1) / W : params.items;
  }
  // Where the lanes of a step find their vectors or weights, for `records` records from r on.
  void find(int operand, const void* base, int64_t item_stride, int64_t r, int64_t records, int64_t step,
            const S* (&found)[W]) const {
    if (!of_pairs) {
      return rows_of(params.map, operand, static_cast<const S*>(base) + step * item_stride, r, records, found);
    }
    const S* const first = static_cast<const S*>(base) + row_offset(params.map, operand, r);
    for (int64_t lane = 0; lane < W; ++lane) {
      const int64_t k = step * W + lane;
      found[lane] = first + (k < params.items ? k : params.items - 1) * item_stride;
    }
  }
  // Lanes beyond the last pair repeat it with weight 0.
  typename Lanes::V weights(int64_t r, int64_t records, int64_t step) const {
    T weights[W];
    for (T& weight : weights) {
      weight = 1;
    }
    if (params.weights != nullptr) {
      const S* found[W];
      find(2, params.weights, params.item_stride_weights, r, records, step, found);
      for (int lane = 0; lane < W; ++lane) {
        widen_row<S>(found[lane], 1, weights + lane);
      }
    }
    for (int64_t lane = 0; of_pairs && lane < W; ++lane) {
      weights[lane] = step * W + lane < params.items ? weights[lane] : 0;
    }
    return Lanes::V::load(weights);
  }
};

// One side of records: its vectors are transformed as they are needed or, where all records have the same, beforehand.
// Either way the numbers are the same.
template <typename S>
struct LaneSide {
  using Lanes = LaneRows<S>;
  using Vectors = typename Lanes::Vectors;

  Vectors current;
  int operand;
  const void* base;
  int64_t item_stride;
  Vectors* shared = nullptr;

  void load(const Lanes& lanes, const LaneSteps<S>& steps, int64_t r, int64_t records, int64_t step,
            Vectors target) const {
    const S* found[Lanes::W];
    steps.find(operand, base, item_stride, r, records, step, found);
    lanes.load(found, target);
  }
  void share(const Lanes& lanes, const LaneSteps<S>& steps, void* scratch, int64_t& used) {
    Vectors* const memory = aligned<Vectors>(scratch, used, steps.count());
    for (int64_t step = 0; step < steps.count(); ++step) {
      memory[step] = lanes.vectors(scratch, used);
      load(lanes, steps, 0, 1, step, memory[step]);
    }
    shared = memory;
  }
  Vectors at(const Lanes& lanes, const LaneSteps<S>& steps, int64_t r, int64_t records, int64_t step) const {
    if (shared != nullptr) {
      return shared[step];
    }
    load(lanes, steps, r, records, step, current);
    return current;
  }
};

template <typename S>
int64_t shared_lanes_bytes(const BindSuperposeParams& params) {
  const bool shared = is_shared(params, 0) || is_shared(params, 1);
  if (!shared || params.plan.group != RowGroup::kLanes || params.items > kMaxSharedBytes / params.dim) {
    return 0;
  }
  const int64_t steps = LaneSteps<S>(params).count();
  const int64_t bytes = LaneRows<S>::scratch_bytes(params.dim, static_cast<int>(steps)) +
                        steps * static_cast<int64_t>(sizeof(Split<double>)) + 64;
  return bytes <= kMaxSharedBytes ? bytes : 0;
}

template <typename S>
void bind_superpose_lanes(const BindSuperposeParams& params, int64_t begin, int64_t end, void* scratch) {
  using Lanes = LaneRows<S>;
  constexpr int W = Lanes::W;
  int64_t used = 0;
  const Lanes lanes(params.dim, scratch, used);
  const LaneSteps<S> steps(params);
  const auto sum = lanes.vectors(scratch, used);
  const auto partial = lanes.vectors(scratch, used);
  LaneSide<S> a{lanes.vectors(scratch, used), 0, params.a, params.item_stride_a};
  LaneSide<S> b{lanes.vectors(scratch, used), 1, params.b, params.item_stride_b};
  if (shared_lanes_bytes<S>(params) > 0) {
    (is_shared(params, 1) ? b : a).share(lanes, steps, scratch, used);
  }
  void* const rest = static_cast<char*>(scratch) + used;
  const auto add_products = [&](int64_t r, int64_t records, typename Lanes::Vectors total) {
    lanes.clear(total);
    for (int64_t step = 0; step < steps.count(); ++step) {
      const auto vectors_a = a.at(lanes, steps, r, records, step);
      const auto vectors_b = b.at(lanes, steps, r, records, step);
      const auto weights = steps.weights(r, records, step);
      lanes.for_points([&](const auto& point) {
        const auto product = point.template of<Product::kConvolution>(point.in(vectors_a), point.in(vectors_b));
        point.put_in(total, add_scaled(point.in(total), weights, product));
      });
    }
  };
  const auto group = [&](int64_t r, int64_t count) {
    if (!steps.of_pairs) {
      add_products(r, count, sum);
    } else {
      lanes.clear(sum);
      for (int64_t lane = 0; lane < count; ++lane) {
        add_products(r + lane, 1, partial);
        lanes.add_up(partial, lane, sum);
      }
    }
    typename Lanes::T scale[W];
    const uint32_t unsafe = scales_of(params.normalize, params.eps, lanes.plan.points, lanes.squared(sum), scale);
    return unsafe | lanes.finish(sum, scale, static_cast<S*>(params.out) + r * params.dim, count);
  };
  for_groups<W>(begin, end, group, [&](int64_t r, int64_t) { single_bind_superpose_rows<S>(params, r, r + 1, rest); });
}

template <typename S>
void bind_superpose_rows(const BindSuperposeParams& params, int64_t begin, int64_t end, void* scratch) {
  const auto rows = params.plan.group == RowGroup::kLanes ? bind_superpose_lanes<S> : single_bind_superpose_rows<S>;
  rows(params, begin, end, scratch);
}

template <typename S>
int64_t bind_superpose_scratch(const BindSuperposeParams& params) {
  return group_bytes<S>(params.plan.group, params.dim, 4) + shared_lanes_bytes<S>(params) +
         scratch_bytes<S>(params.plan, params.dim, 3, 0) + shared_bytes<S>(params);
}

template <typename S>
constexpr RowKernel<BindParams> kBind = {[](const BindParams& params) { return params.dim; }, bind_scratch<S>,
                                         bind_rows<S>};
template <typename S>
constexpr RowKernel<BindSuperposeParams> kBindSuperpose = {
    [](const BindSuperposeParams& params) { return params.dim * (params.items > 0 ? params.items : 1); },
    bind_superpose_scratch<S>, bind_superpose_rows<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<BindParams>, kBind)
KERNEL_REGISTER_BY_STORAGE(RowKernel<BindSuperposeParams>, kBindSuperpose)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
