// Layers that learn at every tick, on the CPU; compiled once per instruction set.
//
// Units without coupling run through all ticks a few at a time: their rows stay in the nearest cache, and one pass over
// a row both updates it and multiplies it with the next input. Ticks go in tiles whose inputs stay in the second cache
// for all units of a group.
#include "kernels/hierarchy/plastic.h"

#include "kernels/hierarchy/plastic_coupled.h"
#include "kernels/hierarchy/plastic_rows.h"
#include "kernels/hierarchy/plastic_units.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

template <typename T>
class Layer {
  using V = Vector<T>;

 public:
  explicit Layer(const PlasticParams& params) : p_(params), units_(params) {}

  // Units [first, first + count) of a learner, whose outputs of a tile fit `outputs`, and gains of
  // a tick `gains`.
  void run_units(int64_t learner, int64_t first, int64_t count, T* outputs, T* gains) const {
    Progress progress[kPlasticGroup / kLanes<T>] = {};
    for (int64_t unit = 0; unit < count; unit += kLanes<T>) {
      const UnitRows<T> rows = rows_of(learner, first + unit, count - unit);
      Progress& own = progress[unit / kLanes<T>];
      own.theta = load_units(theta_of(learner, first + unit), rows.count());
      if (units_.one_pass() && p_.ticks > 0) {
        own.products = rows.products(units_.input(learner, 0));
      }
    }
    const int64_t tile = plastic_tile<T>(p_);
    for (int64_t begin = 0; begin < p_.ticks; begin += tile) {
      const int64_t end = begin + tile < p_.ticks ? begin + tile : p_.ticks;
      const int64_t step = units_.one_pass() ? units_at_once() : kLanes<T>;
      for (int64_t unit = 0; unit < count; unit += step) {
        const int64_t left = count - unit < step ? count - unit : step;
        Progress* const own = progress + unit / kLanes<T>;
        if (units_.one_pass()) {
          online(learner, first + unit, left, begin, end, outputs + unit, own);
          continue;
        }
        const UnitRows<T> rows = rows_of(learner, first + unit, left);
        for (int64_t tick = begin; tick < end; ++tick) {
          (void)units_.learn(rows, units_.input(learner, tick),
                             outputs + unit + (tick - begin) * p_.batch * kPlasticGroup, kPlasticGroup, gains,
                             own->theta);
        }
      }
      T* const target = static_cast<T*>(p_.outputs) + (learner * p_.ticks + begin) * p_.batch * p_.units + first;
      for (int64_t row = 0; row < (end - begin) * p_.batch; ++row) {
        __builtin_memcpy(target + row * p_.units, outputs + row * kPlasticGroup,
                         static_cast<size_t>(count) * sizeof(T));
      }
    }
    for (int64_t unit = 0; p_.theta != nullptr && unit < count; unit += kLanes<T>) {
      const int64_t left = count - unit < kLanes<T> ? count - unit : kLanes<T>;
      store_units(progress[unit / kLanes<T>].theta, theta_of(learner, first + unit), left);
    }
  }

  // All units of a learner, tick by tick: they are coupled. The gains of a tick fit `gains`.
  void run_coupled(int64_t learner, T* gains) const {
    const CoupledTicks<T> ticks(p_);
    T* const outputs = static_cast<T*>(p_.outputs) + learner * p_.ticks * p_.batch * p_.units;
    T* const residual = static_cast<T*>(p_.residual) + learner * p_.batch * p_.size;
    for (int64_t tick = 0; tick < p_.ticks; ++tick) {
      T* const y = outputs + tick * p_.batch * p_.units;
      const T* const x = ticks.input(learner, tick);
      ticks.outputs(row(learner, 0), x, y);
      ticks.learn(x, y, row(learner, 0), residual, gains, nullptr);
    }
  }

 private:
  T* row(int64_t learner, int64_t unit) const {
    return static_cast<T*>(p_.weight) + (learner * p_.units + unit) * p_.size;
  }

  // Up to kLanes of `count` units, from `unit` on.
  UnitRows<T> rows_of(int64_t learner, int64_t unit, int64_t count) const {
    T* const rows = row(learner, unit);
    return UnitRows<T>(rows, rows, p_.size, count < kLanes<T> ? count : kLanes<T>);
  }

  T* theta_of(int64_t learner, int64_t unit) const {
    return p_.theta == nullptr ? nullptr : static_cast<T*>(p_.theta) + learner * p_.units + unit;
  }

  // Of up to kLanes units between two ticks: W x of the one to come, and theta.
  struct Progress {
    V products, theta;
  };

  // Units that take turns at every tick, so that one vector of them learns while the outputs of another are on their
  // way: as many as leave a quarter of the nearest cache to the inputs.
  int64_t units_at_once() const {
    constexpr int64_t kRowBytes = 24 * 1024;
    const int64_t sets = kRowBytes / (kLanes<T> * p_.size * static_cast<int64_t>(sizeof(T)));
    return (sets < 1 ? 1 : sets) * kLanes<T>;
  }

  // One input a tick, for `count` units.
  void online(int64_t learner, int64_t first, int64_t count, int64_t begin, int64_t end, T* outputs,
              Progress* progress) const {
    for (int64_t tick = begin; tick < end; ++tick) {
      const T* const now = units_.input(learner, tick);
      // After the last tick there is nothing to multiply with; the products are not used.
      const T* const next = tick + 1 < p_.ticks ? units_.input(learner, tick + 1) : now;
#pragma GCC unroll 1
      for (int64_t unit = 0; unit < count; unit += kLanes<T>) {
        Progress& own = progress[unit / kLanes<T>];
        own.products = units_.learn_one(rows_of(learner, first + unit, count - unit), now, next, own.products,
                                        outputs + (tick - begin) * kPlasticGroup + unit, own.theta);
      }
    }
  }

  const PlasticParams& p_;
  UnitTicks<T> units_;
};

template <typename T>
constexpr RowKernel<PlasticParams> kPlastic = {
    [](const PlasticParams& p) { return 4 * p.ticks * p.batch * p.size * (p.coupled() ? p.units : kPlasticGroup); },
    [](const PlasticParams& p) {
      const int64_t outputs = p.coupled() ? p.units : (plastic_tile<T>(p) + 1) * kPlasticGroup;
      return outputs * p.batch * static_cast<int64_t>(sizeof(T));
    },
    [](const PlasticParams& p, int64_t begin, int64_t end, void* scratch) {
      const Layer<T> layer(p);
      const int64_t groups = plastic_groups(p);
      for (int64_t row = begin; row < end; ++row) {
        if (p.coupled()) {
          layer.run_coupled(row, static_cast<T*>(scratch));
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
