// Kernels of layers that learn at every tick: a warp for each row of weights or, where units are coupled, a block for
// each layer. Sums are in the order that plastic.h describes, so results have the CPU's bits.
#pragma once

#include "kernels/cuda/block.cuh"
#include "kernels/hierarchy/plastic.h"

namespace torch_hrr::kernels {

static_assert(kSumLanes == kWarpSize);

// Rows of a block, which share the inputs.
constexpr int kPlasticWarps = 8;
constexpr int kCoupledThreads = 512;

// A warp's row of weights: element i in lane i % 32, in kChunks registers or, with none, in memory.
template <typename T, int kChunks>
class WarpRow {
 public:
  KERNEL_DEVICE WarpRow(T* row, int64_t size) : row_(row), size_(size), left_(static_cast<int>(size) - lane_index()) {
    if constexpr (kChunks > 0) {
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        own_[chunk] = chunk * kWarpSize < left_ ? row_[chunk * kWarpSize + lane_index()] : T{0};
      }
    }
  }
  KERNEL_DEVICE void store() {
    store_to(row_);
  }
  KERNEL_DEVICE void store_to(T* target) {
    for_elements([&](T& w, int64_t i) { target[i] = w; });
  }

  // w x
  KERNEL_DEVICE T product(const T* x) {
    T sum = 0;
    for_elements([&](T& w, int64_t i) { sum = fused_multiply_add(w, x[i], sum); });
    return warp_sum(sum);
  }
  // Returns what the row was multiplied by. The rare second sum is a second round of one loop, since code of its own
  // would take registers from all that surrounds it.
  KERNEL_DEVICE T normalize() {
    T squares = 0;
    T scale = 1;
    for (bool again = true; again;) {
      squares = squared_norm();
      const T next = norm_scale(squares);
      again = scale == T{1} && next != T{1};
      if (again) {
        scale = next;
        for_elements([&](T& w, int64_t) { w = w * scale; });
      }
    }
    const T factor = norm_factor(squares);
    for_elements([&](T& w, int64_t) { w = w * factor; });
    return whole_factor(squares, scale);
  }

  // What lies across a row of norm 1, times the factor that made it one.
  KERNEL_DEVICE void move_across(const T* unit, T factor) {
    T sum = 0;
    for_elements([&](T& w, int64_t i) { sum = fused_multiply_add(unit[i], w, sum); });
    const T along = -warp_sum(sum);
    for_elements([&](T& w, int64_t i) { w = fused_multiply_add(along, unit[i], w) * factor; });
  }

  // body(w, v) for this lane's elements and those of another row
  template <typename Body>
  KERNEL_DEVICE void for_elements_beside(const WarpRow& other, const Body& body) {
    if constexpr (kChunks > 0) {
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        body(own_[chunk], other.own_[chunk]);
      }
    } else {
      for_elements([&](T& w, int64_t i) { body(w, other.row_[i]); });
    }
  }

  // body(w, i) for this lane's elements
  template <typename Body>
  KERNEL_DEVICE void for_elements(const Body& body) {
    if constexpr (kChunks > 0) {
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        if (chunk * kWarpSize < left_) {
          body(own_[chunk], chunk * kWarpSize + lane_index());
        }
      }
    } else {
      for (int64_t i = lane_index(); i < size_; i += kWarpSize) {
        body(row_[i], i);
      }
    }
  }

 private:
  KERNEL_DEVICE T squared_norm() {
    T squares = 0;
    for_elements([&](T& w, int64_t) { squares = fused_multiply_add(w, w, squares); });
    return warp_sum(squares);
  }

  T* row_;
  int64_t size_;
  int left_;  // elements from this lane's first on; where they are in registers, which 32-bit indices save
  T own_[kChunks > 0 ? kChunks : 1];
};

// Where the inputs and outputs of some ticks are; sample b of a tick is `b` times a stride away.
template <typename T>
struct TickPlaces {
  const T* inputs;
  T* outputs;
  int64_t output_stride;
};

// All ticks of `places` for one row; theta is changed. Returns what the row was multiplied by at the last of them.
template <typename T, int kChunks>
KERNEL_DEVICE T learn_row(const PlasticParams& p, const PlasticFormulas<T>& formulas, const TickPlaces<T>& places,
                          int64_t ticks, WarpRow<T, kChunks>& row, T& theta) {
  T factor = 1;
  for (int64_t tick = 0; tick < ticks; ++tick) {
    const T* const x = places.inputs + tick * p.batch * p.size;
    T* const y = places.outputs + tick * p.batch * places.output_stride;
    T squares = 0;
    T last = 0;
    for (int64_t b = 0; b < p.batch; ++b) {
      last = formulas.output(row.product(x + b * p.size));
      squares = fused_multiply_add(last, last, squares);
      if (lane_index() == 0) {
        y[b * places.output_stride] = last;
      }
    }
    const T mean_square = squares / static_cast<T>(p.batch);
    const T loss = formulas.loss(mean_square);
    if (p.batch == 1) {
      const T gain = formulas.gain(last, theta);
      row.for_elements([&](T& w, int64_t i) { w = fused_multiply_add(gain, x[i], fused_multiply_add(-loss, w, w)); });
    } else {
      warp_sync();
      row.for_elements([&](T& w, int64_t) { w = fused_multiply_add(-loss, w, w); });
      for (int64_t b = 0; b < p.batch; ++b) {
        const T gain = formulas.gain(y[b * places.output_stride], theta);
        row.for_elements([&](T& w, int64_t i) { w = fused_multiply_add(gain, x[b * p.size + i], w); });
      }
    }
    if (p.normalize) {
      factor = row.normalize();
    }
    theta = formulas.next_theta(theta, mean_square);
  }
  return factor;
}

// Units without coupling. Inputs of `tile` ticks at a time are copied to shared memory, and their outputs gathered
// there; with tile 0, one tick exceeds it, and both are used where they are.
template <typename T, int kChunks>
__global__ void plastic_rows_kernel(PlasticParams p, int64_t tile) {
  const PlasticFormulas<T> formulas(p);
  const int64_t groups = (p.units + kPlasticWarps - 1) / kPlasticWarps;
  const int64_t learner = blockIdx.x / groups;
  const int64_t first = blockIdx.x % groups * kPlasticWarps;
  const int64_t unit = first + warp_index();
  const bool is_unit = unit < p.units;
  const int64_t place = learner * p.units + unit;
  const T* const inputs = static_cast<const T*>(p.inputs) + learner * p.ticks * p.batch * p.size;
  T* const outputs = static_cast<T*>(p.outputs) + learner * p.ticks * p.batch * p.units;
  T* const thresholds = static_cast<T*>(p.theta);
  // Warps past the last unit only help to copy: they have no row, since no other warp may read one while it is stored.
  WarpRow<T, kChunks> row(static_cast<T*>(p.weight) + place * p.size, is_unit ? p.size : 0);
  T theta = is_unit && thresholds != nullptr ? thresholds[place] : T{0};
  if (tile == 0) {
    if (is_unit) {
      (void)learn_row(p, formulas, TickPlaces<T>{inputs, outputs + unit, p.units}, p.ticks, row, theta);
    }
  } else {
    T* const near_inputs = dynamic_shared<T>();
    T* const near_outputs = near_inputs + tile * p.batch * p.size;
    for (int64_t begin = 0; begin < p.ticks; begin += tile) {
      const int64_t ticks = p.ticks - begin < tile ? p.ticks - begin : tile;
      const T* const source = inputs + begin * p.batch * p.size;
      for (int64_t i = thread_rank(); i < ticks * p.batch * p.size; i += block_threads()) {
        near_inputs[i] = source[i];
      }
      block_sync();
      if (is_unit) {
        (void)learn_row(p, formulas, TickPlaces<T>{near_inputs, near_outputs + warp_index(), kPlasticWarps}, ticks, row,
                        theta);
      }
      block_sync();
      const int64_t count = p.units - first < kPlasticWarps ? p.units - first : kPlasticWarps;
      T* const target = outputs + begin * p.batch * p.units + first;
      for (int64_t i = thread_rank(); i < ticks * p.batch * kPlasticWarps; i += block_threads()) {
        if (i % kPlasticWarps < count) {
          target[i / kPlasticWarps * p.units + i % kPlasticWarps] = near_outputs[i];
        }
      }
      block_sync();
    }
  }
  if (is_unit) {
    if constexpr (kChunks > 0) {
      row.store();
    }
    if (thresholds != nullptr) {
      // All lanes have read it.
      warp_sync();
      if (lane_index() == 0) {
        thresholds[place] = theta;
      }
    }
  }
}

// A tick of coupled units: its inputs and outputs, and the weights before and after, which may be the same.
template <typename T>
struct CoupledTick {
  const T* x;  // [batch, size]
  T* y;        // [batch, units]
  T* before;   // [units, size]
  T* after;
};

// One column of all rows: what the units before explain of every sample is taken from it, row by row. kOne: a batch of
// one, whose residual stays in a register.
template <typename T, bool kOne>
KERNEL_DEVICE void learn_column(const PlasticParams& p, const PlasticFormulas<T>& formulas, const CoupledTick<T>& tick,
                                T* residual, int64_t column) {
  const T* const x = tick.x;
  const T* const y = tick.y;
  const T loss = formulas.loss(T{0});
  T own = x[column];
  const auto visit = [&](int64_t b, const auto& body) {
    if constexpr (kOne) {
      body(own);
    } else {
      T r = residual[b * p.size + column];
      body(r);
      residual[b * p.size + column] = r;
    }
  };
  if constexpr (!kOne) {
    for (int64_t b = 0; b < p.batch; ++b) {
      residual[b * p.size + column] = x[b * p.size + column];
    }
  }
  const bool at_once = p.rule == LearningRule::kGha;
  for (int64_t j = 0; !at_once && j < p.units; ++j) {
    const T w = tick.before[j * p.size + column];
    for (int64_t b = 0; b < p.batch; ++b) {
      visit(b, [&](T& r) { r = fused_multiply_add(-y[b * p.units + j], w, r); });
    }
  }
  for (int64_t j = 0; j < p.units; ++j) {
    const T w = tick.before[j * p.size + column];
    T changed = fused_multiply_add(-loss, w, w);
    for (int64_t b = 0; b < p.batch; ++b) {
      const T output = y[b * p.units + j];
      visit(b, [&](T& r) {
        if (at_once) {
          r = fused_multiply_add(-output, w, r);
        }
        changed = fused_multiply_add(formulas.gain(output, T{0}), r, changed);
      });
    }
    tick.after[j * p.size + column] = changed;
  }
}

// f(W x) of every sample: a warp for each unit and sample.
template <typename T>
KERNEL_DEVICE void coupled_outputs(const PlasticParams& p, const PlasticFormulas<T>& formulas,
                                   const CoupledTick<T>& tick) {
  for (int64_t i = warp_index(); i < p.batch * p.units; i += warp_count()) {
    WarpRow<T, 0> row(tick.before + i % p.units * p.size, p.size);
    const T output = formulas.output(row.product(tick.x + i / p.units * p.size));
    if (lane_index() == 0) {
      tick.y[i] = output;
    }
  }
}

// A tick of all units of a block's learner. The residual is workspace of a batch of inputs; factors, unless nullptr,
// are what rows are multiplied by at the end.
template <typename T, bool kOne>
KERNEL_DEVICE void learn_coupled(const PlasticParams& p, const PlasticFormulas<T>& formulas, const CoupledTick<T>& tick,
                                 T* residual, T* factors) {
  coupled_outputs(p, formulas, tick);
  block_sync();
  for (int64_t column = thread_rank(); column < p.size; column += block_threads()) {
    learn_column<T, kOne>(p, formulas, tick, residual, column);
  }
  block_sync();
  if (p.normalize) {
    for (int64_t unit = warp_index(); unit < p.units; unit += warp_count()) {
      const T factor = WarpRow<T, 0>(tick.after + unit * p.size, p.size).normalize();
      if (factors != nullptr && lane_index() == 0) {
        factors[unit] = factor;
      }
    }
    block_sync();
  }
}

template <typename T, bool kOne>
__global__ void plastic_coupled_kernel(PlasticParams p) {
  const PlasticFormulas<T> formulas(p);
  const int64_t learner = blockIdx.x;
  T* const weight = static_cast<T*>(p.weight) + learner * p.units * p.size;
  T* const residual = static_cast<T*>(p.residual) + learner * p.batch * p.size;
  for (int64_t tick = 0; tick < p.ticks; ++tick) {
    const int64_t first = (learner * p.ticks + tick) * p.batch;
    const T* const x = static_cast<const T*>(p.inputs) + first * p.size;
    T* const y = static_cast<T*>(p.outputs) + first * p.units;
    learn_coupled<T, kOne>(p, formulas, CoupledTick<T>{x, y, weight, weight}, residual, nullptr);
  }
}

}  // namespace torch_hrr::kernels
