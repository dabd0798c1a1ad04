// A step of learning control by a field, which is a population code and an eligibility trace: parameters and numbers.
#pragma once

#include <cstdint>

#include "kernels/macros.h"

namespace torch_hrr::kernels {

// A map's bump of activity: its cells, at most one away from the nearest along each axis, and its width in cells.
constexpr int kBumpCells = 27;
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
  const void* ended = nullptr;    // [robots]: 1 where the episode terminated, 2 where it was cut off, else 0
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
};

}  // namespace torch_hrr::kernels
