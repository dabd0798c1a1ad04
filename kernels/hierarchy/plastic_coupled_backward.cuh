// The kernel of the gradient of layers whose units are coupled: a block for each layer, which walks its ticks back. The
// formulas and the bits are the CPU's, see plastic_coupled_backward.isa.cpp.
#pragma once

#include "kernels/hierarchy/plastic.cuh"
#include "kernels/hierarchy/plastic_backward.h"

namespace torch_hrr::kernels {

// Sums over units that gha keeps at a time: of a batch, for as many units as that makes.
constexpr int64_t kKeptSums = 64;

// What the walk of one learner needs besides the arrays of the call.
template <typename T>
struct CoupledSpace {
  BackwardSpace<T> walk;
  int64_t tile;      // units whose sums are kept at a time
  T* total;          // [batch, size]: the residual of a tick forwards; sums over units
  T* kept;           // [tile, batch, size]: the sums with each unit as the last; of gha alone
  int64_t elements;  // of all

  // With nullptr for memory, only elements are counted.
  KERNEL_HOST_DEVICE CoupledSpace(const PlasticParams& p, int64_t part_length, T* memory)
      : walk(p, part_length, p.units, /*keeps_ticks=*/false, memory), tile(p.units) {
    const bool keeps = p.rule == LearningRule::kGha;
    if (keeps) {
      const int64_t most = kKeptSums < p.batch ? 1 : kKeptSums / p.batch;
      tile = most < p.units ? most : p.units;
    }
    const int64_t sums = p.batch * p.size;
    total = memory == nullptr ? nullptr : memory + walk.elements;
    kept = memory == nullptr ? nullptr : total + sums;
    elements = walk.elements + sums + (keeps ? tile * sums : 0);
  }
};

template <typename T, bool kOne>
class CoupledWalk {
 public:
  // The space is the first learner's.
  KERNEL_DEVICE CoupledWalk(const PlasticBackwardParams& params, const CoupledSpace<T>& space, int64_t learner)
      : g_(params),
        p_(params.scan),
        space_(space),
        formulas_(params.scan),
        learner_(learner),
        of_weight_(static_cast<T*>(params.grad_weight) + learner * space.walk.row) {}

  KERNEL_DEVICE void run() const {
    const T* const weight = static_cast<const T*>(g_.weight) + learner_ * space_.walk.row;
    for (int64_t i = thread_rank(); i < space_.walk.row; i += block_threads()) {
      own(space_.walk.kept)[i] = weight[i];
    }
    block_sync();
    // All parts forwards, then back, where the last part's weights are there already.
    const int64_t parts = (p_.ticks + space_.walk.part - 1) / space_.walk.part;
    for (int64_t step = 0; step < 2 * parts; ++step) {
      const int64_t part = step < parts ? step : 2 * parts - 1 - step;
      if (step != parts) {
        replay(part);
      }
      for (int64_t k = step < parts ? 0 : space_.walk.length(part); k-- > 0;) {
        pull(part, k);
      }
    }
  }

 private:
  // Tick k of a part, and the number of its first sample.
  KERNEL_DEVICE CoupledTick<T> tick(int64_t part, int64_t k) const {
    return {static_cast<const T*>(p_.inputs) + first(part, k) * p_.size,
            own(space_.walk.outputs) + k * p_.batch * p_.units, own(space_.walk.weights(part, k)),
            own(space_.walk.weights(part, k + 1))};
  }
  KERNEL_DEVICE int64_t first(int64_t part, int64_t k) const {
    return (learner_ * p_.ticks + part * space_.walk.part + k) * p_.batch;
  }
  // An array of this learner.
  KERNEL_DEVICE T* own(T* array) const {
    return array + learner_ * space_.elements;
  }
  // Whether every unit learns from what all units leave of the inputs.
  KERNEL_DEVICE bool at_once() const {
    return p_.rule == LearningRule::kSubspace;
  }

  // The ticks of a part, forwards.
  KERNEL_DEVICE void replay(int64_t part) const {
    for (int64_t k = 0; k < space_.walk.length(part); ++k) {
      learn_coupled<T, kOne>(p_, formulas_, tick(part, k), own(space_.total), own(space_.walk.factors) + k * p_.units);
    }
  }

  // From the gradient after a tick to that before it.
  KERNEL_DEVICE void pull(int64_t part, int64_t k) const {
    const CoupledTick<T> now = tick(part, k);
    if (p_.normalize) {
      for (int64_t j = warp_index(); j < p_.units; j += warp_count()) {
        WarpRow<T, 0>(of_weight_ + j * p_.size, p_.size)
            .move_across(now.after + j * p_.size, own(space_.walk.factors)[k * p_.units + j]);
      }
    }
    // What units leave of the inputs, then (dL/dW_j) E.
    for (int64_t j = 0; j < p_.units; j += space_.tile) {
      add_units(Units{j, count_from(j), j == 0}, now.x, now.before, now.y, T{-1}, /*down=*/false);
      block_sync();
      for_products(j, of_weight_, [&](T along, int64_t, T& product) { product = along; });
      block_sync();
    }
    // sum_i y_i dL/dW_i, then dL/du, then the rows' gradients.
    const int64_t last = (p_.units - 1) / space_.tile * space_.tile;
    for (int64_t j = last; j >= 0; j -= space_.tile) {
      add_units(Units{j, count_from(j), j == last}, nullptr, of_weight_, now.y, T{1}, /*down=*/!at_once());
      block_sync();
      const T* const of_outputs =
          g_.grad_outputs == nullptr ? nullptr : static_cast<const T*>(g_.grad_outputs) + first(part, k) * p_.units;
      for_products(j, now.before, [&](T across, int64_t place, T& product) {
        const T of_output = of_outputs == nullptr ? T{0} : of_outputs[place];
        product = formulas_.of_product(now.y[place], T{0}, of_output, product - across, T{0});
      });
      block_sync();
      update(j, now);
      block_sync();
    }
    // What this reads changes only after the next barrier.
    if (g_.grad_inputs != nullptr) {
      spread(now, static_cast<T*>(g_.grad_inputs) + first(part, k) * p_.size);
    }
  }

  struct Units {
    int64_t first, count;
    bool begins;  // the sums
  };
  KERNEL_DEVICE int64_t count_from(int64_t j) const {
    return p_.units - j < space_.tile ? p_.units - j : space_.tile;
  }
  // The sums of sample b with unit j of a tile, of which they are the last that was added, or with all units.
  KERNEL_DEVICE T* sums(int64_t j, int64_t b) const {
    return own(at_once() ? space_.total + b * p_.size : space_.kept + (j * p_.batch + b) * p_.size);
  }

  // total_b += sign y_b row for units of a tile, up or down; the sums begin with `begin` or, if that is nullptr, with
  // 0.
  KERNEL_DEVICE void add_units(const Units& units, const T* begin, const T* rows, const T* y, T sign, bool down) const {
    for (int64_t e = thread_rank(); e < p_.batch * p_.size; e += block_threads()) {
      const int64_t b = e / p_.size;
      const int64_t i = e - b * p_.size;
      T sum = !units.begins ? own(space_.total)[e] : begin == nullptr ? T{0} : begin[e];
      for (int64_t n = 0; n < units.count; ++n) {
        const int64_t j = down ? units.count - 1 - n : n;
        const int64_t unit = units.first + j;
        sum = fused_multiply_add(sign * y[b * p_.units + unit], rows[unit * p_.size + i], sum);
        if (!at_once()) {
          sums(j, b)[i] = sum;
        }
      }
      own(space_.total)[e] = sum;
    }
  }

  // body(row sums, place, product) for the rows of a tile from unit `first` on and the sums of every sample, in the
  // first lane of a warp; the product is the one at this place of a batch of outputs.
  template <typename Body>
  KERNEL_DEVICE void for_products(int64_t first, T* rows, const Body& body) const {
    for (int64_t i = warp_index(); i < count_from(first) * p_.batch; i += warp_count()) {
      const int64_t j = i / p_.batch;
      const int64_t b = i - j * p_.batch;
      const T product = WarpRow<T, 0>(rows + (first + j) * p_.size, p_.size).product(sums(j, b));
      if (lane_index() == 0) {
        const int64_t place = b * p_.units + first + j;
        body(product, place, own(space_.walk.products)[place]);
      }
    }
  }

  // dL/dW_j += sum_b (dL/du_b x_b - gain_b sum_i y_i dL/dW_i) - loss dL/dW_j for the units of a tile
  KERNEL_DEVICE void update(int64_t first, const CoupledTick<T>& now) const {
    const T loss = formulas_.loss(T{0});
    for (int64_t e = thread_rank(); e < count_from(first) * p_.size; e += block_threads()) {
      const int64_t j = e / p_.size;
      const int64_t i = e - j * p_.size;
      T& place = of_weight_[first * p_.size + e];
      T changed = fused_multiply_add(-loss, place, place);
      for (int64_t b = 0; b < p_.batch; ++b) {
        const int64_t output = b * p_.units + first + j;
        changed = fused_multiply_add(-formulas_.gain(now.y[output], T{0}), sums(j, b)[i], changed);
        changed = fused_multiply_add(own(space_.walk.products)[output], now.x[b * p_.size + i], changed);
      }
      place = changed;
    }
  }

  // dL/dx_b = sum_j dL/du_b W_j + share sum_i y_i dL/dW_i
  KERNEL_DEVICE void spread(const CoupledTick<T>& now, T* of_input) const {
    for (int64_t e = thread_rank(); e < p_.batch * p_.size; e += block_threads()) {
      const int64_t b = e / p_.size;
      const int64_t i = e - b * p_.size;
      T sum = 0;
      for (int64_t j = p_.units; j-- > 0;) {
        sum = fused_multiply_add(own(space_.walk.products)[b * p_.units + j], now.before[j * p_.size + i], sum);
      }
      of_input[e] = fused_multiply_add(formulas_.share, own(space_.total)[e], sum);
    }
  }

  const PlasticBackwardParams& g_;
  const PlasticParams& p_;
  const CoupledSpace<T>& space_;
  PlasticFormulas<T> formulas_;
  int64_t learner_;
  T* of_weight_;  // [units, size]
};

template <typename T, bool kOne>
__global__ void __launch_bounds__(kCoupledThreads)
    plastic_coupled_pull_kernel(PlasticBackwardParams g, CoupledSpace<T> space) {
  CoupledWalk<T, kOne>(g, space, blockIdx.x).run();
}

}  // namespace torch_hrr::kernels
