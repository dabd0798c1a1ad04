// The kernel of learning control by a field: a block takes a robot, and all of its elements where the field is settled.
#pragma once

#include "kernels/cuda/block.cuh"
#include "kernels/field/control.h"

namespace torch_hrr::kernels {

constexpr int kControlThreads = 256;

// A code: of each map the bump's first element and its activity along each axis.
template <typename T>
struct DeviceCode {
  int64_t* first;  // [maps]
  T* along;        // [maps, 3, kBumpEdge]
  T scale;
};

template <typename T>
class DeviceRobot {
 public:
  KERNEL_DEVICE DeviceRobot(const ControlParams& params, int64_t row, int64_t* workspace, T* shared)
      : p_(params), size_(params.places_count() * params.channels), shared_(shared) {
    field_ = static_cast<T*>(p_.field) + row * size_;
    weights_ = static_cast<T*>(p_.weights) + row * size_;
    head_ = static_cast<T*>(p_.state) + row * p_.state_size();
    last_ = head_ + ControlHead::kSize;
    noise_ = last_ + p_.sensors;
    score_ = noise_ + p_.motors;
    prediction_ = static_cast<T*>(p_.prediction) + row * p_.sensors;
    key_ = p_.key + 2 * row;
    out_ = static_cast<T*>(p_.out) + row * p_.out_size();
    places_ = static_cast<const T*>(p_.places) + row * p_.maps * 3 * (p_.sensors + 1);
    sensory_ = static_cast<const T*>(p_.sensory) + row * p_.sensors;
    for (DeviceCode<T>* code : {&now_, &before_}) {
      code->first = workspace;
      code->along = reinterpret_cast<T*>(workspace + p_.maps);
      workspace += p_.maps * (1 + 3 * kBumpEdge);
    }
    drives_ = reinterpret_cast<T*>(workspace);
    copy_ = reinterpret_cast<T*>(workspace + p_.motors);
  }

  KERNEL_DEVICE void step(T reward, T ended) {
    const bool begun = head_[ControlHead::kBegun] != 0;
    encode(sensory_, now_);
    encode(last_, before_);
    if (begun) {
      learn(reward, ended == 1);
    } else {
      settle(1, false);
      for (int64_t a = thread_rank(); a < p_.motors; a += block_threads()) {
        noise_[a] = 0;
      }
    }
    // A warp a motor.
    for (int64_t a = warp_index(); a < p_.motors; a += warp_count()) {
      const T drive = warp_sum(read(now_, 1 + a, lane_index(), kWarpSize));
      if (lane_index() == 0) {
        drives_[a] = drive;
      }
    }
    block_sync();
    if (thread_rank() == 0) {
      if (p_.discrete) {
        control_choose(p_, drives_, key_, score_, out_);
      } else {
        control_move(p_, drives_, key_, noise_, score_, out_);
      }
      head_[ControlHead::kBegun] = ended == 0 ? T(1) : T(0);
    }
    T error = 0;
    for (int64_t i = thread_rank(); i < p_.sensors; i += block_threads()) {
      error = error + magnitude(sensory_[i] - prediction_[i]);
      prediction_[i] = T(0.9) * prediction_[i] + T(0.1) * sensory_[i];
      last_[i] = sensory_[i];
    }
    if (p_.measures) {
      measure(block_sum(error, shared_) / static_cast<T>(p_.sensors));
    }
  }

 private:
  KERNEL_DEVICE void encode(const T* sensory, DeviceCode<T>& code) {
    const int64_t strides[3] = {p_.sizes[1] * p_.sizes[2] * p_.channels, p_.sizes[2] * p_.channels, p_.channels};
    T squares = 0;
    for (int64_t map = thread_rank(); map < p_.maps; map += block_threads()) {
      int64_t first = map;
      T product = 1;
      for (int axis = 0; axis < 3; ++axis) {
        const T* const row = places_ + (map * 3 + axis) * (p_.sensors + 1);
        T place = 0;
        for (int64_t i = 0; i < p_.sensors; ++i) {
          place = place + row[i] * sensory[i];
        }
        const ControlWindow<T> window = control_window(place + row[p_.sensors], p_.sizes[axis]);
        first += static_cast<int64_t>(window.first) * strides[axis];
        T sum = 0;
        for (int k = 0; k < kBumpEdge; ++k) {
          const T active = exponential(window.exponent[k]) * window.near[k];
          code.along[(map * 3 + axis) * kBumpEdge + k] = active;
          sum = sum + active * active;
        }
        product = product * sum;
      }
      code.first[map] = first;
      squares = squares + product;
    }
    code.scale = 1 / square_root(block_sum(squares, shared_));
  }

  // visit(element of a group of channels, activity, group) for every so many-th of the cells of `groups` groups.
  template <typename Visit>
  KERNEL_DEVICE void for_cells(const DeviceCode<T>& code, int64_t groups, int begin, int step,
                               const Visit& visit) const {
    const int64_t cells = p_.bump_cells();
    for (int64_t i = begin; i < groups * p_.maps * cells; i += step) {
      const int64_t map = i / cells % p_.maps;
      const auto cell = static_cast<int>(i % cells);
      const int x = cell % p_.edge(2);
      const int y = cell / p_.edge(2) % p_.edge(1);
      const int z = cell / (p_.edge(1) * p_.edge(2));
      const T* const along = code.along + map * 3 * kBumpEdge;
      const T active = code.scale * (along[z] * along[kBumpEdge + y] * along[2 * kBumpEdge + x]);
      visit(code.first[map] + ((z * p_.sizes[1] + y) * p_.sizes[2] + x) * p_.channels, active, i / (cells * p_.maps));
    }
  }
  KERNEL_DEVICE T ahead_of(int64_t group) const {
    return head_[group == 0 ? ControlHead::kCritic : ControlHead::kMotor];
  }
  // A thread's part of <w, code>.
  KERNEL_DEVICE T read(const DeviceCode<T>& code, int64_t group, int begin, int step) const {
    const T ahead = ahead_of(group);
    T sum = 0;
    for_cells(code, 1, begin, step, [&](int64_t at, T active, int64_t) {
      at += group * p_.maps;
      sum = sum + (weights_[at] + ahead * field_[at]) * active;
    });
    return sum;
  }

  KERNEL_DEVICE void learn(T reward, bool terminated) {
    const int rank = thread_rank();
    const int threads = block_threads();
    const T next = block_sum(read(now_, 0, rank, threads), shared_);
    const T value = block_sum(read(before_, 0, rank, threads), shared_);
    T part = 0;
    for_cells(before_, 1, rank, threads, [&](int64_t at, T active, int64_t) { part = part + field_[at] * active; });
    const T held = block_sum(part, shared_);
    const T error = reward + (terminated ? T(0) : static_cast<T>(p_.discount) * next) - value;
    const T product = head_[ControlHead::kProduct];
    // The cells are different ones.
    for_cells(before_, 1 + p_.motors, rank, threads, [&](int64_t at, T active, int64_t group) {
      const T amount = group == 0 ? 1 - static_cast<T>(p_.critic_rate) * (product * held) : score_[group - 1];
      const T added = amount / product * active;
      at += group * p_.maps;
      field_[at] = field_[at] + added;
      weights_[at] = weights_[at] - ahead_of(group) * added;
    });
    block_sync();
    const T decayed = product * static_cast<T>(1 - p_.decay);
    if (rank == 0) {
      if (p_.learns) {
        control_learn(p_, error, product, head_);
      }
      head_[ControlHead::kProduct] = decayed;
    }
    block_sync();
    if (p_.dense || decayed < static_cast<T>(kLeastProduct)) {
      settle(decayed, true);
    }
  }

  // Every element as it is; a field that is not kept is cleared.
  KERNEL_DEVICE void settle(T product, bool kept) {
    const bool diffuses = kept && p_.diffusion > 0;
    for (int64_t i = thread_rank(); i < size_; i += block_threads()) {
      const T stored = field_[i];
      weights_[i] = weights_[i] + ahead_of(i % p_.channels < p_.maps ? 0 : 1) * stored;
      (diffuses ? copy_ : field_)[i] = kept ? stored * product : T(0);
    }
    block_sync();
    if (thread_rank() == 0) {
      head_[ControlHead::kProduct] = 1;
      head_[ControlHead::kCritic] = head_[ControlHead::kMotor] = 0;
    }
    if (diffuses) {
      const int64_t steps[3] = {p_.sizes[1] * p_.sizes[2] * p_.channels, p_.sizes[2] * p_.channels, p_.channels};
      for (int64_t i = thread_rank(); i < size_; i += block_threads()) {
        T around = 0;
        for (int axis = 0; axis < 3; ++axis) {
          const int64_t at = i / steps[axis] % p_.sizes[axis];
          around = around + copy_[at > 0 ? i - steps[axis] : i];
          around = around + copy_[at + 1 < p_.sizes[axis] ? i + steps[axis] : i];
        }
        field_[i] = copy_[i] + static_cast<T>(p_.diffusion) * (around - 6 * copy_[i]);
      }
    }
    block_sync();
  }

  KERNEL_DEVICE void measure(T error) {
    const T product = head_[ControlHead::kProduct];
    const T limit = static_cast<T>(kInactive) / product;
    const auto count = static_cast<T>(p_.places_count());
    ControlMetrics<T> metrics{};
    // A warp a channel.
    for (int64_t c = warp_index(); c < p_.channels; c += warp_count()) {
      ControlSums<T> sums{};
      for (int64_t place = lane_index(); place < p_.places_count(); place += kWarpSize) {
        sums.add(field_[place * p_.channels + c], limit);
      }
      sums = {warp_sum(sums.total), warp_sum(sums.squares),
              number_of(warp_reduce(bits_of(sums.largest), [](auto a, auto b) { return larger(a, b); })),
              warp_sum(sums.small)};
      metrics.add(sums, count);
    }
    // Every lane of a warp has the same.
    const bool counts = lane_index() == 0;
    metrics.deviations = block_sum(counts ? metrics.deviations : T(0), shared_);
    metrics.squares = block_sum(counts ? metrics.squares : T(0), shared_);
    metrics.small = block_sum(counts ? metrics.small : T(0), shared_);
    metrics.largest = number_of(block_max(bits_of(metrics.largest), reinterpret_cast<bits_t<T>*>(shared_)));
    if (thread_rank() == 0) {
      metrics.store(product, count * static_cast<T>(p_.channels), error, out_ + p_.motors);
    }
  }

  const ControlParams& p_;
  int64_t size_;
  T* shared_;  // an element a warp
  T *field_, *weights_, *head_, *last_, *noise_, *score_, *prediction_, *out_, *drives_, *copy_;
  int64_t* key_;
  const T *places_, *sensory_;
  DeviceCode<T> now_, before_;
};

template <typename T>
__global__ void __launch_bounds__(kControlThreads) control_kernel(ControlParams p, int64_t* workspace, int64_t size) {
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const T ended = static_cast<const T*>(p.ended)[row];
    // Of a robot that rests nothing changes.
    if (!(ended < 0)) {
      DeviceRobot<T>(p, row, workspace + row * size, dynamic_shared<T>())
          .step(static_cast<const T*>(p.reward)[row], ended);
    }
  }
}

}  // namespace torch_hrr::kernels
