// The tangents of layers that learn at every tick, on the CPU; compiled once per instruction set.
#include "kernels/hierarchy/plastic_tangent.h"

#include <utility>

#include "kernels/hierarchy/plastic_rows.h"
#include "kernels/hierarchy/plastic_units.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

template <typename T>
class Tangent {
  using V = Vector<T>;

 public:
  Tangent(const PlasticTangentParams& params, T* scratch) : d_(params), p_(params.scan), units_(params.scan) {
    weight_ = scratch;
    next_ = weight_ + kLanes<T> * p_.size;
    outputs_ = next_ + kLanes<T> * p_.size;
    gains_ = outputs_ + kLanes<T> * p_.batch;
    moved_gains_ = gains_ + kLanes<T> * p_.batch;
  }
  static int64_t scratch_elements(const PlasticParams& p) {
    return kLanes<T> * (2 * p.size + 3 * p.batch);
  }

  // Up to kLanes units of a learner.
  void run_units(int64_t learner, int64_t unit, int64_t count) {
    const int64_t place = learner * p_.units + unit;
    __builtin_memcpy(weight_, static_cast<const T*>(d_.weight) + place * p_.size,
                     static_cast<size_t>(count * p_.size) * sizeof(T));
    T* const moved = static_cast<T*>(d_.tangent_weight) + place * p_.size;
    const UnitRows<T> tangent(moved, moved, p_.size, count);
    V theta = load_units(d_.theta == nullptr ? nullptr : static_cast<const T*>(d_.theta) + place, count);
    T* const moved_theta = d_.tangent_theta == nullptr ? nullptr : static_cast<T*>(d_.tangent_theta) + place;
    V dtheta = load_units(moved_theta, count);
    V products = V::broadcast(0);
    for (int64_t tick = 0; tick < p_.ticks; ++tick) {
      const UnitRows<T> own(weight_, next_, p_.size, count);
      const T* const x = units_.input(learner, tick);
      const T* const dx = d_.tangent_inputs == nullptr ? nullptr
                                                       : static_cast<const T*>(d_.tangent_inputs) +
                                                             (learner * p_.ticks + tick) * p_.batch * p_.size;
      const V before = theta;
      V factors = V::broadcast(1);
      if (units_.one_pass()) {
        products = tick == 0 ? own.products(x) : products;
        // After the last tick there is nothing to multiply with; the products are not used.
        const T* const ahead = tick + 1 < p_.ticks ? units_.input(learner, tick + 1) : x;
        products = units_.learn_one(own, x, ahead, products, outputs_, theta);
      } else {
        factors = units_.learn(own, x, outputs_, kLanes<T>, gains_, theta);
      }
      T* const outputs = static_cast<T*>(d_.tangent_outputs) + (learner * p_.ticks + tick) * p_.batch * p_.units + unit;
      const V dsquare = move_outputs(own, tangent, x, dx, before, dtheta, outputs);
      const PlasticFormulas<T>& formulas = units_.formulas;
      tangent.update(p_.batch, moved_gains_, formulas.loss(units_.mean_square(outputs_, kLanes<T>)), x);
      if (p_.rule == LearningRule::kOja) {
        tangent.subtract(formulas.moved_loss(dsquare), weight_);
      }
      if (dx != nullptr) {
        tangent.update(p_.batch, gains_, V::broadcast(0), dx);
      }
      if (p_.normalize) {
        T own_factors[kLanes<T>];
        factors.store(own_factors);
        tangent.move_across(next_, own_factors);
      }
      dtheta = formulas.next_theta(dtheta, dsquare);
      std::swap(weight_, next_);
    }
    if (moved_theta != nullptr) {
      store_units(dtheta, moved_theta, count);
    }
  }

 private:
  // The tangents of a tick's outputs, and its gains and their tangents; that of E[y^2].
  V move_outputs(const UnitRows<T>& own, const UnitRows<T>& tangent, const T* x, const T* dx, V theta, V dtheta,
                 T* outputs) const {
    const PlasticFormulas<T>& formulas = units_.formulas;
    V squares = V::broadcast(0);
    for (int64_t b = 0; b < p_.batch; ++b) {
      V du = tangent.products(x + b * p_.size);
      if (dx != nullptr) {
        du = du + own.products(dx + b * p_.size);
      }
      const V y = V::load(outputs_ + b * kLanes<T>);
      const V dy = du * formulas.slope(y);
      store_units(dy, outputs + b * p_.units, own.count());
      squares = fused_multiply_add(y, dy, squares);
      formulas.gain(y, theta).store(gains_ + b * kLanes<T>);
      formulas.moved_gain(y, theta, dy, dtheta).store(moved_gains_ + b * kLanes<T>);
    }
    return V::broadcast(formulas.twice_mean) * squares;
  }

  const PlasticTangentParams& d_;
  const PlasticParams& p_;
  UnitTicks<T> units_;
  T* weight_;       // [kLanes, size], before the tick
  T* next_;         // after it
  T* outputs_;      // [batch, kLanes]
  T* gains_;        // likewise
  T* moved_gains_;  // likewise
};

template <typename T>
constexpr RowKernel<PlasticTangentParams> kTangent = {
    [](const PlasticTangentParams& d) { return 16 * d.scan.ticks * d.scan.batch * d.scan.size * kPlasticGroup; },
    [](const PlasticTangentParams& d) {
      return Tangent<T>::scratch_elements(d.scan) * static_cast<int64_t>(sizeof(T));
    },
    [](const PlasticTangentParams& d, int64_t begin, int64_t end, void* scratch) {
      const PlasticParams& p = d.scan;
      Tangent<T> tangent(d, static_cast<T*>(scratch));
      const int64_t groups = plastic_groups(p);
      for (int64_t row = begin; row < end; ++row) {
        const int64_t first = row % groups * kPlasticGroup;
        const int64_t last = first + kPlasticGroup < p.units ? first + kPlasticGroup : p.units;
        for (int64_t unit = first; unit < last; unit += kLanes<T>) {
          tangent.run_units(row / groups, unit, last - unit < kLanes<T> ? last - unit : kLanes<T>);
        }
      }
    }};

}  // namespace

KERNEL_REGISTER(PlasticTangentKernels, {kTangent<float>, kTangent<double>})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
