// Soft winners from their definition in long double, the threshold by bisection.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/assembly/soft_cap.h"

namespace torch_hrr::kernels {

// F(z)
inline long double distribution(CapShape shape, long double z) {
  if (shape == CapShape::kSigmoid) {
    return 1 / (1 + std::exp(-z));
  }
  return z < 0 ? std::exp(z) / 2 : 1 - std::exp(-z) / 2;
}

// F'(z)
inline long double density(CapShape shape, long double z) {
  const long double decay = std::exp(-std::abs(z));
  return shape == CapShape::kSigmoid ? decay / ((1 + decay) * (1 + decay)) : decay / 2;
}

// (x - t) / tau with t by bisection, until what the k largest lack is what the others have; 0 < k < n. Far elements are
// brought within 5000 of the k-th largest, where a long double still tells them from 0.
inline std::vector<long double> oracle_offsets(const std::vector<double>& x, int64_t k, double tau, CapShape shape) {
  const auto count = static_cast<size_t>(k);
  std::vector<double> sorted = x;
  std::sort(sorted.begin(), sorted.end(), std::greater<double>());
  const auto offset = [&](double element) {
    const long double z = (static_cast<long double>(element) - sorted[count - 1]) / tau;
    return std::clamp(z, -5000.0L, 5000.0L);
  };
  std::vector<long double> descending;
  for (const double element : sorted) {
    descending.push_back(offset(element));
  }
  long double low = descending.back() - 60;
  long double high = descending.front() + 60;
  for (int step = 0; step < 100; ++step) {
    const long double middle = low + (high - low) / 2;
    long double lacking = 0;
    long double present = 0;
    for (size_t i = 0; i < descending.size(); ++i) {
      const long double z = descending[i] - middle;
      (i < count ? lacking : present) += distribution(shape, i < count ? -z : z);
    }
    (present > lacking ? low : high) = middle;
  }
  std::vector<long double> z;
  for (const double element : x) {
    z.push_back(offset(element) - low);
  }
  return z;
}

}  // namespace torch_hrr::kernels
