// Learning control by a field on the CPU; compiled once per instruction set. A robot is a row.
#include "kernels/field/control.h"

#include "kernels/registry.h"
#include "kernels/simd.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// Maps go side by side, so many together: sums over their cells are as many chains. All instruction sets have as many.
constexpr int kTogether = 8;
template <typename T>
using Maps = Simd<T, kTogether>;

int64_t blocks_of(const ControlParams& p) {
  return (p.maps + kTogether - 1) / kTogether;
}

// The bumps that code sensors, a block of maps after another. Lanes beyond the last map repeat the block's first one,
// without activity.
template <typename T>
struct Code {
  int64_t* first;  // [blocks, kTogether]: a bump's first element of the field, channel `map`
  T* active;       // [blocks, bump_cells(), kTogether]
};

// Scratch of a robot, in elements of 8 bytes.
int64_t code_size(const ControlParams& p) {
  return blocks_of(p) * kTogether * (1 + kBumpCells);
}
template <typename T>
int64_t control_scratch(const ControlParams& p) {
  const int64_t copied = p.diffusion > 0 ? p.places_count() * p.channels : 0;
  return 8 * (2 * code_size(p) + 1 + 2 * p.motors + p.channels + copied);
}

// visit(cell, its place along the last axis, offset of its element from that of the first) for the cells of a bump, of
// which a whole one has kBumpEdge along each axis.
template <bool kWhole, typename Visit>
KERNEL_HOST_DEVICE void for_cells(const ControlParams& p, const Visit& visit) {
  const int depth = kWhole ? kBumpEdge : p.edge(0);
  const int height = kWhole ? kBumpEdge : p.edge(1);
  const int width = kWhole ? kBumpEdge : p.edge(2);
  int cell = 0;
  for (int z = 0; z < depth; ++z) {
    for (int y = 0; y < height; ++y) {
      const int64_t offset = (z * p.sizes[1] + y) * p.sizes[2] * p.channels;
      for (int x = 0; x < width; ++x) {
        visit(cell++, x, offset + x * p.channels);
      }
    }
  }
}

// Activity exp(-d^2 / (2 width^2)) at the cells around place A (sensors, 1) of each map; all together have norm 1.
template <typename T>
void encode(const ControlParams& p, const T* places, const T* sensory, const Code<T>& code) {
  constexpr int kNumbers = 3 * kBumpEdge * kTogether;
  constexpr int W = 64 / static_cast<int>(sizeof(T));
  const int64_t strides[3] = {p.sizes[1] * p.sizes[2] * p.channels, p.sizes[2] * p.channels, p.channels};
  const int cells = p.bump_cells();
  Maps<T> squares = lanes_of<Maps<T>>(0);
  for (int64_t block = 0; block < blocks_of(p); ++block) {
    const int64_t left = p.maps - block * kTogether;
    int64_t* const first = code.first + block * kTogether;
    T* const active = code.active + block * cells * kTogether;
    // [axis, cell, map]
    T bump[(kNumbers + W - 1) / W * W] = {};
    T near[kNumbers];
    T there[kTogether];
    for (int m = 0; m < kTogether; ++m) {
      first[m] = block * kTogether + (m < left ? m : 0);
      there[m] = m < left ? T(1) : T(0);
    }
    for (int axis = 0; axis < 3; ++axis) {
      T at[kTogether] = {};
      const T* rows[kTogether];
      for (int m = 0; m < kTogether; ++m) {
        rows[m] = places + ((block * kTogether + (m < left ? m : 0)) * 3 + axis) * (p.sensors + 1);
      }
      for (int64_t i = 0; i < p.sensors; ++i) {
        for (int m = 0; m < kTogether; ++m) {
          at[m] = at[m] + rows[m][i] * sensory[i];
        }
      }
      for (int m = 0; m < kTogether; ++m) {
        at[m] = at[m] + rows[m][p.sensors];
      }
      const ControlWindow<Maps<T>> window = control_window(Maps<T>::load(at), p.sizes[axis]);
      for (int m = 0; m < kTogether; ++m) {
        first[m] += static_cast<int64_t>(window.first.lanes[m]) * strides[axis];
      }
      for (int k = 0; k < kBumpEdge; ++k) {
        window.exponent[k].store(bump + (axis * kBumpEdge + k) * kTogether);
        (window.near[k] * Maps<T>::load(there)).store(near + (axis * kBumpEdge + k) * kTogether);
      }
    }
    for (int k = 0; k < kNumbers; k += W) {
      exponential(Simd<T, W>::load(bump + k)).store(bump + k);
    }
    const auto along = [&](int axis, int k) {
      const int at = (axis * kBumpEdge + k) * kTogether;
      return Maps<T>::load(bump + at) * Maps<T>::load(near + at);
    };
    int cell = 0;
    for (int z = 0; z < p.edge(0); ++z) {
      for (int y = 0; y < p.edge(1); ++y) {
        const Maps<T> beside = along(0, z) * along(1, y);
        for (int x = 0; x < p.edge(2); ++x) {
          const Maps<T> value = beside * along(2, x);
          squares = squares + value * value;
          value.store(active + kTogether * cell++);
        }
      }
    }
  }
  T sum = 0;
  for (int m = 0; m < kTogether; ++m) {
    sum = sum + squares.lanes[m];
  }
  const Maps<T> scale = lanes_of<Maps<T>>(1 / square_root(sum));
  for (int64_t i = 0; i < blocks_of(p) * cells * kTogether; i += kTogether) {
    (scale * Maps<T>::load(code.active + i)).store(code.active + i);
  }
}

// A robot's numbers; kWhole: bumps have all their cells.
template <typename T, bool kWhole>
struct Robot {
  const ControlParams& p;
  T* field;
  T* weights;
  T* head;
  T* rates;  // scratch, [channels]
  T* copy;   // scratch, as the field

  // <w, code> of the critic, 0, or of a motor, 1 on.
  T read(const Code<T>& code, int64_t group) const {
    return read(code, group, [](int, T, T) {});
  }
  // And visit(x, element of the field, activity). Sums along the last axis are chains of their own.
  template <typename Visit>
  T read(const Code<T>& code, int64_t group, const Visit& visit) const {
    const T ahead = head[group == 0 ? ControlHead::kCritic : ControlHead::kMotor];
    T sums[kBumpEdge] = {};
    for (int64_t map = 0; map < p.maps; ++map) {
      const T* const active = active_of(code, map);
      const T* const g = field + code.first[map] + group * p.maps;
      const T* const w = weights + code.first[map] + group * p.maps;
      for_cells<kWhole>(p, [&](int cell, int x, int64_t at) {
        sums[x] = sums[x] + (w[at] + ahead * g[at]) * active[cell * kTogether];
        visit(x, g[at], active[cell * kTogether]);
      });
    }
    return sums[0] + sums[1] + sums[2];
  }

  const T* active_of(const Code<T>& code, int64_t map) const {
    return code.active + map / kTogether * p.bump_cells() * kTogether + map % kTogether;
  }

  // f += amount x of the critic and each motor, and the weights stay what they are.
  void imprint(const Code<T>& code, const T* amounts) const {
    const int64_t groups = 1 + p.motors;
    const T critic = head[ControlHead::kCritic];
    const T motor = head[ControlHead::kMotor];
    for (int64_t map = 0; map < p.maps; ++map) {
      const T* const active = active_of(code, map);
      T* const KERNEL_RESTRICT g = field + code.first[map];
      T* const KERNEL_RESTRICT w = weights + code.first[map];
      for_cells<kWhole>(p, [&](int cell, int, int64_t offset) {
        const T x = active[cell * kTogether];
        T ahead = critic;
        for (int64_t group = 0; group < groups; ++group) {
          const int64_t at = offset + group * p.maps;
          const T added = amounts[group] * x;
          // Both are read before one is written: they may lie a multiple of 4096 bytes apart.
          const T element = g[at];
          const T weight = w[at];
          g[at] = element + added;
          w[at] = weight - ahead * added;
          ahead = motor;
        }
      });
    }
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
  void learn(const Code<T>& before, const Code<T>& now, const T* score, T reward, bool terminated, T* amounts) const {
    const T next = terminated ? T(0) : static_cast<T>(p.discount) * read(now, 0);
    T sums[kBumpEdge] = {};
    const T value = read(before, 0, [&](int x, T element, T active) { sums[x] = sums[x] + element * active; });
    const T error = reward + next - value;
    T& product = head[ControlHead::kProduct];
    amounts[0] = (1 - static_cast<T>(p.critic_rate) * (product * (sums[0] + sums[1] + sums[2]))) / product;
    for (int64_t a = 0; a < p.motors; ++a) {
      amounts[1 + a] = score[a] / product;
    }
    imprint(before, amounts);
    if (p.learns) {
      control_learn(p, error, product, head);
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

// The sums of N vectors of channels from channel c on.
template <int N, typename T>
void add_sums(const ControlParams& p, const T* field, int64_t c, T limit, ControlMetrics<T>& metrics) {
  using L = Maps<T>;
  ControlSums<L> sums[N] = {};
  for (int64_t place = 0; place < p.places_count(); ++place) {
    const T* const values = field + place * p.channels + c;
    for (int i = 0; i < N; ++i) {
      sums[i].add(L::load(values + i * kTogether), lanes_of<L>(limit));
    }
  }
  const auto count = static_cast<T>(p.places_count());
  for (const ControlSums<L>& each : sums) {
    for (int k = 0; k < kTogether; ++k) {
      metrics.add({each.total.lanes[k], each.squares.lanes[k], each.largest.lanes[k], each.small.lanes[k]}, count);
    }
  }
}

template <typename T>
void measure(const ControlParams& p, const T* field, T product, T error, T* out) {
  const T limit = static_cast<T>(kInactive) / product;
  const auto count = static_cast<T>(p.places_count());
  ControlMetrics<T> metrics{};
  int64_t c = 0;
  for (; c + 3 * kTogether <= p.channels; c += 3 * kTogether) {
    add_sums<3>(p, field, c, limit, metrics);
  }
  for (; c + kTogether <= p.channels; c += kTogether) {
    add_sums<1>(p, field, c, limit, metrics);
  }
  for (; c < p.channels; ++c) {
    ControlSums<T> sums{};
    for (int64_t place = 0; place < p.places_count(); ++place) {
      sums.add(field[place * p.channels + c], limit);
    }
    metrics.add(sums, count);
  }
  metrics.store(product, count * static_cast<T>(p.channels), error, out);
}

template <typename T, bool kWhole>
void control_row(const ControlParams& p, int64_t row, void* scratch) {
  const T ended = static_cast<const T*>(p.ended)[row];
  if (ended < 0) {
    return;
  }
  auto* memory = static_cast<int64_t*>(scratch);
  const auto take = [&](int64_t count) {
    T* const taken = reinterpret_cast<T*>(memory);
    memory += count;
    return taken;
  };
  const int64_t lanes = blocks_of(p) * kTogether;
  const auto new_code = [&] {
    auto* const first = memory;
    memory += lanes;
    return Code<T>{first, take(lanes * kBumpCells)};
  };
  const Code<T> now = new_code();
  const Code<T> before = new_code();
  T* const drives = take(p.motors);
  T* const amounts = take(1 + p.motors);
  T* const rates = take(p.channels);
  const int64_t size = p.places_count() * p.channels;
  T* const head = static_cast<T*>(p.state) + row * p.state_size();
  const Robot<T, kWhole> robot{
      p,     static_cast<T*>(p.field) + row * size, static_cast<T*>(p.weights) + row * size, head,
      rates, reinterpret_cast<T*>(memory)};
  T* const last = head + ControlHead::kSize;
  T* const noise = last + p.sensors;
  T* const score = noise + p.motors;
  const T* const sensory = static_cast<const T*>(p.sensory) + row * p.sensors;
  const T* const places = static_cast<const T*>(p.places) + row * p.maps * 3 * (p.sensors + 1);

  encode(p, places, sensory, now);
  if (head[ControlHead::kBegun] != 0) {
    encode(p, places, last, before);
    robot.learn(before, now, score, static_cast<const T*>(p.reward)[row], ended == 1, amounts);
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
    control_choose(p, drives, key, score, out);
  } else {
    control_move(p, drives, key, noise, score, out);
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
    if (p.bump_cells() == kBumpCells) {
      control_row<T, true>(p, row, scratch);
    } else {
      control_row<T, false>(p, row, scratch);
    }
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
