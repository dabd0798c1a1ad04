// Layers that learn at every tick, on the CPU; compiled once per instruction set.
//
// Units without coupling run through all ticks a few at a time: their rows stay in the nearest cache, and one pass over
// a row both updates it and multiplies it with the next input. Ticks go in tiles whose inputs stay in the second cache
// for all units of a group.
#include "kernels/hierarchy/plastic.h"

#include "kernels/hierarchy/plastic_rows.h"
#include "kernels/registry.h"
#include "kernels/simd.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// A vector that is whole in this instruction set; kVectors of them hold the partial sums of a row, and a step takes as
// many rows as a vector has lanes.
template <typename T>
using Vector = Simd<T, kVectorBytes / static_cast<int>(sizeof(T))>;
template <typename T>
constexpr int kLanes = Vector<T>::kLanes;
template <typename T>
constexpr int kVectors = kSumLanes / kLanes<T>;
// Rows that one loop takes together: their partial sums fill half of the registers.
template <typename T>
constexpr int kTogether = kVectors<T> >= 8 ? 1 : 8 / kVectors<T>;

// Partial sums of a row, folded by halves into one vector.
template <typename T>
struct PartialSums {
  using V = Vector<T>;
  V lanes[kVectors<T>];

  KERNEL_HOST_DEVICE PartialSums() {
    for (V& lane : lanes) {
      lane = V::broadcast(0);
    }
  }
  KERNEL_HOST_DEVICE V folded() {
    return sum_by_halves(lanes);
  }
};

// The sums of the lanes of every row by halves, that of row r in lane r.
template <typename T>
KERNEL_HOST_DEVICE Vector<T> sums_of(Vector<T> (&rows)[kLanes<T>]) {
  transpose(rows);
  return sum_by_halves(rows);
}

// body(i, v) for every vector of a padded row, v being its place among the partial sums.
template <typename T, typename Body>
KERNEL_HOST_DEVICE void for_vectors(int64_t size, const Body& body) {
  int64_t i = 0;
  for (; i + kSumLanes <= size; i += kSumLanes) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors<T>; ++v) {
      body(i + v * kLanes<T>, v);
    }
  }
  if (i < size) {
    static_assert(kSumLanes == 2 * kRowPadding && kRowPadding % kLanes<T> == 0);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors<T> / 2; ++v) {
      body(i + v * kLanes<T>, v);
    }
  }
}

template <typename T>
KERNEL_HOST_DEVICE T dot(const T* a, const T* b, int64_t size) {
  using V = Vector<T>;
  PartialSums<T> sums;
  for_vectors<T>(
      size, [&](int64_t i, int v) __attribute__((always_inline)) {
        sums.lanes[v] = fused_multiply_add(V::load(a + i), V::load(b + i), sums.lanes[v]);
      });
  return horizontal_sum(sums.folded());
}

template <typename T>
class Layer {
  using V = Vector<T>;

 public:
  explicit Layer(const PlasticParams& params) : p_(params), formulas_(params) {}

  // Units [first, first + count) of a learner, whose outputs of a tile fit `outputs`, and gains of
  // a tick `gains`.
  void run_units(int64_t learner, int64_t first, int64_t count, T* outputs, T* gains) const {
    V carried[kPlasticGroup / kLanes<T>] = {};
    const int64_t tile = plastic_tile<T>(p_);
    for (int64_t begin = 0; begin < p_.ticks; begin += tile) {
      const int64_t end = begin + tile < p_.ticks ? begin + tile : p_.ticks;
      for (int64_t unit = 0; unit < count; unit += kLanes<T>) {
        const Step step(*this, learner, first + unit, count - unit < kLanes<T> ? count - unit : kLanes<T>);
        if (p_.batch == 1 && !p_.normalize) {
          V& products = carried[unit / kLanes<T>];
          products = begin == 0 ? step.products(input(learner, 0)) : products;
          products = online(step, learner, begin, end, products, outputs + unit);
        } else {
          batched(step, learner, begin, end, outputs + unit, gains);
        }
      }
      T* const target = static_cast<T*>(p_.outputs) + (learner * p_.ticks + begin) * p_.batch * p_.units + first;
      for (int64_t row = 0; row < (end - begin) * p_.batch; ++row) {
        __builtin_memcpy(target + row * p_.units, outputs + row * kPlasticGroup,
                         static_cast<size_t>(count) * sizeof(T));
      }
    }
  }

  // All units of a learner, tick by tick: they are coupled.
  void run_coupled(int64_t learner) const {
    T* const outputs = static_cast<T*>(p_.outputs) + learner * p_.ticks * p_.batch * p_.units;
    T* const residual = static_cast<T*>(p_.residual) + learner * p_.batch * p_.size;
    for (int64_t tick = 0; tick < p_.ticks; ++tick) {
      T* const y = outputs + tick * p_.batch * p_.units;
      const T* const x = input(learner, tick);
      for (int64_t unit = 0; unit < p_.units; unit += kLanes<T>) {
        const int64_t count = p_.units - unit < kLanes<T> ? p_.units - unit : kLanes<T>;
        const Step step(*this, learner, unit, count);
        for (int64_t b = 0; b < p_.batch; ++b) {
          T own[kLanes<T>];
          formulas_.output(step.products(x + b * p_.size)).store(own);
          __builtin_memcpy(y + b * p_.units + unit, own, static_cast<size_t>(count) * sizeof(T));
        }
      }
      __builtin_memcpy(residual, x, static_cast<size_t>(p_.batch * p_.size) * sizeof(T));
      if (p_.rule == LearningRule::kSubspace) {
        for (int64_t j = 0; j < p_.units; ++j) {
          deflate<true, false>(row(learner, j), y + j, residual);
        }
      }
      for (int64_t j = 0; j < p_.units; ++j) {
        T* const w = row(learner, j);
        if (p_.rule == LearningRule::kSubspace) {
          deflate<false, true>(w, y + j, residual);
        } else {
          deflate<true, true>(w, y + j, residual);
        }
        normalize(w);
      }
    }
  }

 private:
  // The rows of up to kLanes units.
  class Step {
   public:
    Step(const Layer& layer, int64_t learner, int64_t unit, int64_t count)
        : w_(layer.row(learner, unit)), size_(layer.p_.size), count_(count), first_(learner * layer.p_.units + unit) {}

    int64_t first() const {
      return first_;
    }
    int64_t count() const {
      return count_;
    }

    // w x
    V products(const T* x) const {
      return over_rows([&](int64_t r, auto together, V* folded) __attribute__((always_inline)) {
        constexpr int kRows = decltype(together)::value;
        PartialSums<T> sums[kRows];
        const T* const w = w_ + r * size_;
        for_vectors<T>(
            size_, [&](int64_t i, int v) __attribute__((always_inline)) {
              const V factor = V::load(x + i);
#pragma GCC unroll 8
              for (int j = 0; j < kRows; ++j) {
                sums[j].lanes[v] = fused_multiply_add(V::load(w + j * size_ + i), factor, sums[j].lanes[v]);
              }
            });
        for (int j = 0; j < kRows; ++j) {
          folded[j] = sums[j].folded();
        }
      });
    }

    // w += gain now - loss w, then w next
    V update(V gain, V loss, const T* now, const T* next) const {
      T gains[kLanes<T>];
      T losses[kLanes<T>];
      gain.store(gains);
      (-loss).store(losses);
      return over_rows([&](int64_t r, auto together, V* folded) __attribute__((always_inline)) {
        constexpr int kRows = decltype(together)::value;
        PartialSums<T> sums[kRows];
        V gain_of[kRows];
        V loss_of[kRows];
        for (int j = 0; j < kRows; ++j) {
          gain_of[j] = V::broadcast(gains[r + j]);
          loss_of[j] = V::broadcast(losses[r + j]);
        }
        T* const w = w_ + r * size_;
        for_vectors<T>(
            size_, [&](int64_t i, int v) __attribute__((always_inline)) {
              const V x = V::load(now + i);
              const V ahead = V::load(next + i);
#pragma GCC unroll 8
              for (int j = 0; j < kRows; ++j) {
                const V old = V::load(w + j * size_ + i);
                const V changed = fused_multiply_add(gain_of[j], x, fused_multiply_add(loss_of[j], old, old));
                changed.store(w + j * size_ + i);
                sums[j].lanes[v] = fused_multiply_add(changed, ahead, sums[j].lanes[v]);
              }
            });
        for (int j = 0; j < kRows; ++j) {
          folded[j] = sums[j].folded();
        }
      });
    }

    // w += sum_b gain_b x_b - loss w, for a batch of inputs and the gains of all rows for each.
    void update(int64_t batch, const T* gains, V loss, const T* x) const {
      T losses[kLanes<T>];
      (-loss).store(losses);
      for_rows([&](int64_t r, auto together) __attribute__((always_inline)) {
        constexpr int kRows = decltype(together)::value;
        int64_t i = 0;
        for (; i + kSumLanes <= size_; i += kSumLanes) {
          update_block<kRows, kVectors<T>>(w_ + r * size_ + i, batch, gains + r, losses + r, x + i);
        }
        if (i < size_) {
          update_block<kRows, kVectors<T> / 2>(w_ + r * size_ + i, batch, gains + r, losses + r, x + i);
        }
      });
    }

    void normalize(const Layer& layer) const {
      for (int64_t r = 0; r < count_; ++r) {
        layer.normalize(w_ + r * size_);
      }
    }

   private:
    template <int kRows>
    struct Together {
      static constexpr int value = kRows;
    };
    // body(r, together) for row r and those that go together with it
    template <typename Body>
    KERNEL_HOST_DEVICE void for_rows(const Body& body) const {
      int64_t r = 0;
      for (; r + kTogether<T> <= count_; r += kTogether<T>) {
        body(r, Together<kTogether<T>>{});
      }
      for (; r < count_; ++r) {
        body(r, Together<1>{});
      }
    }
    template <typename Body>
    KERNEL_HOST_DEVICE V over_rows(const Body& body) const {
      V folded[kLanes<T>];
      for_rows([&](int64_t r, auto together) __attribute__((always_inline)) { body(r, together, folded + r); });
      for (int64_t r = count_; r < kLanes<T>; ++r) {
        folded[r] = V::broadcast(0);
      }
      return sums_of<T>(folded);
    }

    // kCount vectors of some rows stay in registers for the whole batch.
    template <int kRows, int kCount>
    KERNEL_HOST_DEVICE void update_block(T* w, int64_t batch, const T* gains, const T* losses, const T* x) const {
      V changed[kRows][kCount];
#pragma GCC unroll 8
      for (int j = 0; j < kRows; ++j) {
        const V loss = V::broadcast(losses[j]);
#pragma GCC unroll 16
        for (int v = 0; v < kCount; ++v) {
          const V old = V::load(w + j * size_ + v * kLanes<T>);
          changed[j][v] = fused_multiply_add(loss, old, old);
        }
      }
      for (int64_t b = 0; b < batch; ++b) {
#pragma GCC unroll 8
        for (int j = 0; j < kRows; ++j) {
          const V gain = V::broadcast(gains[b * kLanes<T> + j]);
#pragma GCC unroll 16
          for (int v = 0; v < kCount; ++v) {
            changed[j][v] = fused_multiply_add(gain, V::load(x + b * size_ + v * kLanes<T>), changed[j][v]);
          }
        }
      }
#pragma GCC unroll 8
      for (int j = 0; j < kRows; ++j) {
#pragma GCC unroll 16
        for (int v = 0; v < kCount; ++v) {
          changed[j][v].store(w + j * size_ + v * kLanes<T>);
        }
      }
    }

    T* w_;
    int64_t size_;
    int64_t count_;
    int64_t first_;
  };

  const T* input(int64_t learner, int64_t tick) const {
    return static_cast<const T*>(p_.inputs) + (learner * p_.ticks + tick) * p_.batch * p_.size;
  }
  T* row(int64_t learner, int64_t unit) const {
    return static_cast<T*>(p_.weight) + (learner * p_.units + unit) * p_.size;
  }

  // One input a tick: from the products with the first of a tile to those with the first of the next.
  V online(const Step& step, int64_t learner, int64_t begin, int64_t end, V products, T* outputs) const {
    const size_t bytes = static_cast<size_t>(step.count()) * sizeof(T);
    T thresholds[kLanes<T>] = {};
    if (p_.theta != nullptr) {
      __builtin_memcpy(thresholds, static_cast<T*>(p_.theta) + step.first(), bytes);
    }
    V theta = V::load(thresholds);
    for (int64_t tick = begin; tick < end; ++tick) {
      const V y = formulas_.output(products);
      y.store(outputs + (tick - begin) * kPlasticGroup);
      const V square = y * y;
      const V gain = formulas_.gain(y, theta);
      theta = formulas_.next_theta(theta, square);
      const T* const now = input(learner, tick);
      // After the last tick there is nothing to multiply with; the products are not used.
      products = step.update(gain, formulas_.loss(square), now, tick + 1 < p_.ticks ? input(learner, tick + 1) : now);
    }
    if (p_.theta != nullptr) {
      theta.store(thresholds);
      __builtin_memcpy(static_cast<T*>(p_.theta) + step.first(), thresholds, bytes);
    }
    return products;
  }

  // Several inputs a tick, or rows that are scaled after it.
  void batched(const Step& step, int64_t learner, int64_t begin, int64_t end, T* outputs, T* gains) const {
    const size_t bytes = static_cast<size_t>(step.count()) * sizeof(T);
    T thresholds[kLanes<T>] = {};
    if (p_.theta != nullptr) {
      __builtin_memcpy(thresholds, static_cast<T*>(p_.theta) + step.first(), bytes);
    }
    V theta = V::load(thresholds);
    for (int64_t tick = begin; tick < end; ++tick) {
      const T* const x = input(learner, tick);
      T* const y = outputs + (tick - begin) * p_.batch * kPlasticGroup;
      V squares = V::broadcast(0);
      for (int64_t b = 0; b < p_.batch; ++b) {
        const V output = formulas_.output(step.products(x + b * p_.size));
        output.store(y + b * kPlasticGroup);
        squares = fused_multiply_add(output, output, squares);
      }
      const V mean_square = squares / V::broadcast(static_cast<T>(p_.batch));
      for (int64_t b = 0; b < p_.batch; ++b) {
        formulas_.gain(V::load(y + b * kPlasticGroup), theta).store(gains + b * kLanes<T>);
      }
      step.update(p_.batch, gains, formulas_.loss(mean_square), x);
      if (p_.normalize) {
        step.normalize(*this);
      }
      theta = formulas_.next_theta(theta, mean_square);
    }
    if (p_.theta != nullptr) {
      theta.store(thresholds);
      __builtin_memcpy(static_cast<T*>(p_.theta) + step.first(), thresholds, bytes);
    }
  }

  // r_b -= y_b w, and w += sum_b gain_b r_b - loss w; y of a batch is `units` apart.
  template <bool kDeflates, bool kLearns>
  void deflate(T* w, const T* y, T* residual) const {
    const V loss = V::broadcast(-formulas_.loss(T{0}));
    for (int64_t i = 0; i < p_.size; i += V::kLanes) {
      const V old = V::load(w + i);
      V changed = fused_multiply_add(loss, old, old);
      for (int64_t b = 0; b < p_.batch; ++b) {
        T* const place = residual + b * p_.size + i;
        V r = V::load(place);
        if constexpr (kDeflates) {
          r = fused_multiply_add(V::broadcast(-y[b * p_.units]), old, r);
          r.store(place);
        }
        changed = fused_multiply_add(V::broadcast(formulas_.gain(y[b * p_.units], T{0})), r, changed);
      }
      if constexpr (kLearns) {
        changed.store(w + i);
      }
    }
  }

  void normalize(T* w) const {
    if (p_.normalize) {
      const V factor = V::broadcast(norm_factor(dot(w, w, p_.size)));
      for (int64_t i = 0; i < p_.size; i += V::kLanes) {
        (V::load(w + i) * factor).store(w + i);
      }
    }
  }

  const PlasticParams& p_;
  PlasticFormulas<T> formulas_;
};

template <typename T>
constexpr RowKernel<PlasticParams> kPlastic = {
    [](const PlasticParams& p) { return 4 * p.ticks * p.batch * p.size * (p.coupled() ? p.units : kPlasticGroup); },
    [](const PlasticParams& p) {
      return p.coupled() ? int64_t{0}
                         : (plastic_tile<T>(p) + 1) * p.batch * kPlasticGroup * static_cast<int64_t>(sizeof(T));
    },
    [](const PlasticParams& p, int64_t begin, int64_t end, void* scratch) {
      const Layer<T> layer(p);
      const int64_t groups = plastic_groups(p);
      for (int64_t row = begin; row < end; ++row) {
        if (p.coupled()) {
          layer.run_coupled(row);
        } else {
          const int64_t first = row % groups * kPlasticGroup;
          const int64_t left = p.units - first;
          auto* const outputs = static_cast<T*>(scratch);
          layer.run_units(row / groups, first, left < kPlasticGroup ? left : kPlasticGroup, outputs,
                          outputs + plastic_tile<T>(p) * p.batch * kPlasticGroup);
        }
      }
    }};

}  // namespace

KERNEL_REGISTER(PlasticKernels, {kPlastic<float>, kPlastic<double>})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
