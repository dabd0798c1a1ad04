// The tangents of layers whose units are coupled, on the CPU; compiled once per instruction set.
#include "kernels/hierarchy/plastic_coupled.h"
#include "kernels/hierarchy/plastic_tangent.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

template <typename T>
class CoupledTangent {
  using V = Vector<T>;

 public:
  CoupledTangent(const PlasticTangentParams& params, T* scratch) : d_(params), p_(params.scan), ticks_(params.scan) {
    weight_ = scratch;
    residual_ = weight_ + p_.units * p_.size;
    moved_residual_ = residual_ + p_.batch * p_.size;
    outputs_ = moved_residual_ + p_.batch * p_.size;
    gains_ = outputs_ + p_.batch * p_.units;
  }
  static int64_t scratch_elements(const PlasticParams& p) {
    return (p.units + 2 * p.batch) * p.size + 2 * p.batch * p.units;
  }

  void run(int64_t learner) {
    const int64_t place = learner * p_.units * p_.size;
    __builtin_memcpy(weight_, static_cast<const T*>(d_.weight) + place,
                     static_cast<size_t>(p_.units * p_.size) * sizeof(T));
    T* const moved = static_cast<T*>(d_.tangent_weight) + place;
    const size_t batch_bytes = static_cast<size_t>(p_.batch * p_.size) * sizeof(T);
    for (int64_t tick = 0; tick < p_.ticks; ++tick) {
      const int64_t number = learner * p_.ticks + tick;
      const T* const x = ticks_.input(learner, tick);
      const T* const dx = d_.tangent_inputs == nullptr
                              ? nullptr
                              : static_cast<const T*>(d_.tangent_inputs) + number * p_.batch * p_.size;
      T* const dy = static_cast<T*>(d_.tangent_outputs) + number * p_.batch * p_.units;
      ticks_.outputs(weight_, x, outputs_);
      move_outputs(moved, x, dx, dy);
      ticks_.weigh(outputs_, gains_);
      __builtin_memcpy(residual_, x, batch_bytes);
      if (dx == nullptr) {
        __builtin_memset(moved_residual_, 0, batch_bytes);
      } else {
        __builtin_memcpy(moved_residual_, dx, batch_bytes);
      }
      if (ticks_.at_once()) {
        for (int64_t j = 0; j < p_.units; ++j) {
          move_residual(j, moved, dy);
          explain<true, false>(j);
        }
      }
      for (int64_t j = 0; j < p_.units; ++j) {
        if (!ticks_.at_once()) {
          move_residual(j, moved, dy);
        }
        T* const w = weight_ + j * p_.size;
        T* const v = moved + j * p_.size;
        ticks_.at_once() ? explain<false, true>(j) : explain<true, true>(j);
        move_weight(j, v, dy);
        if (p_.normalize) {
          const T factor = normalize_row(w, p_.size);
          UnitRows<T>(v, v, p_.size, 1).move_across(w, &factor);
        }
      }
    }
  }

 private:
  template <bool kExplains, bool kLearns>
  void explain(int64_t j) const {
    ticks_.template explain<kExplains, kLearns>(weight_ + j * p_.size, 1, outputs_ + j, gains_ + j,
                                                {residual_, p_.size});
  }

  // dy = f'(u) (dW x + W dx)
  void move_outputs(const T* moved, const T* x, const T* dx, T* dy) const {
    ticks_.products(moved, x, [&](V du, int64_t unit, int64_t b, int64_t count) {
      if (dx != nullptr) {
        du = du + ticks_.rows_of(weight_, unit).products(dx + b * p_.size);
      }
      const int64_t place = b * p_.units + unit;
      store_units(du * ticks_.formulas().slope(load_units(outputs_ + place, count)), dy + place, count);
    });
  }

  // dr_b -= dy_b w + y_b dw
  void move_residual(int64_t j, const T* moved, const T* dy) const {
    for (int64_t b = 0; b < p_.batch; ++b) {
      const V y = V::broadcast(-outputs_[b * p_.units + j]);
      const V own = V::broadcast(-dy[b * p_.units + j]);
      for (int64_t i = 0; i < p_.size; i += V::kLanes) {
        T* const place = moved_residual_ + b * p_.size + i;
        const V r = fused_multiply_add(own, V::load(weight_ + j * p_.size + i), V::load(place));
        fused_multiply_add(y, V::load(moved + j * p_.size + i), r).store(place);
      }
    }
  }

  // dw += share sum_b (dy_b r_b + y_b dr_b) - loss dw
  void move_weight(int64_t j, T* v, const T* dy) const {
    const PlasticFormulas<T>& formulas = ticks_.formulas();
    const V loss = V::broadcast(-formulas.loss(T{0}));
    for (int64_t i = 0; i < p_.size; i += V::kLanes) {
      const V old = V::load(v + i);
      V changed = fused_multiply_add(loss, old, old);
      for (int64_t b = 0; b < p_.batch; ++b) {
        const T y = outputs_[b * p_.units + j];
        const V gain = V::broadcast(formulas.gain(y, T{0}));
        const V moved_gain = V::broadcast(formulas.moved_gain(y, T{0}, dy[b * p_.units + j], T{0}));
        changed = fused_multiply_add(moved_gain, V::load(residual_ + b * p_.size + i), changed);
        changed = fused_multiply_add(gain, V::load(moved_residual_ + b * p_.size + i), changed);
      }
      changed.store(v + i);
    }
  }

  const PlasticTangentParams& d_;
  const PlasticParams& p_;
  CoupledTicks<T> ticks_;
  T* weight_;          // [units, size]
  T* residual_;        // [batch, size]: what units leave of the inputs
  T* moved_residual_;  // likewise: its tangent
  T* outputs_;         // [batch, units]
  T* gains_;           // likewise
};

template <typename T>
constexpr RowKernel<PlasticTangentParams> kTangent = {
    [](const PlasticTangentParams& d) { return 16 * d.scan.ticks * d.scan.batch * d.scan.size * d.scan.units; },
    [](const PlasticTangentParams& d) {
      return CoupledTangent<T>::scratch_elements(d.scan) * static_cast<int64_t>(sizeof(T));
    },
    [](const PlasticTangentParams& d, int64_t begin, int64_t end, void* scratch) {
      CoupledTangent<T> tangent(d, static_cast<T*>(scratch));
      for (int64_t learner = begin; learner < end; ++learner) {
        tangent.run(learner);
      }
    }};

}  // namespace

KERNEL_REGISTER(CoupledTangentKernels, {kTangent<float>, kTangent<double>})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
