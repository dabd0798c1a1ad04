// Learning control by a field on the CPU; compiled once per instruction set. A robot is a row.
#include "kernels/field/control.h"

#include "kernels/math.h"
#include "kernels/philox.h"
#include "kernels/registry.h"
#include "kernels/simd.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// The cells of the bumps that code sensors, and their activity.
template <typename T>
struct Code {
  int64_t* cells;  // of the field's elements, channel `map`
  T* active;
  int count;
};

// Scratch of a robot, in elements of 8 bytes.
int64_t code_size(const ControlParams& p) {
  return kBumpCells * p.maps;
}
template <typename T>
int64_t control_scratch(const ControlParams& p) {
  const int64_t copied = p.diffusion > 0 ? p.places_count() * p.channels : 0;
  return 8 * (4 * code_size(p) + 2 * (1 + p.motors) + p.channels + copied);
}

// Activity exp(-d^2 / (2 width^2)) at the cells around place A (sensors, 1) of each map; all together have norm 1.
template <typename T>
void encode(const ControlParams& p, const T* places, const T* sensory, Code<T>& code) {
  constexpr T kFactor = static_cast<T>(-0.5 / (kBumpWidth * kBumpWidth));
  constexpr int W = 64 / static_cast<int>(sizeof(T));
  code.count = 0;
  T squares = 0;
  for (int64_t map = 0; map < p.maps; ++map) {
    T bump[16] = {};
    int64_t first[3];
    for (int axis = 0; axis < 3; ++axis) {
      const T* const row = places + (map * 3 + axis) * (p.sensors + 1);
      T place = 0;
      for (int64_t i = 0; i < p.sensors; ++i) {
        place = place + row[i] * sensory[i];
      }
      place = place + row[p.sensors];
      // Of what is no number, the lowest.
      const T top = static_cast<T>(p.sizes[axis] - 1);
      place = place > 0 ? (place < top ? place : top) : 0;
      first[axis] = static_cast<int64_t>(place + T(0.5)) - 1;
      for (int k = 0; k < 3; ++k) {
        const T distance = static_cast<T>(first[axis] + k) - place;
        bump[axis * 3 + k] = kFactor * (distance * distance);
      }
    }
    for (int k = 0; k < 16; k += W) {
      exponential(Simd<T, W>::load(bump + k)).store(bump + k);
    }
    for (int i = 0; i < 3; ++i) {
      const int64_t z = first[0] + i;
      for (int j = 0; j < 3; ++j) {
        const int64_t y = first[1] + j;
        const T beside = bump[i] * bump[3 + j];
        for (int k = 0; k < 3; ++k) {
          const int64_t x = first[2] + k;
          if (z < 0 || z >= p.sizes[0] || y < 0 || y >= p.sizes[1] || x < 0 || x >= p.sizes[2]) {
            continue;
          }
          const T active = beside * bump[6 + k];
          squares = squares + active * active;
          code.cells[code.count] = ((z * p.sizes[1] + y) * p.sizes[2] + x) * p.channels + map;
          code.active[code.count++] = active;
        }
      }
    }
  }
  const T scale = 1 / square_root(squares);
  for (int i = 0; i < code.count; ++i) {
    code.active[i] = code.active[i] * scale;
  }
}

// A robot's numbers.
template <typename T>
struct Robot {
  const ControlParams& p;
  T* field;
  T* weights;
  T* head;
  T* rates;  // scratch, [channels]
  T* copy;   // scratch, as the field

  // <w, code> of the critic, 0, or of a motor, 1 on.
  T read(const Code<T>& code, int64_t group) const {
    const T ahead = head[group == 0 ? ControlHead::kCritic : ControlHead::kMotor];
    const T* const g = field + group * p.maps;
    const T* const w = weights + group * p.maps;
    T total = 0;
    for (int i = 0; i < code.count; ++i) {
      const int64_t at = code.cells[i];
      total = total + (w[at] + ahead * g[at]) * code.active[i];
    }
    return total;
  }

  // Every element as it is: the product is 1 and nothing is ahead. `kept` is 0 to clear the field.
  void settle(T kept) const {
    for (int64_t c = 0; c < p.channels; ++c) {
      rates[c] = head[c < p.maps ? ControlHead::kCritic : ControlHead::kMotor];
    }
    const T product = head[ControlHead::kProduct];
    const T* KERNEL_RESTRICT ahead = rates;
    for (int64_t place = 0; place < p.places_count(); ++place) {
      T* KERNEL_RESTRICT g = field + place * p.channels;
      T* KERNEL_RESTRICT w = weights + place * p.channels;
      for (int64_t c = 0; c < p.channels; ++c) {
        w[c] = w[c] + ahead[c] * g[c];
        g[c] = kept != 0 ? g[c] * product : T(0);
      }
    }
    head[ControlHead::kProduct] = 1;
    head[ControlHead::kCritic] = head[ControlHead::kMotor] = 0;
  }

  // f + diffusion (sum of the 6 neighbours - 6 f); beyond the border lies the nearest element.
  void diffuse() const {
    const int64_t total = p.places_count() * p.channels;
    __builtin_memcpy(copy, field, static_cast<size_t>(total) * sizeof(T));
    const T rate = static_cast<T>(p.diffusion);
    const int64_t steps[3] = {p.sizes[1] * p.sizes[2] * p.channels, p.sizes[2] * p.channels, p.channels};
    for (int64_t place = 0; place < p.places_count(); ++place) {
      const int64_t at[3] = {place / (p.sizes[1] * p.sizes[2]), place / p.sizes[2] % p.sizes[1], place % p.sizes[2]};
      const T* const own = copy + place * p.channels;
      const T* near[6];
      for (int axis = 0; axis < 3; ++axis) {
        near[2 * axis] = own - (at[axis] > 0 ? steps[axis] : 0);
        near[2 * axis + 1] = own + (at[axis] + 1 < p.sizes[axis] ? steps[axis] : 0);
      }
      T* KERNEL_RESTRICT target = field + place * p.channels;
      for (int64_t c = 0; c < p.channels; ++c) {
        const T around = near[0][c] + near[1][c] + near[2][c] + near[3][c] + near[4][c] + near[5][c];
        target[c] = own[c] + rate * (around - 6 * own[c]);
      }
    }
  }

  // What the step before led to: imprint, weights and decay.
  void learn(const Code<T>& before, const Code<T>& now, const T* score, T reward, bool terminated, T* imprint) const {
    const T next = terminated ? T(0) : static_cast<T>(p.discount) * read(now, 0);
    const T error = reward + next - read(before, 0);
    T& product = head[ControlHead::kProduct];
    T held = 0;
    for (int i = 0; i < before.count; ++i) {
      held = held + field[before.cells[i]] * before.active[i];
    }
    imprint[0] = (1 - static_cast<T>(p.critic_rate) * (product * held)) / product;
    for (int64_t a = 0; a < p.motors; ++a) {
      imprint[1 + a] = score[a] / product;
    }
    for (int64_t group = 0; group <= p.motors; ++group) {
      const T ahead = head[group == 0 ? ControlHead::kCritic : ControlHead::kMotor];
      T* const g = field + group * p.maps;
      T* const w = weights + group * p.maps;
      for (int i = 0; i < before.count; ++i) {
        const int64_t at = before.cells[i];
        const T added = imprint[group] * before.active[i];
        g[at] = g[at] + added;
        w[at] = w[at] - ahead * added;
      }
    }
    if (p.learns) {
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
    product = product * static_cast<T>(1 - p.decay);
    if (p.dense || product < static_cast<T>(kLeastProduct)) {
      settle(1);
      if (p.diffusion > 0) {
        diffuse();
      }
    }
  }
};

// Motors are tanh of the drives plus noise; n (1 - mean^2) is the score of a noise n.
template <typename T>
void move(const ControlParams& p, const T* drives, int64_t* key, T* noise, T* score, T* motors) {
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
        normals = normal_pair<float>(block.word[a % 4], block.word[a % 4 + 1]);
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
void choose(const ControlParams& p, const T* drives, int64_t* key, T* score, T* motors) {
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

// Sums over places, per lane of channels.
template <typename L>
struct Sums {
  L total, squares, largest, small;
};
template <typename L, typename T>
Sums<L> sums_of(const ControlParams& p, const T* field, T limit) {
  const L zero = lanes_of<L>(0);
  Sums<L> sums{zero, zero, zero, zero};
  for (int64_t place = 0; place < p.places_count(); ++place) {
    L value;
    __builtin_memcpy(&value, field + place * p.channels, sizeof(value));
    const L size = magnitude(value);
    sums.total = sums.total + value;
    sums.squares = sums.squares + value * value;
    sums.largest = select(size > sums.largest, size, sums.largest);
    sums.small = sums.small + select(size < lanes_of<L>(limit), lanes_of<L>(T(1)), zero);
  }
  return sums;
}

// Deviation over places summed over channels, largest magnitude, confidence, mean square, share of inactive elements.
template <typename T>
void measure(const ControlParams& p, const T* field, T product, T error, T* out) {
  constexpr int W = 8;
  using L = Simd<T, W>;
  const T limit = static_cast<T>(kInactive) / product;
  const auto count = static_cast<T>(p.places_count());
  T deviations = 0, largest = 0, squares = 0, small = 0;
  const auto add = [&](T total, T square, T most, T below) {
    const T mean = total / count;
    const T variance = square / count - mean * mean;
    deviations = deviations + square_root(variance > 0 ? variance : T(0));
    largest = most > largest ? most : largest;
    squares = squares + square;
    small = small + below;
  };
  int64_t c = 0;
  for (; c + W <= p.channels; c += W) {
    const Sums<L> sums = sums_of<L>(p, field + c, limit);
    for (int k = 0; k < W; ++k) {
      add(sums.total.lanes[k], sums.squares.lanes[k], sums.largest.lanes[k], sums.small.lanes[k]);
    }
  }
  for (; c < p.channels; ++c) {
    const Sums<T> sums = sums_of<T>(p, field + c, limit);
    add(sums.total, sums.squares, sums.largest, sums.small);
  }
  const T all = count * static_cast<T>(p.channels);
  out[0] = product * deviations;
  out[1] = product * largest;
  out[2] = 1 / (1 + error);
  out[3] = product * product * squares / all;
  out[4] = small / all;
  out[5] = error;
}

template <typename T>
void control_row(const ControlParams& p, int64_t row, void* scratch) {
  const int64_t bump = code_size(p);
  auto* const cells = static_cast<int64_t*>(scratch);
  auto* memory = reinterpret_cast<T*>(cells + 2 * bump);
  const auto take = [&](int64_t count) {
    T* const taken = memory;
    memory += count;
    return taken;
  };
  Code<T> now{cells, take(bump), 0};
  Code<T> before{cells + bump, take(bump), 0};
  T* const drives = take(p.motors);
  T* const imprint = take(1 + p.motors);
  T* const rates = take(p.channels);
  const int64_t size = p.places_count() * p.channels;
  T* const head = static_cast<T*>(p.state) + row * p.state_size();
  const Robot<T> robot{
      p, static_cast<T*>(p.field) + row * size, static_cast<T*>(p.weights) + row * size, head, rates, memory};
  T* const last = head + ControlHead::kSize;
  T* const noise = last + p.sensors;
  T* const score = noise + p.motors;
  const T* const sensory = static_cast<const T*>(p.sensory) + row * p.sensors;
  const T* const places = static_cast<const T*>(p.places) + row * p.maps * 3 * (p.sensors + 1);
  const T ended = static_cast<const T*>(p.ended)[row];

  encode(p, places, sensory, now);
  if (head[ControlHead::kBegun] != 0) {
    encode(p, places, last, before);
    robot.learn(before, now, score, static_cast<const T*>(p.reward)[row], ended == 1, imprint);
  } else {
    robot.settle(0);
    for (int64_t a = 0; a < p.motors; ++a) {
      noise[a] = 0;
    }
  }
  for (int64_t a = 0; a < p.motors; ++a) {
    drives[a] = robot.read(now, 1 + a);
  }
  T* const out = static_cast<T*>(p.out) + row * p.out_size();
  int64_t* const key = p.key + 2 * row;
  if (p.discrete) {
    choose(p, drives, key, score, out);
  } else {
    move(p, drives, key, noise, score, out);
  }
  T* const prediction = static_cast<T*>(p.prediction) + row * p.sensors;
  T error = 0;
  for (int64_t i = 0; i < p.sensors; ++i) {
    const T missed = sensory[i] - prediction[i];
    error = error + (missed < 0 ? -missed : missed);
    prediction[i] = T(0.9) * prediction[i] + T(0.1) * sensory[i];
    last[i] = sensory[i];
  }
  head[ControlHead::kBegun] = ended == 0 ? T(1) : T(0);
  if (p.measures) {
    measure(p, robot.field, head[ControlHead::kProduct], error / static_cast<T>(p.sensors), out + p.motors);
  }
}

template <typename T>
void control_rows(const ControlParams& p, int64_t begin, int64_t end, void* scratch) {
  for (int64_t row = begin; row < end; ++row) {
    control_row<T>(p, row, scratch);
  }
}

// Half types have no kernel: the operator refuses them.
template <typename S>
constexpr RowKernel<ControlParams> kControl = {[](const ControlParams& p) { return p.places_count() * p.channels; },
                                               control_scratch<compute_t<S>>, control_rows<compute_t<S>>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<ControlParams>, kControl)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
