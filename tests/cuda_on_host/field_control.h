// Robots that learn control, for the tests of both devices and for what a GPU is asked for.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/field/control.h"

namespace torch_hrr::kernels {

// One robot of three sensors that learns, each channel used but for `more` of them.
inline ControlParams control_settings(std::array<int64_t, 3> sizes, int64_t maps, int64_t motors, int64_t more = 0) {
  ControlParams p;
  p.rows = 1;
  std::copy(sizes.begin(), sizes.end(), p.sizes);
  p.maps = maps;
  p.motors = motors;
  p.channels = maps * (1 + motors) + more;
  p.sensors = 3;
  p.measures = true;
  p.decay = 0.109;
  p.discount = 0.99;
  p.critic_rate = 0.2;
  p.motor_rate = 0.01;
  p.correlation = 0.5;
  p.deviation = 0.5;
  p.learns = true;
  return p;
}

// What robots keep, as before their first step.
template <typename T>
struct ControlRobots {
  ControlParams params;
  std::vector<T> field, weights, state, prediction, out;
  std::vector<int64_t> key;

  explicit ControlRobots(const ControlParams& p)
      : params(p),
        field(static_cast<size_t>(p.rows * p.places_count() * p.channels)),
        weights(field.size()),
        state(static_cast<size_t>(p.rows * p.state_size())),
        prediction(static_cast<size_t>(p.rows * p.sensors)),
        out(static_cast<size_t>(p.rows * p.out_size())),
        key(static_cast<size_t>(2 * p.rows)) {
    for (int64_t row = 0; row < p.rows; ++row) {
      state[static_cast<size_t>(row * p.state_size() + ControlHead::kProduct)] = 1;
      key[static_cast<size_t>(2 * row)] = 77 + row;
    }
  }
  // The parameters of a step.
  ControlParams with(const std::vector<T>& places, const std::vector<T>& sensory, const std::vector<T>& reward,
                     const std::vector<T>& ended) {
    ControlParams p = params;
    p.field = field.data();
    p.weights = weights.data();
    p.state = state.data();
    p.prediction = prediction.data();
    p.out = out.data();
    p.key = key.data();
    p.places = places.data();
    p.sensory = sensory.data();
    p.reward = reward.data();
    p.ended = ended.data();
    return p;
  }
};

}  // namespace torch_hrr::kernels
