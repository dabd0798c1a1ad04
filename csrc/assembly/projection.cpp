// project_ and _stimulus_counts_: the rounds of a batch of brains whose state is a list of tensors.
#include <ATen/Parallel.h>

#include <algorithm>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "csrc/assembly/state.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/operator.h"
#include "kernels/assembly/connectome.h"
#include "kernels/registry.h"

namespace torch_hrr::assembly {
namespace {

using at::Tensor;

// Of an array that may be absent.
template <typename T>
void check_within(const char* name, const T* values, int64_t count, int64_t least, int64_t most) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  const auto outside = [=](T value) {
    return !(static_cast<Wide>(value) >= static_cast<Wide>(least) &&
             static_cast<Wide>(value) <= static_cast<Wide>(most));
  };
  bool any = false;
  for (int64_t i = 0; values != nullptr && i < count; ++i) {
    any |= outside(values[i]);
  }
  TORCH_CHECK_INDEX(!any, "project_: ", name, " must be in ", least, "..", most, ", got ",
                    *std::find_if(values, values + count, outside));
}

void check_neurons(const char* name, const int64_t* neurons, int64_t count, int64_t n) {
  for (int64_t i = 0; i < count; ++i) {
    TORCH_CHECK_INDEX(neurons[i] >= 0 && neurons[i] < n && (i == 0 || neurons[i - 1] < neurons[i]), "project_: ", name,
                      " must ascend in 0..n - 1, got ", neurons[i], " of ", n);
  }
}

void check_fiber(const Fiber& fiber, const Area& source, const Area& target) {
  const int64_t delivered = *fiber.delivered_count, chunks = *fiber.chunks;
  TORCH_CHECK(delivered <= source.k, "project_: a fiber must have delivered at most k winners, got ", delivered);
  check_neurons("delivered winners", fiber.delivered, delivered, source.n);
  check_within("chunks", &chunks, 1, 0, fiber.chunk_capacity);
  check_within("scale", fiber.scale, target.n, 0, kernels::kFixedOne);
  check_within("sums", fiber.sums, target.n, 0, kernels::kLargestInput + kernels::kLargestTerm);
}

// What rounds use as an index, but for slots of neurons and edges: rounds look at those that they come to. And every
// area has memory for the slots that the rounds left may add.
void check_brain(const Brain& brain, int64_t rounds, int64_t most_rounds) {
  TORCH_CHECK(rounds >= 0 && rounds <= most_rounds, "project_: rounds left must be in 0..", most_rounds, ", got ",
              rounds);
  for (const Area& area : brain.areas) {
    TORCH_CHECK(area.slots[0] >= 0 && area.slots[0] <= area.capacity, "project_: slots must be in 0..", area.capacity,
                ", got ", area.slots[0]);
    const int64_t most = std::min(area.n, area.slots[0] + (rounds + 1) * area.k);
    TORCH_CHECK(area.capacity >= most, "project_: an area must have memory for ", most, " slots, got ", area.capacity);
    const int64_t count = *area.winner_count;
    TORCH_CHECK(count >= 0 && count <= area.k, "project_: an area must have 0 to k winners, got ", count);
    check_neurons("winners", area.winners, count, area.n);
    check_within("neuron_of", area.neuron_of, area.slots[0], 0, area.n - 1);
    check_within("neurons that won", area.slots + 1, 1, 0, area.slots[0]);
    check_within("bias", area.bias, area.n, 0, kernels::kLargestBias);
    check_within("last_win", area.last_win, area.n, 0, area.refractory_period);
    check_within("penalties", area.penalties, area.refractory_period, 0, kernels::kLargestBias);
  }
  for (const Fiber& fiber : brain.fibers) {
    check_fiber(fiber, brain.areas[static_cast<size_t>(fiber.source)], brain.areas[static_cast<size_t>(fiber.target)]);
  }
  for (const Stimulus& stimulus : brain.stimuli) {
    const Area& target = brain.areas[static_cast<size_t>(stimulus.target)];
    // At least as many as its synapses, of which a float may be one more than INT32_MAX.
    check_within("weight", stimulus.weight, target.slots[0], 0, int64_t{1} << 31);
  }
}

void project_on_cpu(const State& state) {
  auto* const progress = state.progress.mutable_data_ptr<int64_t>();
  const int64_t stride = state.progress.size(1);
  std::vector<Brain> brains;
  for (int64_t b = 0; b < state.brains; ++b) {
    brains.push_back(state.first.of_brain(b));
    check_brain(brains.back(), progress[b * stride], state.rounds);
  }
  // One brain's columns, or whole brains, are shared among the threads.
  const kernels::ParallelFor parallel = [](int64_t count, int64_t grain, const kernels::RangeBody& body) {
    at::parallel_for(0, count, grain, body);
  };
  try {
    at::parallel_for(0, state.brains, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        int64_t* const own = progress + b * stride;
        *own -=
            kernels::run_rounds(brains[static_cast<size_t>(b)], *own, state.brains == 1 ? parallel : nullptr, own + 1);
      }
    });
  } catch (const std::out_of_range& error) {
    TORCH_CHECK_INDEX(false, "project_: ", error.what());
  }
}

struct Project : Operator {
  static constexpr const char* kName = "project_";
  static constexpr Operand kOperands[] = {{.name = "state", .trailing = kNotBatched, .written = true}};
  using Signature = void(at::TensorList state, at::IntArrayRef layout, c10::ArrayRef<double> rates, int64_t seed);
  static constexpr Derivative kDerivative = Derivative::kNone;

  static State check(at::TensorList tensors, at::IntArrayRef layout, c10::ArrayRef<double> rates, int64_t seed) {
    return read_state(tensors, layout, rates, seed);
  }
  static void run(const State& state, at::TensorList, at::IntArrayRef, c10::ArrayRef<double>, int64_t) {
#if defined(TORCH_HRR_WITH_CUDA)
    if (state.progress.is_cuda()) {
      return cuda::project(state);
    }
#endif
    project_on_cpu(state);
  }
};

struct Binomial {
  std::vector<uint64_t> thresholds;
  kernels::BinomialTable table;
};

struct StimulusCounts : Operator {
  static constexpr const char* kName = "_stimulus_counts_";
  static constexpr Operand kOperands[] = {{.name = "counts", .trailing = kNotBatched, .written = true}};
  using Signature = void(Tensor& counts, int64_t size, double p, int64_t seed, int64_t fiber);
  static constexpr Derivative kDerivative = Derivative::kNone;

  static Binomial check(const Tensor& counts, int64_t size, double p, int64_t, int64_t) {
    TORCH_CHECK_VALUE(p >= 0 && p <= 1, "_stimulus_counts_: p must be in [0, 1], got ", p);
    TORCH_CHECK_VALUE(size >= 0 && size < INT32_MAX, "_stimulus_counts_: size must be in 0..2^31 - 2, got ", size);
    TORCH_CHECK(counts.defined() && counts.scalar_type() == at::kInt && counts.dim() == 2 && counts.is_contiguous(),
                "_stimulus_counts_: counts must be a contiguous int32 tensor [brains, n]");
    Binomial binomial;
    binomial.thresholds.resize(static_cast<size_t>(kernels::binomial_capacity(size, p)));
    kernels::make_binomial_table(size, p, binomial.thresholds.data(), binomial.table);
    return binomial;
  }
  static void run(const Binomial& binomial, const Tensor& counts, int64_t, double, int64_t seed, int64_t fiber) {
    if (counts.numel() == 0) {
      return;
    }
#if defined(TORCH_HRR_WITH_CUDA)
    if (counts.is_cuda()) {
      return cuda::stimulus_counts(binomial.table, binomial.thresholds, seed, fiber, counts);
    }
#endif
    const int64_t n = counts.size(1);
    for (int64_t b = 0; b < counts.size(0); ++b) {
      const uint64_t key =
          kernels::connectome_key(static_cast<uint64_t>(seed), static_cast<uint64_t>(b), static_cast<uint64_t>(fiber));
      auto* const own = counts.mutable_data_ptr<int32_t>() + b * n;
      constexpr int64_t kGrain = 32768;
      at::parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) {
        kernels::kernel_table<kernels::ConnectomeKernels>().stimulus_counts(binomial.table, key, begin, end, own);
      });
    }
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<Project, StimulusCounts>(m);
}

}  // namespace
}  // namespace torch_hrr::assembly

namespace torch_hrr {

void project_(at::TensorList state, at::IntArrayRef layout, at::ArrayRef<double> rates, int64_t seed) {
  call<assembly::Project>(state, layout, rates, seed);
}

}  // namespace torch_hrr
