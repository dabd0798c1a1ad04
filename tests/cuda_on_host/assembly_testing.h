// Rows, oracles and launches shared by the tests of the assembly kernels on the host.
#pragma once

#include "tests/cuda_on_host/shim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/assembly/winners.h"
#include "kernels/numeric.h"
#include "tests/cuda_on_host/tested_types.h"

namespace torch_hrr::kernels::assembly_testing {

using cuda_on_host::all_schedules;
using cuda_on_host::host_launch;
using cuda_on_host::HostLauncher;
using cuda_on_host::poisoned;
using cuda_on_host::Schedule;

using ElementTypes = cuda_on_host::TestedTypes<float, double, Half, BFloat16, int32_t, int64_t>;

template <typename S>
constexpr Element kElementOf = Element::kFloat;
template <>
inline constexpr Element kElementOf<double> = Element::kDouble;
template <>
inline constexpr Element kElementOf<Half> = Element::kHalf;
template <>
inline constexpr Element kElementOf<BFloat16> = Element::kBFloat16;
template <>
inline constexpr Element kElementOf<int32_t> = Element::kInt32;
template <>
inline constexpr Element kElementOf<int64_t> = Element::kInt64;

template <typename S>
using bits_t = std::conditional_t<sizeof(S) == 2, uint16_t, std::conditional_t<sizeof(S) == 4, uint32_t, uint64_t>>;

template <typename S>
S of_bits(uint64_t bits) {
  const auto narrow = static_cast<bits_t<S>>(bits);
  S element;
  std::memcpy(static_cast<void*>(&element), &narrow, sizeof(S));
  return element;
}
template <typename S>
uint64_t bits_of(S element) {
  bits_t<S> bits;
  std::memcpy(&bits, &element, sizeof(S));
  return bits;
}

template <typename S>
constexpr bool kIsInteger = std::is_integral_v<S>;

enum class Kind { kAnyBits, kNormal, kRelu, kTwoValues, kConstant, kAscending, kLowBits, kSpecial };
constexpr Kind kKinds[] = {Kind::kAnyBits,  Kind::kNormal,    Kind::kRelu,    Kind::kTwoValues,
                           Kind::kConstant, Kind::kAscending, Kind::kLowBits, Kind::kSpecial};

// Zeros of both signs, infinities, NaN of both signs and several payloads, denormals; the extremes of integers.
template <typename S>
std::vector<S> special_elements() {
  using Bits = bits_t<S>;
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(S) - 1));
  if constexpr (kIsInteger<S>) {
    using Limits = std::numeric_limits<S>;
    return {0, -1, 1, Limits::max(), Limits::min(), static_cast<S>(Limits::max() - 1), static_cast<S>(1) << 21};
  } else {
    const uint64_t infinity = bits_of(std::numeric_limits<S>::infinity());
    std::vector<S> elements;
    for (const uint64_t magnitude : {uint64_t{0}, uint64_t{1}, uint64_t{2}, infinity, infinity + 1, infinity + 5,
                                     uint64_t{kSign} - 1, infinity / 2, infinity - 1}) {
      elements.push_back(of_bits<S>(magnitude));
      elements.push_back(of_bits<S>(magnitude | kSign));
    }
    return elements;
  }
}

template <typename S>
std::vector<S> make_elements(Kind kind, int64_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const std::vector<S> special = special_elements<S>();
  // Integers as sums of many rounds are: far apart, of both signs.
  const double scale = kIsInteger<S> ? 1e6 : 1;
  std::vector<S> elements;
  for (int64_t i = 0; i < count; ++i) {
    const double x = scale * normal(random);
    const uint64_t bits = random();
    switch (kind) {
      case Kind::kAnyBits:
        elements.push_back(of_bits<S>(bits));
        break;
      case Kind::kNormal:
        elements.push_back(static_cast<S>(static_cast<compute_t<S>>(x)));
        break;
      case Kind::kRelu:
        elements.push_back(static_cast<S>(static_cast<compute_t<S>>(std::max(0.0, x))));
        break;
      case Kind::kTwoValues:
        elements.push_back(static_cast<S>(bits % 4 == 0 ? 1 : -1));
        break;
      case Kind::kConstant:
        elements.push_back(static_cast<S>(-3));
        break;
      case Kind::kAscending:
        elements.push_back(static_cast<S>(static_cast<compute_t<S>>(i / 3)));
        break;
      case Kind::kLowBits:  // alike in all digits but the last
        elements.push_back(of_bits<S>(bits_of(static_cast<S>(2)) + bits % 8));
        break;
      case Kind::kSpecial:
        elements.push_back(special[bits % special.size()]);
        break;
    }
  }
  return elements;
}

// The order as winners.h states it in words, from comparisons of the numbers themselves.
template <typename S>
bool is_larger(S a, S b) {
  if constexpr (kIsInteger<S>) {
    return a > b;
  } else {
    const auto x = static_cast<compute_t<S>>(a);
    const auto y = static_cast<compute_t<S>>(b);
    return std::isnan(x) ? !std::isnan(y) : x > y;
  }
}

struct Winners {
  std::vector<uint64_t> values;  // bits
  std::vector<int64_t> indices;

  bool operator==(const Winners&) const = default;
};

template <typename S>
Winners winners_of(const std::vector<S>& values, const std::vector<int64_t>& indices) {
  Winners winners;
  for (const S value : values) {
    winners.values.push_back(bits_of(value));
  }
  winners.indices = indices;
  return winners;
}

// `rows` rows of n elements at distance row_stride, the first one `shift` elements from an aligned address.
template <typename S>
struct WinnersProblem {
  std::vector<S> memory;
  int64_t rows;
  int64_t n;
  int64_t k;
  int64_t row_stride;
  int64_t shift;

  WinnersProblem(Kind kind, int64_t row_count, int64_t row_elements, int64_t winners, int64_t gap = 0,
                 int64_t first = 0, unsigned seed = 1)
      : rows(row_count), n(row_elements), k(winners), row_stride(row_elements + gap), shift(first) {
    memory = make_elements<S>(kind, std::max<int64_t>(0, shift + (rows - 1) * row_stride + n), seed);
  }

  const S* row(int64_t r) const {
    return memory.data() + shift + r * row_stride;
  }

  WinnersParams params(std::vector<S>& values, std::vector<int64_t>& indices) const {
    values = poisoned<S>(static_cast<size_t>(rows * k));
    indices = poisoned<int64_t>(static_cast<size_t>(rows * k));
    WinnersParams params;
    params.input = memory.data() + shift;
    params.values = values.data();
    params.indices = indices.data();
    params.rows = rows;
    params.n = n;
    params.k = k;
    params.row_stride = row_stride;
    params.element = kElementOf<S>;
    return params;
  }

  // By a stable sort.
  Winners expected(bool sorted = false) const {
    Winners winners;
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t i, int64_t j) { return is_larger(row(r)[i], row(r)[j]); });
      order.resize(static_cast<size_t>(k));
      if (!sorted) {
        std::sort(order.begin(), order.end());
      }
      for (const int64_t i : order) {
        winners.values.push_back(bits_of(row(r)[i]));
        winners.indices.push_back(i);
      }
    }
    return winners;
  }
};

}  // namespace torch_hrr::kernels::assembly_testing
