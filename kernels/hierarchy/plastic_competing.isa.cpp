// Layers of units that compete, on the CPU; compiled once per instruction set. A layer goes some rows at a time, with
// one pass over the rows for a tick of one sample, which both updates them and multiplies them with the next input.
#include "kernels/hierarchy/competition.h"
#include "kernels/hierarchy/plastic_units.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

template <typename T>
class CompetingTicks {
  using V = Vector<T>;

 public:
  CompetingTicks(const CompetingParams& params, T* scratch)
      : c_(params),
        p_(params.scan),
        formulas_(params),
        units_(padded_units(params.scan)),
        products_(scratch),
        shares_(products_ + p_.batch * units_),
        rates_(shares_ + p_.batch * units_),
        means_(rates_ + units_),
        gains_(means_ + units_) {
    for (int i = 0; i < kLanes<T>; ++i) {
      places_[i] = static_cast<T>(i);
    }
    for (int64_t i = 0; i < p_.batch * units_; ++i) {
      products_[i] = kNoShare;
    }
  }

  static int64_t scratch_elements(const PlasticParams& p) {
    return 2 * (p.batch + 1) * padded_units(p) + p.batch * kLanes<T>;
  }

  void run(int64_t learner) const {
    T* const weight = static_cast<T*>(p_.weight) + learner * p_.units * p_.size;
    T* const outputs = static_cast<T*>(p_.outputs) + learner * p_.ticks * p_.batch * p_.units;
    const T* const inputs = static_cast<const T*>(p_.inputs) + learner * p_.ticks * p_.batch * p_.size;
    const bool one_pass = p_.batch == 1 && !p_.normalize;
    for (int64_t tick = 0; tick < p_.ticks; ++tick) {
      const T* const x = inputs + tick * p_.batch * p_.size;
      if (tick == 0 || !one_pass) {
        multiply(weight, x);
      }
      for (int64_t b = 0; b < p_.batch; ++b) {
        compete(b, outputs + (tick * p_.batch + b) * p_.units);
      }
      const T scale = weigh(weight, x);
      // After the last tick there is nothing to multiply with; the products are not used.
      const T* const next = !one_pass ? nullptr : tick + 1 < p_.ticks ? x + p_.size : x;
      for_rows_of(weight, [&](const UnitRows<T>& rows, int64_t unit) { learn(rows, unit, scale, x, next); });
    }
  }

 private:
  // A product with which a unit has none.
  static constexpr T kNoShare = -NumberLimits<T>::kInfinity;

  // Whole vectors, and whole halves of partial sums.
  static int64_t padded_units(const PlasticParams& p) {
    return (p.units + kRowPadding - 1) / kRowPadding * kRowPadding;
  }

  // body(rows, unit) for up to kLanes units at a time, from `unit` on.
  template <typename Body>
  void for_rows_of(T* weight, const Body& body) const {
    for (int64_t unit = 0; unit < p_.units; unit += kLanes<T>) {
      const int64_t left = p_.units - unit;
      T* const rows = weight + unit * p_.size;
      body(UnitRows<T>(rows, rows, p_.size, left < kLanes<T> ? left : kLanes<T>), unit);
    }
  }

  // W x of every sample
  void multiply(T* weight, const T* x) const {
    for_rows_of(weight, [&](const UnitRows<T>& rows, int64_t unit) {
      rows.products(p_.batch, x, [&](int64_t b, V u) { keep(u, unit, b); });
    });
  }

  // The products of some units with a sample. What is past the last unit is replaced in registers: a load waits for
  // smaller stores before it.
  void keep(V u, int64_t unit, int64_t b) const {
    const V left = V::broadcast(static_cast<T>(p_.units - unit));
    select(V::load(places_) < left, u, V::broadcast(kNoShare)).store(products_ + b * units_ + unit);
  }

  // From the products of a sample its outputs and shares.
  void compete(int64_t b, T* outputs) const {
    T* const u = products_ + b * units_;
    T* const s = shares_ + b * units_;
    V best = V::broadcast(kNoShare);
    for (int64_t i = 0; i < units_; i += kLanes<T>) {
      best = larger(best, V::load(u + i));
    }
    const T largest = largest_lane(best);
    PartialSums<T> sums;
    for_vectors<T>(
        units_, [&](int64_t i, int v) __attribute__((always_inline)) {
          const V excited = formulas_.excited(V::load(u + i), V::broadcast(largest));
          excited.store(s + i);
          sums.lanes[v] = sums.lanes[v] + excited;
        });
    const V total = V::broadcast(horizontal_sum(sums.folded()));
    for (int64_t i = 0; i < units_; i += kLanes<T>) {
      (V::load(s + i) / total).store(s + i);
    }
    __builtin_memcpy(outputs, s, static_cast<size_t>(p_.units) * sizeof(T));
    if (formulas_.losers == T{1}) {
      return;
    }
    int64_t winner = 0;
    while (winner < p_.units && !(u[winner] == largest)) {
      ++winner;
    }
    for (int64_t i = 0; i < p_.units; ++i) {
      s[i] = i == winner ? s[i] : formulas_.losers * s[i];
    }
  }

  // What every unit multiplies its rate by, and the means of s u; returns what the step is multiplied by.
  T weigh(T* weight, const T* x) const {
    T largest = 0;
    for_rows_of(weight, [&](const UnitRows<T>& rows, int64_t unit) {
      V sum = V::broadcast(0);
      for (int64_t b = 0; b < p_.batch; ++b) {
        const V s = V::load(shares_ + b * units_ + unit);
        sum = fused_multiply_add(s, V::load(products_ + b * units_ + unit), sum);
        if (c_.scaled) {
          (V::broadcast(formulas_.per_sample) * s).store(gains_ + b * kLanes<T>);
        }
      }
      const V mean = sum / V::broadcast(static_cast<T>(p_.batch));
      mean.store(means_ + unit);
      (c_.power == 0 ? V::broadcast(1) : formulas_.rate_of(rows.squares())).store(rates_ + unit);
      if (c_.scaled) {
        largest = larger(largest, rows.largest_step(p_.batch, gains_, mean, x));
      }
    });
    return c_.scaled ? formulas_.scale_of(largest) : T{1};
  }

  // The update of some rows, and their products with the next input, if that is given.
  void learn(const UnitRows<T>& rows, int64_t unit, T scale, const T* x, const T* next) const {
    const V rate = V::load(rates_ + unit);
    const V loss = formulas_.loss(rate, scale, V::load(means_ + unit));
    const auto gain = [&](int64_t b) { return formulas_.gain(rate, scale, V::load(shares_ + b * units_ + unit)); };
    if (next != nullptr) {
      keep(rows.update(gain(0), loss, x, next), unit, 0);
      return;
    }
    for (int64_t b = 0; b < p_.batch; ++b) {
      gain(b).store(gains_ + b * kLanes<T>);
    }
    rows.update(p_.batch, gains_, loss, x);
    if (p_.normalize) {
      (void)rows.normalize();
    }
  }

  const CompetingParams& c_;
  const PlasticParams& p_;
  Competition<T> formulas_;
  int64_t units_;  // padded
  T* products_;    // [batch, units]
  T* shares_;      // [batch, units]
  T* rates_;       // [units]
  T* means_;       // [units]
  T* gains_;       // [batch, kLanes]
  T places_[kLanes<T>];
};

template <typename T>
constexpr RowKernel<CompetingParams> kCompeting = {
    [](const CompetingParams& c) { return 4 * c.scan.ticks * c.scan.batch * c.scan.size * c.scan.units; },
    [](const CompetingParams& c) {
      return CompetingTicks<T>::scratch_elements(c.scan) * static_cast<int64_t>(sizeof(T));
    },
    [](const CompetingParams& c, int64_t begin, int64_t end, void* scratch) {
      const CompetingTicks<T> ticks(c, static_cast<T*>(scratch));
      for (int64_t learner = begin; learner < end; ++learner) {
        ticks.run(learner);
      }
    }};

}  // namespace

KERNEL_REGISTER(CompetingKernels, {kCompeting<float>, kCompeting<double>})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
