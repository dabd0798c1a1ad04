// A tick of units that learn from each other's outputs, as the CPU takes it: each from what those before it (gha) or
// all (subspace) leave of the inputs, some units and columns at a time. For files that are compiled once per
// instruction set.
#pragma once

#include "kernels/hierarchy/plastic_units.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

template <typename T>
class CoupledTicks {
  using V = Vector<T>;

 public:
  explicit CoupledTicks(const PlasticParams& params) : p_(params), units_(params) {}

  const PlasticFormulas<T>& formulas() const {
    return units_.formulas;
  }
  const T* input(int64_t learner, int64_t tick) const {
    return units_.input(learner, tick);
  }

  // W x of every sample, as put(V products, unit, b, count) for up to kLanes units at a time.
  template <typename Put>
  void products(const T* weight, const T* x, const Put& put) const {
    for (int64_t unit = 0; unit < p_.units; unit += kLanes<T>) {
      const UnitRows<T> rows = rows_of(weight, unit);
      rows.products(p_.batch, x, [&](int64_t b, V u) { put(u, unit, b, rows.count()); });
    }
  }
  // f(W x), [batch, units]
  void outputs(const T* weight, const T* x, T* y) const {
    products(weight, x, [&](V u, int64_t unit, int64_t b, int64_t count) {
      store_units(units_.formulas.output(u), y + b * p_.units + unit, count);
    });
  }

  // The weights after a tick with outputs y, in place. Workspace: the residual for a batch of inputs, gains for a batch
  // of outputs; factors, unless nullptr, are what rows are multiplied by at the end. Columns learn independently of
  // each other, so they go in tiles whose residual stays in the nearest cache for all units.
  void learn(const T* x, const T* y, T* weight, T* residual, T* gains, T* factors) const {
    weigh(y, gains);
    const int64_t tile = columns();
    for (int64_t first = 0; first < p_.size; first += tile) {
      const int64_t width = p_.size - first < tile ? p_.size - first : tile;
      for (int64_t b = 0; b < p_.batch; ++b) {
        __builtin_memcpy(residual + b * width, x + b * p_.size + first, static_cast<size_t>(width) * sizeof(T));
      }
      const Residual left{residual, width};
      if (at_once()) {
        explain<true, false>(weight + first, p_.units, y, gains, left);
        explain<false, true>(weight + first, p_.units, y, gains, left);
      } else {
        explain<true, true>(weight + first, p_.units, y, gains, left);
      }
    }
    for (int64_t j = 0; p_.normalize && j < p_.units; ++j) {
      const T factor = normalize_row(weight + j * p_.size, p_.size);
      if (factors != nullptr) {
        factors[j] = factor;
      }
    }
  }

  // Whether every unit learns from what all units leave of the inputs.
  bool at_once() const {
    return p_.rule == LearningRule::kSubspace;
  }
  // The gains of all outputs.
  void weigh(const T* y, T* gains) const {
    for (int64_t k = 0; k < p_.batch * p_.units; ++k) {
      gains[k] = units_.formulas.gain(y[k], T{0});
    }
  }

  // Some columns of what units leave of the inputs, [batch, width].
  struct Residual {
    T* begin;
    int64_t width;
  };
  // For some units one after another, r_b -= y_b w, and w += sum_b gain_b r_b - loss w; y and gains of a sample are
  // `units` apart.
  template <bool kExplains, bool kLearns>
  void explain(T* w, int64_t units, const T* y, const T* gains, const Residual& residual) const {
    constexpr int kRows = kExplains && kLearns ? kTileRows : 2 * kTileRows;
    for_rows<kRows>(
        units, [&](int64_t j, auto together) __attribute__((always_inline)) {
          constexpr int kCount = decltype(together)::value;
          int64_t i = 0;
          for (; i + 2 * kLanes<T> <= residual.width; i += 2 * kLanes<T>) {
            explain_block<kExplains, kLearns, kCount, 2>(w + j * p_.size + i, y + j, gains + j, residual, i);
          }
          if (i < residual.width) {
            explain_block<kExplains, kLearns, kCount, 1>(w + j * p_.size + i, y + j, gains + j, residual, i);
          }
        });
  }

  // Up to kLanes units, from `unit` on.
  UnitRows<T> rows_of(const T* weight, int64_t unit) const {
    const int64_t left = p_.units - unit;
    const T* const rows = weight + unit * p_.size;
    return UnitRows<T>(rows, nullptr, p_.size, left < kLanes<T> ? left : kLanes<T>);
  }

 private:
  // Columns of a tile: as many as make 16 KiB of a batch, whole vectors in pairs.
  int64_t columns() const {
    constexpr int64_t kElements = 16 * 1024 / static_cast<int64_t>(sizeof(T));
    const int64_t sets = kElements / (p_.batch * kSumLanes);
    return (sets < 1 ? 1 : sets) * kSumLanes;
  }

  // kCount vectors of kRows units stay in registers for the whole batch.
  template <bool kExplains, bool kLearns, int kRows, int kCount>
  KERNEL_HOST_DEVICE void explain_block(T* w, const T* y, const T* gains, const Residual& residual, int64_t i) const {
    // Stores could change what a pointer leads to, as far as the compiler knows, so nothing is read through one below.
    const int64_t size = p_.size;
    const int64_t units = p_.units;
    const int64_t width = residual.width;
    const V loss = V::broadcast(-units_.formulas.loss(T{0}));
    V explained[kRows][kCount];
    V changed[kRows][kCount];
#pragma GCC unroll 8
    for (int j = 0; j < kRows; ++j) {
#pragma GCC unroll 2
      for (int v = 0; v < kCount; ++v) {
        const V old = V::load(w + j * size + v * kLanes<T>);
        explained[j][v] = -old;
        changed[j][v] = fused_multiply_add(loss, old, old);
      }
    }
    T* place = residual.begin + i;
    for (int64_t left = p_.batch; left > 0; --left) {
      V r[kCount];
#pragma GCC unroll 2
      for (int v = 0; v < kCount; ++v) {
        r[v] = V::load(place + v * kLanes<T>);
      }
#pragma GCC unroll 8
      for (int j = 0; j < kRows; ++j) {
        const V output = V::broadcast(y[j]);
        const V gain = V::broadcast(gains[j]);
#pragma GCC unroll 2
        for (int v = 0; v < kCount; ++v) {
          r[v] = kExplains ? fused_multiply_add(output, explained[j][v], r[v]) : r[v];
          changed[j][v] = kLearns ? fused_multiply_add(gain, r[v], changed[j][v]) : changed[j][v];
        }
      }
#pragma GCC unroll 2
      for (int v = 0; kExplains && v < kCount; ++v) {
        r[v].store(place + v * kLanes<T>);
      }
      place += width;
      y += units;
      gains += units;
    }
#pragma GCC unroll 8
    for (int j = 0; kLearns && j < kRows; ++j) {
#pragma GCC unroll 2
      for (int v = 0; v < kCount; ++v) {
        changed[j][v].store(w + j * size + v * kLanes<T>);
      }
    }
  }

  const PlasticParams& p_;
  UnitTicks<T> units_;
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
