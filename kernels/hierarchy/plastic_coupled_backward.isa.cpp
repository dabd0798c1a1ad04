// The gradient of layers whose units are coupled, on the CPU; compiled once per instruction set.
//
// With S = share dL/dW after the tick and E the residual that unit j learns from, a sample's outputs have the gradient
//   dL/dy_j = S_j E - W_j sum_i y_i S_i
// over the units i that j explains a part of the input to: i >= j for gha, all for subspace. So, as forwards, sums over
// units run along with j, up for the residual and down for the sum, and a tick costs what its rows cost.
#include "kernels/hierarchy/plastic_backward.h"
#include "kernels/hierarchy/plastic_coupled.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

template <typename T>
class CoupledGradient {
  using V = Vector<T>;

 public:
  CoupledGradient(const PlasticBackwardParams& params, void* scratch)
      : g_(params),
        p_(params.scan),
        ticks_(params.scan),
        part_(plastic_part(p_.ticks)),
        space_(p_, part_, p_.units, /*keeps_ticks=*/false, static_cast<T*>(scratch)),
        residual_(static_cast<T*>(scratch) + space_.elements),
        taught_(residual_ + p_.batch * p_.size) {}

  static int64_t scratch_elements(const PlasticParams& p) {
    const BackwardSpace<T> space(p, plastic_part(p.ticks), p.units, /*keeps_ticks=*/false, nullptr);
    return space.elements + 2 * p.batch * p.size;
  }

  void run(int64_t learner) {
    learner_ = learner;
    const int64_t place = learner * p_.units * p_.size;
    of_weight_ = static_cast<T*>(g_.grad_weight) + place;
    __builtin_memcpy(space_.kept, static_cast<const T*>(g_.weight) + place, row_bytes());
    const int64_t parts = (p_.ticks + part_ - 1) / part_;
    for (int64_t part = 0; part < parts; ++part) {
      replay(part);
    }
    for (int64_t part = parts; part-- > 0;) {
      if (part + 1 < parts) {
        replay(part);
      }
      for (int64_t k = space_.length(part); k-- > 0;) {
        pull(part, k);
      }
    }
  }

 private:
  size_t row_bytes() const {
    return static_cast<size_t>(space_.row) * sizeof(T);
  }
  T* outputs(int64_t k) const {
    return space_.outputs + k * p_.batch * p_.units;
  }

  // The ticks of a part, forwards.
  void replay(int64_t part) const {
    for (int64_t k = 0; k < space_.length(part); ++k) {
      const T* const x = ticks_.input(learner_, part * part_ + k);
      T* const after = space_.weights(part, k + 1);
      ticks_.outputs(space_.weights(part, k), x, outputs(k));
      __builtin_memcpy(after, space_.weights(part, k), row_bytes());
      ticks_.learn(x, outputs(k), after, residual_, space_.gains, space_.factors + k * p_.units);
    }
  }

  // From the gradient after a tick to that before it.
  void pull(int64_t part, int64_t k) const {
    const int64_t tick = part * part_ + k;
    const T* const w = space_.weights(part, k);
    const T* const x = ticks_.input(learner_, tick);
    const T* const y = outputs(k);
    const size_t batch_bytes = static_cast<size_t>(p_.batch * p_.size) * sizeof(T);
    T* const of_input = g_.grad_inputs == nullptr
                            ? nullptr
                            : static_cast<T*>(g_.grad_inputs) + (learner_ * p_.ticks + tick) * p_.batch * p_.size;
    if (p_.normalize) {
      const T* const factors = space_.factors + k * p_.units;
      UnitRows<T>(of_weight_, of_weight_, p_.size, p_.units).move_across(space_.weights(part, k + 1), factors);
    }
    __builtin_memcpy(residual_, x, batch_bytes);
    __builtin_memset(taught_, 0, batch_bytes);
    if (of_input != nullptr) {
      __builtin_memset(of_input, 0, batch_bytes);
    }
    for (int64_t j = 0; j < p_.units; ++j) {
      accumulate(residual_, w + j * p_.size, y + j, T{-1});
      if (ticks_.at_once()) {
        accumulate(taught_, of_weight_ + j * p_.size, y + j, T{1});
      } else {
        along(j);
      }
    }
    for (int64_t j = p_.units; j-- > 0;) {
      if (ticks_.at_once()) {
        along(j);
      } else {
        accumulate(taught_, of_weight_ + j * p_.size, y + j, T{1});
      }
      weigh(j, w, y, tick);
      update(j, w, x, y, of_input);
    }
    if (of_input != nullptr) {
      const V share = V::broadcast(ticks_.formulas().share);
      for (int64_t i = 0; i < p_.batch * p_.size; i += V::kLanes) {
        fused_multiply_add(share, V::load(taught_ + i), V::load(of_input + i)).store(of_input + i);
      }
    }
  }

  // sums_b += sign y_b row
  void accumulate(T* sums, const T* row, const T* y, T sign) const {
    for (int64_t b = 0; b < p_.batch; ++b) {
      const V factor = V::broadcast(sign * y[b * p_.units]);
      for (int64_t i = 0; i < p_.size; i += V::kLanes) {
        T* const place = sums + b * p_.size + i;
        fused_multiply_add(factor, V::load(row + i), V::load(place)).store(place);
      }
    }
  }

  // (dL/dW_j) E of every sample
  void along(int64_t j) const {
    for (int64_t b = 0; b < p_.batch; ++b) {
      space_.products[b * p_.units + j] = dot(of_weight_ + j * p_.size, residual_ + b * p_.size, p_.size);
    }
  }

  // dL/du of every sample of unit j
  void weigh(int64_t j, const T* w, const T* y, int64_t tick) const {
    const T* const of_outputs = g_.grad_outputs == nullptr ? nullptr
                                                           : static_cast<const T*>(g_.grad_outputs) +
                                                                 (learner_ * p_.ticks + tick) * p_.batch * p_.units + j;
    for (int64_t b = 0; b < p_.batch; ++b) {
      T& product = space_.products[b * p_.units + j];
      const T across = dot(taught_ + b * p_.size, w + j * p_.size, p_.size);
      const T of_output = of_outputs == nullptr ? T{0} : of_outputs[b * p_.units];
      product = ticks_.formulas().of_product(y[b * p_.units + j], T{0}, of_output, product - across, T{0});
    }
  }

  // dL/dW_j += sum_b (dL/du_b x_b - gain_b sum_i y_i dL/dW_i) - loss dL/dW_j, and dL/dx_b += dL/du_b W_j
  void update(int64_t j, const T* w, const T* x, const T* y, T* of_input) const {
    const V loss = V::broadcast(-ticks_.formulas().loss(T{0}));
    T* const own = of_weight_ + j * p_.size;
    for (int64_t i = 0; i < p_.size; i += V::kLanes) {
      const V old = V::load(own + i);
      V changed = fused_multiply_add(loss, old, old);
      for (int64_t b = 0; b < p_.batch; ++b) {
        const V product = V::broadcast(space_.products[b * p_.units + j]);
        const V gain = V::broadcast(-ticks_.formulas().gain(y[b * p_.units + j], T{0}));
        changed = fused_multiply_add(gain, V::load(taught_ + b * p_.size + i), changed);
        changed = fused_multiply_add(product, V::load(x + b * p_.size + i), changed);
        if (of_input != nullptr) {
          T* const place = of_input + b * p_.size + i;
          fused_multiply_add(product, V::load(w + j * p_.size + i), V::load(place)).store(place);
        }
      }
      changed.store(own + i);
    }
  }

  const PlasticBackwardParams& g_;
  const PlasticParams& p_;
  CoupledTicks<T> ticks_;
  int64_t part_;
  BackwardSpace<T> space_;
  T* residual_;  // [batch, size]: what units leave of the inputs
  T* taught_;    // likewise: sum_i y_i dL/dW_i
  int64_t learner_ = 0;
  T* of_weight_ = nullptr;  // [units, size]
};

template <typename T>
constexpr RowKernel<PlasticBackwardParams> kBackward = {
    [](const PlasticBackwardParams& g) {
      const PlasticParams& p = g.scan;
      return 16 * p.ticks * p.batch * p.size * p.units;
    },
    [](const PlasticBackwardParams& g) {
      return CoupledGradient<T>::scratch_elements(g.scan) * static_cast<int64_t>(sizeof(T));
    },
    [](const PlasticBackwardParams& g, int64_t begin, int64_t end, void* scratch) {
      CoupledGradient<T> gradient(g, scratch);
      for (int64_t learner = begin; learner < end; ++learner) {
        gradient.run(learner);
      }
    }};

}  // namespace

KERNEL_REGISTER(CoupledBackwardKernels, {kBackward<float>, kBackward<double>})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
