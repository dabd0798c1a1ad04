// A layer of units that compete: parameters, and the formulas of a sample with products u = W x:
//
//   y = softmax(u / temperature)
//   s_j = y_j for the unit of the largest u, the first of several, and losers y_j for the others
//
// The step dW_j = E[s_j (x - u_j W_j)] is, if it is scaled, divided by the largest |dW| of the layer; the rate of unit
// j is multiplied by | |W_j| - 1 |^power for the weights before the tick. So `losers` -1, `scaled` and a `power` of 1/2
// make the rule of multilayer SoftHebb as it was published. Sums over units are taken as those over a row.
#pragma once

#include "kernels/hierarchy/plastic.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {

// Apart from PlasticParams, whose size decides how many registers the kernels of the other rules take.
struct CompetingParams {
  PlasticParams scan;  // without theta and residual
  double temperature = 1;
  double losers = 1;
  bool scaled = false;
  double power = 0;
  void* workspace = nullptr;  // on a GPU, [learners, workspace_elements()]: the call's

  // Products and shares of a batch, and two numbers of each unit.
  KERNEL_HOST_DEVICE int64_t workspace_elements() const {
    return 2 * (scan.batch + 1) * scan.units;
  }
};
int64_t workspace_bytes(Storage storage, const CompetingParams& params);
void queue(const CudaCall& call, const CompetingParams& params);

// Added, as published, to how far a norm is from 1 before it is raised to a power, and to a step's largest element.
constexpr double kLeastDistance = 1e-10;
constexpr double kLeastStep = 1e-30;

// Of float and of double; rows are learners.
struct CompetingKernels {
  RowKernel<CompetingParams> of_float, of_double;
};

KERNEL_ISA_BEGIN

template <typename T>
struct Competition {
  T temperature, losers, power, rate, share, per_sample, decay;

  explicit KERNEL_HOST_DEVICE Competition(const CompetingParams& p)
      : temperature(static_cast<T>(p.temperature)),
        losers(static_cast<T>(p.losers)),
        power(static_cast<T>(p.power)),
        rate(static_cast<T>(p.scan.rate)),
        share(static_cast<T>(p.scan.rate / static_cast<double>(p.scan.batch))),
        per_sample(static_cast<T>(1 / static_cast<double>(p.scan.batch))),
        decay(static_cast<T>(p.scan.decay)) {}

  // What a softmax makes of u, before the division by the sum.
  template <typename L>
  KERNEL_HOST_DEVICE L excited(L u, L largest) const {
    return exponential((u - largest) / lanes_of<L>(temperature));
  }
  // What the rate of a unit is multiplied by whose weights have this squared norm.
  template <typename L>
  KERNEL_HOST_DEVICE L rate_of(L squares) const {
    const L off = magnitude(square_root(squares) - lanes_of<L>(1)) + lanes_of<L>(static_cast<T>(kLeastDistance));
    return exponential(lanes_of<L>(power) * logarithm(off));
  }
  // What a step is multiplied by whose largest element this is.
  KERNEL_HOST_DEVICE T scale_of(T largest) const {
    return T{1} / (largest + static_cast<T>(kLeastStep));
  }
  // W += gain x, for a sample's share
  template <typename L>
  KERNEL_HOST_DEVICE L gain(L of_rate, T scale, L s) const {
    return lanes_of<L>(share) * (of_rate * lanes_of<L>(scale)) * s;
  }
  // W -= loss W, of the mean of s u
  template <typename L>
  KERNEL_HOST_DEVICE L loss(L of_rate, T scale, L mean) const {
    return lanes_of<L>(rate) * of_rate * fused_multiply_add(mean, lanes_of<L>(scale), lanes_of<L>(decay));
  }
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
