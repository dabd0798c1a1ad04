// Learning control by a field on the CPU against its formulas in double, cell by cell, sparse and dense; rows and rest.
#include "kernels/field/control.h"

#include "oracle.h"
#include "tests/cuda_on_host/field_control.h"

namespace torch_hrr::kernels {
namespace {

// Robots and what a step is given; the noise that was drawn is read from the state, so the oracle draws none.
template <typename T>
struct Problem {
  ControlParams params;
  Buffer<T> field, weights, state, prediction, out, places, sensory, reward, ended;
  Buffer<int64_t> key;

  Problem(const ControlParams& p, uint64_t seed)
      : params(p),
        field(p.rows * p.places_count() * p.channels),
        weights(field.size()),
        state(p.rows * p.state_size()),
        prediction(p.rows * p.sensors),
        out(p.rows * p.out_size()),
        places(random_values<T>(p.rows * p.maps * 3 * (p.sensors + 1), seed, 1.5)),
        sensory(p.rows * p.sensors),
        reward(p.rows),
        ended(p.rows),
        key(2 * p.rows) {
    for (Buffer<T>* each : {&field, &weights, &state, &prediction}) {
      std::fill_n(each->data(), each->size(), T(0));
    }
    for (int64_t row = 0; row < p.rows; ++row) {
      state.data()[row * p.state_size() + ControlHead::kProduct] = 1;
      key.data()[2 * row] = static_cast<int64_t>(seed) + row;
      key.data()[2 * row + 1] = 0;
    }
    for (int64_t i = 0; i < p.rows * p.maps * 3; ++i) {
      places.data()[(i + 1) * (p.sensors + 1) - 1] += static_cast<T>(p.sizes[i % 3] - 1) / 2;
    }
  }

  void step(int64_t begin, int64_t end) {
    ControlParams p = params;
    p.field = field.data();
    p.weights = weights.data();
    p.state = state.data();
    p.prediction = prediction.data();
    p.key = key.data();
    p.out = out.data();
    p.places = places.data();
    p.sensory = sensory.data();
    p.reward = reward.data();
    p.ended = ended.data();
    run(kernel_of<T, ControlParams>(), p, begin, end);
  }

  // What step `i` gives to every robot.
  void give(int i) {
    std::mt19937_64 generator(static_cast<uint64_t>(i));
    std::normal_distribution<double> normal;
    for (int64_t k = 0; k < sensory.size(); ++k) {
      sensory.data()[k] = static_cast<T>(0.6 * normal(generator));
    }
    for (int64_t row = 0; row < params.rows; ++row) {
      reward.data()[row] = static_cast<T>(normal(generator));
      ended.data()[row] = generator() % 12 == 0 ? static_cast<T>(1 + generator() % 2) : T(0);
    }
  }

  const T* head(int64_t row) const {
    return state.data() + row * params.state_size();
  }
  double f(int64_t row, int64_t at) const {
    const int64_t size = params.places_count() * params.channels;
    return static_cast<double>(head(row)[ControlHead::kProduct]) * static_cast<double>(field.data()[row * size + at]);
  }
  double w(int64_t row, int64_t at) const {
    const int64_t size = params.places_count() * params.channels;
    const bool critic = at % params.channels < params.maps;
    return static_cast<double>(weights.data()[row * size + at]) +
           static_cast<double>(head(row)[critic ? ControlHead::kCritic : ControlHead::kMotor]) *
               static_cast<double>(field.data()[row * size + at]);
  }
};

// One robot, [places, channels] dense, in double.
class Oracle {
 public:
  Oracle(const ControlParams& p, std::vector<double> places)
      : p_(p),
        places_(std::move(places)),
        f(static_cast<size_t>(p.places_count() * p.channels)),
        w(f.size()),
        score_(static_cast<size_t>(p.motors)) {}

  // What the last step led to, and the motors' drives.
  std::vector<double> step(const std::vector<double>& sensory, double reward, bool terminated) {
    const std::vector<double> y = code(sensory);
    if (begun_) {
      const double error = reward + (terminated ? 0 : p_.discount * read(w, y, 0)) - read(w, x_, 0);
      const double held = read(f, x_, 0);
      for_all([&](size_t at, int64_t group, double x) {
        f[at] += (group == 0 ? 1 - p_.critic_rate * held : score_[static_cast<size_t>(group - 1)]) * x;
      });
      count_ += 1;
      square_ += (error * error - square_) / std::min(count_, 1000.0);
      const double clipped = std::clamp(error / std::sqrt(square_), -3.0, 3.0);
      for_all([&](size_t at, int64_t group, double) {
        w[at] += (group == 0 ? p_.critic_rate * error : p_.motor_rate * clipped) * f[at];
        f[at] *= 1 - p_.decay;
      });
      if (p_.diffusion > 0) {
        diffuse();
      }
    } else {
      std::fill(f.begin(), f.end(), 0.0);
    }
    std::vector<double> drives;
    for (int64_t a = 0; a < p_.motors; ++a) {
      drives.push_back(read(w, y, 1 + a));
    }
    x_ = y;
    return drives;
  }
  void acted(std::vector<double> score, bool ended) {
    score_ = std::move(score);
    begun_ = !ended;
  }

 private:
  // [places, maps]
  std::vector<double> code(const std::vector<double>& sensory) const {
    std::vector<double> x(static_cast<size_t>(p_.places_count() * p_.maps));
    double squares = 0;
    for (int64_t map = 0; map < p_.maps; ++map) {
      double at[3];
      for (int axis = 0; axis < 3; ++axis) {
        const double* const row = places_.data() + (map * 3 + axis) * (p_.sensors + 1);
        at[axis] = row[p_.sensors];
        for (int64_t i = 0; i < p_.sensors; ++i) {
          at[axis] += row[i] * sensory[static_cast<size_t>(i)];
        }
        at[axis] = std::clamp(at[axis], 0.0, static_cast<double>(p_.sizes[axis] - 1));
      }
      for (int64_t place = 0; place < p_.places_count(); ++place) {
        const int64_t cell[3] = {place / (p_.sizes[1] * p_.sizes[2]), place / p_.sizes[2] % p_.sizes[1],
                                 place % p_.sizes[2]};
        double distance = 0;
        bool near = true;
        for (int axis = 0; axis < 3; ++axis) {
          distance += std::pow(static_cast<double>(cell[axis]) - at[axis], 2);
          near = near && std::abs(static_cast<double>(cell[axis]) - std::floor(at[axis] + 0.5)) <= 1;
        }
        const double active = near ? std::exp(-distance / (2 * 0.7 * 0.7)) : 0;
        x[static_cast<size_t>(place * p_.maps + map)] = active;
        squares += active * active;
      }
    }
    for (double& each : x) {
      each /= std::sqrt(squares);
    }
    return x;
  }
  // visit(element, 0 or 1 + motor, activity of the last code)
  template <typename Visit>
  void for_all(const Visit& visit) {
    for (int64_t place = 0; place < p_.places_count(); ++place) {
      for (int64_t c = 0; c < p_.maps * (1 + p_.motors); ++c) {
        visit(static_cast<size_t>(place * p_.channels + c), c / p_.maps,
              x_[static_cast<size_t>(place * p_.maps + c % p_.maps)]);
      }
    }
  }
  double read(const std::vector<double>& from, const std::vector<double>& x, int64_t group) const {
    double total = 0;
    for (int64_t place = 0; place < p_.places_count(); ++place) {
      for (int64_t map = 0; map < p_.maps; ++map) {
        total += from[static_cast<size_t>(place * p_.channels + group * p_.maps + map)] *
                 x[static_cast<size_t>(place * p_.maps + map)];
      }
    }
    return total;
  }
  void diffuse() {
    const std::vector<double> before = f;
    for (int64_t i = 0; i < static_cast<int64_t>(f.size()); ++i) {
      const int64_t c = i % p_.channels;
      const int64_t place = i / p_.channels;
      const int64_t cell[3] = {place / (p_.sizes[1] * p_.sizes[2]), place / p_.sizes[2] % p_.sizes[1],
                               place % p_.sizes[2]};
      for (int axis = 0; axis < 3; ++axis) {
        for (const int64_t side : {-1, 1}) {
          int64_t other[3] = {cell[0], cell[1], cell[2]};
          other[axis] = std::clamp<int64_t>(cell[axis] + side, 0, p_.sizes[axis] - 1);
          const int64_t beside = (other[0] * p_.sizes[1] + other[1]) * p_.sizes[2] + other[2];
          f[static_cast<size_t>(i)] +=
              p_.diffusion * (before[static_cast<size_t>(beside * p_.channels + c)] - before[static_cast<size_t>(i)]);
        }
      }
    }
  }

  ControlParams p_;
  std::vector<double> places_;

 public:
  std::vector<double> f, w;

 private:
  std::vector<double> x_, score_;
  bool begun_ = false;
  double square_ = 0, count_ = 0;
};

template <typename T>
void expect_oracle(const ControlParams& p, double tolerance) {
  Problem<T> problem(p, 7);
  Oracle oracle(p, row_at(problem.places.data(), problem.places.size()));
  const auto motors = static_cast<size_t>(p.motors);
  for (int i = 0; i < 80; ++i) {
    problem.give(i);
    const bool terminated = problem.ended.data()[0] == T(1);
    const auto drives = oracle.step(row_at(problem.sensory.data(), p.sensors),
                                    static_cast<double>(problem.reward.data()[0]), terminated);
    problem.step(0, 1);
    std::vector<double> score(motors);
    const T* const noise = problem.head(0) + ControlHead::kSize + p.sensors;
    double total = 0;
    for (const double drive : drives) {
      total += std::exp(drive);
    }
    for (size_t a = 0; a < motors; ++a) {
      const auto motor = static_cast<double>(problem.out.data()[a]);
      if (p.discrete) {
        score[a] = (motor > 0 ? 1 : 0) - std::exp(drives[a]) / total;
        ASSERT_EQ(std::abs(motor), 1);
      } else {
        const double mean = std::tanh(drives[a]);
        score[a] = static_cast<double>(noise[a]) * (1 - mean * mean);
        ASSERT_NEAR(motor, std::clamp(mean + static_cast<double>(noise[a]), -1.0, 1.0), tolerance) << "step " << i;
      }
      ASSERT_NEAR(static_cast<double>(noise[motors + a]), score[a], tolerance) << "step " << i;
    }
    oracle.acted(score, problem.ended.data()[0] > 0);
    double most = 0, squares = 0;
    for (size_t at = 0; at < oracle.f.size(); ++at) {
      ASSERT_NEAR(problem.f(0, static_cast<int64_t>(at)), oracle.f[at], tolerance) << "step " << i << " element " << at;
      ASSERT_NEAR(problem.w(0, static_cast<int64_t>(at)), oracle.w[at], tolerance) << "step " << i << " element " << at;
      most = std::max(most, std::abs(oracle.f[at]));
      squares += oracle.f[at] * oracle.f[at];
    }
    const T* const metrics = problem.out.data() + motors;
    ASSERT_NEAR(static_cast<double>(metrics[1]), most, tolerance);
    ASSERT_NEAR(static_cast<double>(metrics[3]), squares / static_cast<double>(oracle.f.size()), tolerance);
  }
}

template <typename T>
class FieldControl : public ::testing::Test {
 protected:
  static constexpr double kTolerance = sizeof(T) == 4 ? 5e-5 : 1e-12;
};
using Numbers = ::testing::Types<float, double>;
TYPED_TEST_SUITE(FieldControl, Numbers);

TYPED_TEST(FieldControl, IsTheFormulas) {
  for (const auto& sizes : std::vector<std::array<int64_t, 3>>{{8, 8, 8}, {4, 5, 3}, {1, 2, 7}, {1, 1, 1}}) {
    for (const bool dense : {false, true}) {
      for (const bool discrete : {false, true}) {
        ControlParams p = control_settings(sizes, 8, 2, 1);
        p.dense = dense;
        p.discrete = discrete;
        expect_oracle<TypeParam>(p, this->kTolerance);
      }
    }
  }
}

// Of less than eight maps, of more, and of many motors; and of a field that diffuses.
TYPED_TEST(FieldControl, IsTheFormulasForAnyNumberOfMaps) {
  for (const auto& [maps, motors] : {std::pair{1, 1}, std::pair{3, 5}, std::pair{9, 1}, std::pair{17, 2}}) {
    ControlParams p = control_settings({4, 3, 5}, maps, motors);
    expect_oracle<TypeParam>(p, this->kTolerance);
    p.diffusion = 0.04;
    p.dense = true;
    expect_oracle<TypeParam>(p, this->kTolerance);
  }
}

TYPED_TEST(FieldControl, RobotsAreEachAloneAndMayRest) {
  using T = TypeParam;
  ControlParams p = control_settings({4, 5, 3}, 9, 3);
  p.rows = 4;
  Problem<T> together(p, 3);
  Problem<T> apart(p, 3);
  constexpr int64_t kResting = 2;
  for (int i = 0; i < 30; ++i) {
    together.give(i);
    apart.give(i);
    if (i >= 15) {
      together.ended.data()[kResting] = -1;
    }
    together.step(0, 4);
    for (const int64_t row : {3, 1, 0, 2}) {
      if (i < 15 || row != kResting) {
        apart.step(row, row + 1);
      }
    }
  }
  const auto expect_same = [](const auto& a, const auto& b) {
    ASSERT_EQ(std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size()) * sizeof(*a.data())), 0);
  };
  expect_same(together.field, apart.field);
  expect_same(together.weights, apart.weights);
  expect_same(together.state, apart.state);
  expect_same(together.prediction, apart.prediction);
  expect_same(together.key, apart.key);
  expect_same(together.out, apart.out);
}

}  // namespace
}  // namespace torch_hrr::kernels
