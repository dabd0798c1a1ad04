// A tick of units that learn from each other's outputs, as the CPU takes it: unit by unit, each from what those before
// it (gha) or all (subspace) leave of the inputs. For files that are compiled once per instruction set.
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
      for (int64_t b = 0; b < p_.batch; ++b) {
        put(rows.products(x + b * p_.size), unit, b, rows.count());
      }
    }
  }
  // f(W x), [batch, units]
  void outputs(const T* weight, const T* x, T* y) const {
    products(weight, x, [&](V u, int64_t unit, int64_t b, int64_t count) {
      store_units(units_.formulas.output(u), y + b * p_.units + unit, count);
    });
  }

  // The weights after a tick with outputs y, in place. The residual is workspace for a batch of inputs; factors, unless
  // nullptr, are what rows are multiplied by at the end.
  void learn(const T* x, const T* y, T* weight, T* residual, T* factors) const {
    __builtin_memcpy(residual, x, static_cast<size_t>(p_.batch * p_.size) * sizeof(T));
    if (at_once()) {
      for (int64_t j = 0; j < p_.units; ++j) {
        deflate<true, false>(weight + j * p_.size, y + j, residual);
      }
    }
    for (int64_t j = 0; j < p_.units; ++j) {
      learn_unit(weight + j * p_.size, y + j, residual);
      if (p_.normalize) {
        const T factor = normalize_row(weight + j * p_.size, p_.size);
        if (factors != nullptr) {
          factors[j] = factor;
        }
      }
    }
  }

  // Whether every unit learns from what all units leave of the inputs.
  bool at_once() const {
    return p_.rule == LearningRule::kSubspace;
  }
  // The update of one unit, which unless `at_once` takes what it explains from the residual first.
  void learn_unit(T* w, const T* y, T* residual) const {
    at_once() ? deflate<false, true>(w, y, residual) : deflate<true, true>(w, y, residual);
  }
  // r_b -= y_b w, and w += sum_b gain_b r_b - loss w; y of a batch is `units` apart.
  template <bool kDeflates, bool kLearns>
  void deflate(T* w, const T* y, T* residual) const {
    const V loss = V::broadcast(-units_.formulas.loss(T{0}));
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
        changed = fused_multiply_add(V::broadcast(units_.formulas.gain(y[b * p_.units], T{0})), r, changed);
      }
      if constexpr (kLearns) {
        changed.store(w + i);
      }
    }
  }

  // Up to kLanes units, from `unit` on.
  UnitRows<T> rows_of(const T* weight, int64_t unit) const {
    const int64_t left = p_.units - unit;
    const T* const rows = weight + unit * p_.size;
    return UnitRows<T>(rows, nullptr, p_.size, left < kLanes<T> ? left : kLanes<T>);
  }

 private:
  const PlasticParams& p_;
  UnitTicks<T> units_;
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
