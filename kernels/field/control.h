// A step of learning control by a field, which is a population code and an eligibility trace: parameters and numbers.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/call.h"
#include "kernels/math.h"
#include "kernels/philox.h"

namespace torch_hrr::kernels {

// A map's bump of activity: its cells along an axis, at most one away from the nearest, and its width in cells.
constexpr int kBumpEdge = 3;
constexpr int kBumpCells = kBumpEdge * kBumpEdge * kBumpEdge;
constexpr double kBumpWidth = 0.7;
// Errors are measured against the root of their running mean square, of so many steps, and clipped.
constexpr double kErrorMemory = 1000;
constexpr double kLargestError = 3;
// Decays are kept as one product, down to this: sums of weights lose no more digits than it has.
constexpr double kLeastProduct = 0.03125;
// Numbers that a step reports after the motors.
constexpr int64_t kControlMetrics = 6;
// Activity below is none.
constexpr double kInactive = 0.01;

// What a robot's row of `state` begins with; the sensors of the last step follow, then noise and score of each motor.
// The field is `product` times what is stored, and a weight is what is stored plus the field's stored element times
// `critic` or `motor`: so a step touches the cells of two bumps, not all.
struct ControlHead {
  enum : int { kBegun, kProduct, kCritic, kMotor, kSquare, kCount, kSize };
};

struct ControlParams {
  // Contiguous, of one type T; a robot after another.
  void* field = nullptr;          // [robots, depth, height, width, channels]
  void* weights = nullptr;        // as the field
  void* state = nullptr;          // [robots, state_size()]
  void* prediction = nullptr;     // [robots, sensors]
  int64_t* key = nullptr;         // [robots, 2]: seed and next block of its noise
  void* out = nullptr;            // [robots, out_size()]: the motors, and the metrics where asked for
  const void* places = nullptr;   // [robots, maps, 3, sensors + 1]: from sensors, and at the end from 1, to a place
  const void* sensory = nullptr;  // [robots, sensors]
  const void* reward = nullptr;   // [robots]
  const void* ended = nullptr;    // [robots]: 1 where the episode terminated, 2 where it was cut off, below 0 where the
                                  // robot rests and nothing of it changes, else 0
  int64_t rows = 0;               // robots
  int64_t sizes[3] = {};          // depth, height, width
  int64_t channels = 0;           // at least maps (1 + motors); others stay 0
  int64_t maps = 0;
  int64_t sensors = 0;
  int64_t motors = 0;
  bool measures = false;
  double decay = 0;
  double diffusion = 0;
  double discount = 0;
  double critic_rate = 0;
  double motor_rate = 0;
  double correlation = 0;  // of a motor's noise from step to step
  double deviation = 0;    // of a motor's noise
  bool learns = false;
  bool discrete = false;  // one of the motors is chosen
  bool dense = false;     // every element in every step

  KERNEL_HOST_DEVICE int64_t places_count() const {
    return sizes[0] * sizes[1] * sizes[2];
  }
  KERNEL_HOST_DEVICE int64_t out_size() const {
    return motors + (measures ? kControlMetrics : 0);
  }
  KERNEL_HOST_DEVICE int64_t state_size() const {
    return ControlHead::kSize + sensors + 2 * motors;
  }
  // Cells of a bump along an axis: all that there are of a shorter one.
  KERNEL_HOST_DEVICE int edge(int axis) const {
    return sizes[axis] < kBumpEdge ? static_cast<int>(sizes[axis]) : kBumpEdge;
  }
  KERNEL_HOST_DEVICE int bump_cells() const {
    return edge(0) * edge(1) * edge(2);
  }
};

// Scratch of a robot on a GPU, in its memory, in elements of 8 bytes: its bumps of the last sensors and the new ones,
// drives, and a copy of a field that diffuses.
inline int64_t control_workspace(const ControlParams& p) {
  const int64_t copied = p.diffusion > 0 ? p.places_count() * p.channels : 0;
  return 2 * p.maps * (1 + 3 * kBumpEdge) + p.motors + copied;
}
int64_t workspace_bytes(Storage storage, const ControlParams& params);
void queue(const CudaCall& call, const ControlParams& params);

KERNEL_ISA_BEGIN

// A number of at least 0 without its fraction.
template <typename L>
KERNEL_HOST_DEVICE L whole_of(L x) {
  using T = number_t<L>;
  using Integer = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  if constexpr (sizeof(L) == sizeof(T)) {
    return static_cast<T>(static_cast<Integer>(x));
  } else {
    return converted<T>(converted<Integer>(x));
  }
}

// The cells of a bump along an axis: the first, exponents of their activity, and 1 where a cell is near, else 0. The
// window lies within the field, so its cells are different ones. L is a number or a vector of them.
template <typename L>
struct ControlWindow {
  L first;
  L exponent[kBumpEdge];
  L near[kBumpEdge];
};

template <typename L>
KERNEL_HOST_DEVICE ControlWindow<L> control_window(L place, int64_t size) {
  using T = number_t<L>;
  const auto number = [](auto value) { return lanes_of<L>(static_cast<T>(value)); };
  const L zero = number(0);
  const L one = number(1);
  // Of what is no number, the lowest.
  place = select(place > zero, place, zero);
  place = select(place < number(size - 1), place, number(size - 1));
  const L nearest = whole_of(place + number(0.5));
  const L last = number(size < kBumpEdge ? 0 : size - kBumpEdge);
  ControlWindow<L> window;
  window.first = select(nearest > one, nearest - one, zero);
  window.first = select(window.first < last, window.first, last);
  for (int k = 0; k < kBumpEdge; ++k) {
    const L cell = window.first + number(k);
    const L distance = cell - place;
    window.exponent[k] = number(-0.5 / (kBumpWidth * kBumpWidth)) * (distance * distance);
    const L away = magnitude(cell - nearest);
    window.near[k] = k < size ? select(away < number(1.5), one, zero) : zero;
  }
  return window;
}

// What a step learns from an error: its running mean square, and how far the weights are ahead of what is stored.
template <typename T>
KERNEL_HOST_DEVICE void control_learn(const ControlParams& p, T error, T product, T* head) {
  T& square = head[ControlHead::kSquare];
  T& count = head[ControlHead::kCount];
  count = count < T(kErrorMemory) ? count + 1 : count;
  square = square + (error * error - square) / count;
  const T scale = square_root(square);
  const T relative = scale > 0 ? error / scale : T(0);
  const T most = static_cast<T>(kLargestError);
  const T clipped = relative > most ? most : relative < -most ? -most : relative;
  head[ControlHead::kCritic] = head[ControlHead::kCritic] + static_cast<T>(p.critic_rate) * error * product;
  head[ControlHead::kMotor] = head[ControlHead::kMotor] + static_cast<T>(p.motor_rate) * clipped * product;
}

// Motors are tanh of the drives plus noise; n (1 - mean^2) is the score of a noise n.
template <typename T>
KERNEL_HOST_DEVICE void control_move(const ControlParams& p, const T* drives, int64_t* key, T* noise, T* score,
                                     T* motors) {
  const PhiloxKey seed = philox_key(static_cast<uint64_t>(key[0]));
  const auto fresh = static_cast<T>(p.deviation) * square_root(static_cast<T>(1 - p.correlation * p.correlation));
  PhiloxBlock block{};
  NormalPair<float> normals{};
  for (int64_t a = 0; a < p.motors; ++a) {
    const T mean = hyperbolic_tangent(drives[a]);
    score[a] = 0;
    motors[a] = mean;
    if (p.learns) {
      if (a % 4 == 0) {
        block = philox4x32(philox_counter(static_cast<uint64_t>(key[1]) + static_cast<uint64_t>(a / 4), 0), seed);
      }
      if (a % 2 == 0) {
        // By conditions: a register has no index.
        const bool second = a % 4 != 0;
        normals = normal_pair<float>(second ? block.word[2] : block.word[0], second ? block.word[3] : block.word[1]);
      }
      noise[a] = static_cast<T>(p.correlation) * noise[a] +
                 fresh * static_cast<T>(a % 2 == 0 ? normals.first : normals.second);
      score[a] = noise[a] * (1 - mean * mean);
      const T moved = mean + noise[a];
      motors[a] = moved > 1 ? T(1) : moved < -1 ? T(-1) : moved;
    }
  }
  if (p.learns) {
    key[1] = static_cast<int64_t>(static_cast<uint64_t>(key[1]) + static_cast<uint64_t>((p.motors + 3) / 4));
  }
}

// A motor is chosen by softmax of the drives; without learning, motors are 2 probability - 1.
template <typename T>
KERNEL_HOST_DEVICE void control_choose(const ControlParams& p, const T* drives, int64_t* key, T* score, T* motors) {
  T largest = drives[0];
  for (int64_t a = 1; a < p.motors; ++a) {
    largest = drives[a] > largest ? drives[a] : largest;
  }
  T total = 0;
  for (int64_t a = 0; a < p.motors; ++a) {
    motors[a] = exponential(drives[a] - largest);
    total = total + motors[a];
  }
  T below = 0;
  int64_t chosen = 0;
  const PhiloxBlock block =
      philox4x32(philox_counter(static_cast<uint64_t>(key[1]), 0), philox_key(static_cast<uint64_t>(key[0])));
  const T drawn = static_cast<T>(uniform_float(block.word[0]));
  for (int64_t a = 0; a < p.motors; ++a) {
    motors[a] = motors[a] / total;
    below = below + motors[a];
    chosen += below <= drawn && a + 1 < p.motors ? 1 : 0;
  }
  for (int64_t a = 0; a < p.motors; ++a) {
    score[a] = p.learns ? T(a == chosen ? 1 : 0) - motors[a] : T(0);
    motors[a] = p.learns ? T(a == chosen ? 1 : -1) : 2 * motors[a] - 1;
  }
  if (p.learns) {
    key[1] = static_cast<int64_t>(static_cast<uint64_t>(key[1]) + 1);
  }
}

template <typename B>
KERNEL_HOST_DEVICE B larger(B a, B b) {
  if constexpr (requires { a.lanes; }) {
    return {a.lanes > b.lanes ? a.lanes : b.lanes};
  } else {
    return a > b ? a : b;
  }
}

// A channel's sums over places.
template <typename L>
struct ControlSums {
  L total, squares, largest, small;

  KERNEL_HOST_DEVICE void add(L value, L limit) {
    using T = number_t<L>;
    // The largest is compared by its bits, of which NaN has the most.
    const L size = magnitude(value);
    total = total + value;
    squares = squares + value * value;
    largest = number_of(larger(bits_of(size), bits_of(largest)));
    small = small + select(size < limit, lanes_of<L>(T(1)), lanes_of<L>(T(0)));
  }
};

// Deviation over places summed over channels, largest magnitude, confidence, mean square, share of inactive elements.
template <typename T>
struct ControlMetrics {
  T deviations, largest, squares, small;

  KERNEL_HOST_DEVICE void add(const ControlSums<T>& sums, T places) {
    const T mean = sums.total / places;
    const T variance = sums.squares / places - mean * mean;
    deviations = deviations + square_root(variance > 0 ? variance : T(0));
    largest = sums.largest > largest ? sums.largest : largest;
    squares = squares + sums.squares;
    small = small + sums.small;
  }
  KERNEL_HOST_DEVICE void store(T product, T elements, T error, T* out) const {
    out[0] = product * deviations;
    out[1] = product * largest;
    out[2] = 1 / (1 + error);
    out[3] = product * product * squares / elements;
    out[4] = small / elements;
    out[5] = error;
  }
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
