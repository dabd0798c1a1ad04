// The gradient of layers that learn at every tick, on the CPU; compiled once per instruction set.
#include "kernels/hierarchy/plastic_backward.h"

#include "kernels/hierarchy/plastic_units.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// Rows of gradients that one loop takes together: each has two sums.
template <typename T>
constexpr int kGradientsTogether = kTogether<T> > 1 ? kTogether<T> / 2 : 1;

template <typename T>
BackwardSpace<T> space_for_lanes(const PlasticParams& p, void* memory) {
  return BackwardSpace<T>(p, plastic_part(p.ticks), kLanes<T>, /*keeps_ticks=*/false, static_cast<T*>(memory));
}

template <typename T>
class Gradient {
  using V = Vector<T>;

 public:
  Gradient(const PlasticBackwardParams& params, void* scratch)
      : g_(params),
        p_(params.scan),
        units_(params.scan),
        space_(space_for_lanes<T>(params.scan, scratch)),
        part_(plastic_part(p_.ticks)) {}

  // Up to kLanes units of a learner; adds to the gradient of its inputs, unless that is nullptr.
  void run_units(int64_t learner, int64_t unit, int64_t count, T* of_inputs) {
    learner_ = learner;
    unit_ = unit;
    count_ = count;
    of_inputs_ = of_inputs;
    const int64_t place = learner * p_.units + unit;
    const size_t bytes = static_cast<size_t>(count * p_.size) * sizeof(T);
    __builtin_memcpy(space_.kept, static_cast<const T*>(g_.weight) + place * p_.size, bytes);
    load_units(g_.theta == nullptr ? nullptr : static_cast<const T*>(g_.theta) + place, count).store(space_.starts);
    of_weight_ = static_cast<T*>(g_.grad_weight) + place * p_.size;
    T* const of_theta = g_.grad_theta == nullptr ? nullptr : static_cast<T*>(g_.grad_theta) + place;
    of_theta_ = load_units(of_theta, count);
    const int64_t parts = (p_.ticks + part_ - 1) / part_;
    for (int64_t part = 0; part < parts; ++part) {
      replay(part);
    }
    for (int64_t part = parts; part-- > 0;) {
      if (part + 1 < parts) {
        replay(part);
      }
      units_.one_pass() ? pull_one_by_one(part) : pull(part);
    }
    if (of_theta != nullptr) {
      store_units(of_theta_, of_theta, count);
    }
  }

 private:
  UnitRows<T> rows(const T* from, T* to) const {
    return UnitRows<T>(from, to, p_.size, count_);
  }
  T* outputs(int64_t k) const {
    return space_.outputs + k * p_.batch * kLanes<T>;
  }

  // The ticks of a part, forwards.
  void replay(int64_t part) const {
    V theta = V::load(space_.starts + part * kLanes<T>);
    V products = V::broadcast(0);
    for (int64_t k = 0; k < space_.length(part); ++k) {
      const int64_t tick = part * part_ + k;
      const T* const x = units_.input(learner_, tick);
      const UnitRows<T> own = rows(space_.weights(part, k), space_.weights(part, k + 1));
      theta.store(space_.thetas + k * kLanes<T>);
      if (units_.one_pass()) {
        products = k == 0 ? own.products(x) : products;
        const T* const next = k + 1 < space_.length(part) ? units_.input(learner_, tick + 1) : x;
        products = units_.learn_one(own, x, next, products, outputs(k), theta);
      } else {
        units_.learn(own, x, outputs(k), kLanes<T>, space_.gains, theta).store(space_.factors + k * kLanes<T>);
      }
    }
    theta.store(space_.starts + (part + 1) * kLanes<T>);
  }

  // From the gradient after a tick to that before it. Formulas of a tick's samples: gains, dL/du, and theta's.
  V weigh(int64_t tick, int64_t k, V across, const T* along) {
    const PlasticFormulas<T>& formulas = units_.formulas;
    const V theta = V::load(space_.thetas + k * kLanes<T>);
    const V of_square = formulas.through_square(across, of_theta_);
    of_theta_ = formulas.kept_theta(of_theta_);
    for (int64_t b = 0; b < p_.batch; ++b) {
      const V y = V::load(outputs(k) + b * kLanes<T>);
      const T* const of_outputs = g_.grad_outputs == nullptr
                                      ? nullptr
                                      : static_cast<const T*>(g_.grad_outputs) +
                                            ((learner_ * p_.ticks + tick) * p_.batch + b) * p_.units + unit_;
      const V own = V::load(along + b * kLanes<T>);
      formulas.gain(y, theta).store(space_.gains + b * kLanes<T>);
      formulas.of_product(y, theta, load_units(of_outputs, count_), own, of_square)
          .store(space_.products + b * kLanes<T>);
      of_theta_ = formulas.through_gain(y, own, of_theta_);
    }
    return formulas.loss(units_.mean_square(outputs(k), kLanes<T>));
  }

  // Ticks of several inputs, or of rows that are scaled after it.
  void pull(int64_t part) {
    const UnitRows<T> own = rows(of_weight_, of_weight_);
    for (int64_t k = space_.length(part); k-- > 0;) {
      const int64_t tick = part * part_ + k;
      const T* const x = units_.input(learner_, tick);
      if (p_.normalize) {
        own.move_across(space_.weights(part, k + 1), space_.factors + k * kLanes<T>);
      }
      for (int64_t b = 0; b < p_.batch; ++b) {
        own.products(x + b * p_.size).store(space_.products + b * kLanes<T>);
      }
      const V loss = weigh(tick, k, own.products_of_rows(space_.weights(part, k)), space_.products);
      if (of_inputs_ != nullptr) {
        for (int64_t b = 0; b < p_.batch; ++b) {
          spread(space_.weights(part, k), space_.gains + b * kLanes<T>, space_.products + b * kLanes<T>,
                 of_inputs_ + (tick * p_.batch + b) * p_.size);
        }
      }
      own.update(p_.batch, space_.products, loss, x);
    }
  }

  // dL/dx += gain dL/dW + dL/du W, unit by unit.
  void spread(const T* w, const T* gains, const T* products, T* of_input) const {
    for (int64_t i = 0; i < p_.size; i += kLanes<T>) {
      V sum = V::load(of_input + i);
      for (int64_t r = 0; r < count_; ++r) {
        sum = fused_multiply_add(V::broadcast(gains[r]), V::load(of_weight_ + r * p_.size + i), sum);
        sum = fused_multiply_add(V::broadcast(products[r]), V::load(w + r * p_.size + i), sum);
      }
      sum.store(of_input + i);
    }
  }

  // One input a tick: one pass over the rows does all of a tick and the products of the tick before.
  void pull_one_by_one(int64_t part) {
    const int64_t last = space_.length(part) - 1;
    const UnitRows<T> own = rows(of_weight_, of_weight_);
    V along = own.products(units_.input(learner_, part * part_ + last));
    V across = own.products_of_rows(space_.weights(part, last));
    for (int64_t k = last; k >= 0; --k) {
      const int64_t tick = part * part_ + k;
      along.store(space_.products);
      const V loss = weigh(tick, k, across, space_.products);
      // Before the first tick of the part there is nothing to multiply with; the products are not used.
      const Before before{units_.input(learner_, k > 0 ? tick - 1 : tick), space_.weights(part, k > 0 ? k - 1 : k)};
      if (of_inputs_ != nullptr) {
        step_back<true>(part, k, loss, before, along, across);
      } else {
        step_back<false>(part, k, loss, before, along, across);
      }
    }
  }

  // An input and the weights before it.
  struct Before {
    const T* x;
    const T* w;
  };
  // dL/dx += gain dL/dW + dL/du W if kForInputs; dL/dW += dL/du x - loss dL/dW; then (dL/dW) x and (dL/dW) W of the
  // tick before.
  template <bool kForInputs>
  void step_back(int64_t part, int64_t k, V loss, const Before& before, V& along, V& across) const {
    const int64_t tick = part * part_ + k;
    const int64_t size = p_.size;
    const T* const x = units_.input(learner_, tick);
    T losses[kLanes<T>];
    (-loss).store(losses);
    V folded[2][kLanes<T>] = {};
    for_rows<kGradientsTogether<T>>(
        count_, [&](int64_t r, auto together) __attribute__((always_inline)) {
          constexpr int kRows = decltype(together)::value;
          PartialSums<T> sums[2][kRows];
          V gain[kRows];
          V product[kRows];
          V kept[kRows];
          for (int j = 0; j < kRows; ++j) {
            gain[j] = V::broadcast(space_.gains[r + j]);
            product[j] = V::broadcast(space_.products[r + j]);
            kept[j] = V::broadcast(losses[r + j]);
          }
          T* const own = of_weight_ + r * size;
          const T* const w = space_.weights(part, k) + r * size;
          const T* const earlier = before.w + r * size;
          T* const of_input = kForInputs ? of_inputs_ + tick * size : nullptr;
          for_vectors<T>(
              size, [&](int64_t i, int v) __attribute__((always_inline)) {
                const V now = V::load(x + i);
                const V ahead = V::load(before.x + i);
                [[maybe_unused]] V sum;
                if constexpr (kForInputs) {
                  sum = V::load(of_input + i);
                }
#pragma GCC unroll 4
                for (int j = 0; j < kRows; ++j) {
                  const V old = V::load(own + j * size + i);
                  if constexpr (kForInputs) {
                    sum = fused_multiply_add(gain[j], old, sum);
                    sum = fused_multiply_add(product[j], V::load(w + j * size + i), sum);
                  }
                  const V changed = fused_multiply_add(product[j], now, fused_multiply_add(kept[j], old, old));
                  changed.store(own + j * size + i);
                  sums[0][j].lanes[v] = fused_multiply_add(changed, ahead, sums[0][j].lanes[v]);
                  sums[1][j].lanes[v] =
                      fused_multiply_add(changed, V::load(earlier + j * size + i), sums[1][j].lanes[v]);
                }
                if constexpr (kForInputs) {
                  sum.store(of_input + i);
                }
              });
          for (int j = 0; j < kRows; ++j) {
            folded[0][r + j] = sums[0][j].folded();
            folded[1][r + j] = sums[1][j].folded();
          }
        });
    along = sums_of<T>(folded[0]);
    across = sums_of<T>(folded[1]);
  }

  const PlasticBackwardParams& g_;
  const PlasticParams& p_;
  UnitTicks<T> units_;
  BackwardSpace<T> space_;
  int64_t part_;
  // Of the units at hand.
  int64_t learner_ = 0;
  int64_t unit_ = 0;
  int64_t count_ = 0;
  T* of_inputs_ = nullptr;  // [ticks, batch, size]
  T* of_weight_ = nullptr;  // [count, size]
  V of_theta_ = V::broadcast(0);
};

template <typename T>
constexpr RowKernel<PlasticBackwardParams> kBackward = {
    [](const PlasticBackwardParams& g) {
      const PlasticParams& p = g.scan;
      return 16 * p.ticks * p.batch * p.size * plastic_backward_block(p.units, g.grad_inputs != nullptr);
    },
    [](const PlasticBackwardParams& g) {
      return space_for_lanes<T>(g.scan, nullptr).elements * static_cast<int64_t>(sizeof(T));
    },
    [](const PlasticBackwardParams& g, int64_t begin, int64_t end, void* scratch) {
      const PlasticParams& p = g.scan;
      Gradient<T> gradient(g, scratch);
      const bool for_inputs = g.grad_inputs != nullptr;
      const int64_t block = plastic_backward_block(p.units, for_inputs);
      const int64_t blocks = plastic_backward_blocks(p.units, for_inputs);
      const int64_t inputs = p.ticks * p.batch * p.size;
      for (int64_t row = begin; row < end; ++row) {
        const int64_t learner = row / blocks;
        const int64_t first = row % blocks * block;
        const int64_t last = first + block < p.units ? first + block : p.units;
        T* of_inputs = nullptr;
        if (for_inputs) {
          of_inputs = static_cast<T*>(g.grad_inputs) + (row % blocks * p.learners + learner) * inputs;
          __builtin_memset(of_inputs, 0, static_cast<size_t>(inputs) * sizeof(T));
        }
        for (int64_t unit = first; unit < last; unit += kLanes<T>) {
          gradient.run_units(learner, unit, last - unit < kLanes<T> ? last - unit : kLanes<T>, of_inputs);
        }
      }
    }};

}  // namespace

KERNEL_REGISTER(PlasticBackwardKernels, {kBackward<float>, kBackward<double>})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
