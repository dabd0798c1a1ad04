// project_, _project_part_ and _stimulus_counts_: the rounds of a batch of brains whose state is a list of tensors.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

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
void check_within(const char* op, const char* name, const T* values, int64_t count, int64_t least, int64_t most) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  const auto outside = [=](T value) {
    return !(static_cast<Wide>(value) >= static_cast<Wide>(least) &&
             static_cast<Wide>(value) <= static_cast<Wide>(most));
  };
  bool any = false;
  for (int64_t i = 0; values != nullptr && i < count; ++i) {
    any |= outside(values[i]);
  }
  TORCH_CHECK_INDEX(!any, op, ": ", name, " must be in ", least, "..", most, ", got ",
                    *std::find_if(values, values + count, outside));
}

void check_neurons(const char* op, const char* name, const int64_t* neurons, int64_t count, int64_t first, int64_t n) {
  for (int64_t i = 0; i < count; ++i) {
    TORCH_CHECK_INDEX(neurons[i] >= first && neurons[i] < n && (i == 0 || neurons[i - 1] < neurons[i]), op, ": ", name,
                      " must ascend in ", first, "..n - 1, got ", neurons[i], " of ", n);
  }
}

void check_fiber(const char* op, const Fiber& fiber, const Area& source, const Area& target) {
  const int64_t delivered = *fiber.delivered_count, chunks = *fiber.chunks;
  TORCH_CHECK(delivered <= source.k, op, ": a fiber must have delivered at most k winners, got ", delivered);
  check_neurons(op, "delivered winners", fiber.delivered, delivered, 0, source.n);
  check_within(op, "chunks", &chunks, 1, 0, fiber.chunk_capacity);
  check_within(op, "scale", fiber.scale, target.n, 0, kernels::kFixedOne);
  check_within(op, "sums", fiber.sums, target.n, 0, kernels::kLargestInput + kernels::kLargestTerm);
}

// What rounds use as an index, but for slots of neurons and edges: rounds look at those that they come to. And every
// area has memory for the slots that the rounds left may add.
void check_brain(const char* op, const Brain& brain, int64_t rounds, int64_t most_rounds) {
  TORCH_CHECK(rounds >= 0 && rounds <= most_rounds, op, ": rounds left must be in 0..", most_rounds, ", got ", rounds);
  for (const Area& area : brain.areas) {
    TORCH_CHECK(area.slots[0] >= 0 && area.slots[0] <= area.capacity, op, ": slots must be in 0..", area.capacity,
                ", got ", area.slots[0]);
    const int64_t most = std::min(area.n, area.slots[0] + (rounds + 1) * area.k);
    TORCH_CHECK(area.capacity >= most, op, ": an area must have memory for ", most, " slots, got ", area.capacity);
    const int64_t count = *area.winner_count;
    TORCH_CHECK(count >= 0 && count <= area.k, op, ": an area must have 0 to k winners, got ", count);
    check_neurons(op, "winners", area.winners, count, area.first, area.n);
    check_within(op, "neuron_of", area.neuron_of, area.slots[0], area.first, area.n - 1);
    check_within(op, "neurons that won", area.slots + 1, 1, 0, area.slots[0]);
    check_within(op, "bias", area.bias, area.n, 0, kernels::kLargestBias);
    check_within(op, "last_win", area.last_win, area.n, 0, area.refractory_period);
    check_within(op, "penalties", area.penalties, area.refractory_period, 0, kernels::kLargestBias);
  }
  for (const Fiber& fiber : brain.fibers) {
    check_fiber(op, fiber, brain.areas[static_cast<size_t>(fiber.source)],
                brain.areas[static_cast<size_t>(fiber.target)]);
  }
  for (const Stimulus& stimulus : brain.stimuli) {
    const Area& target = brain.areas[static_cast<size_t>(stimulus.target)];
    // At least as many as its synapses, of which a float may be one more than INT32_MAX.
    check_within(op, "weight", stimulus.weight, target.slots[0], 0, int64_t{1} << 31);
  }
}

constexpr kernels::ParallelFor on_threads = [](int64_t count, int64_t grain, const kernels::RangeBody& body) {
  at::parallel_for(0, count, grain, body);
};

void project_on_cpu(const char* op, const State& state) {
  auto* const progress = state.progress.mutable_data_ptr<int64_t>();
  const int64_t stride = state.progress.size(1);
  std::vector<Brain> brains;
  for (int64_t b = 0; b < state.brains; ++b) {
    brains.push_back(state.first.of_brain(b));
    check_brain(op, brains.back(), progress[b * stride], state.rounds);
  }
  // One brain's columns, or whole brains, are shared among the threads.
  try {
    at::parallel_for(0, state.brains, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        int64_t* const own = progress + b * stride;
        *own -= kernels::run_rounds(brains[static_cast<size_t>(b)], *own, state.brains == 1 ? on_threads : nullptr,
                                    own + 1);
      }
    });
  } catch (const std::out_of_range& error) {
    TORCH_CHECK_INDEX(false, op, ": ", error.what());
  }
}

struct Project : Operator {
  static constexpr const char* kName = "project_";
  static constexpr Operand kOperands[] = {{.name = "state", .trailing = kNotBatched, .written = true}};
  using Signature = void(at::TensorList state, at::IntArrayRef layout, c10::ArrayRef<double> rates, int64_t seed);
  static constexpr Derivative kDerivative = Derivative::kNone;

  static State check(at::TensorList tensors, at::IntArrayRef layout, c10::ArrayRef<double> rates, int64_t seed) {
    return read_state(kName, tensors, layout, rates, seed);
  }
  static void run(const State& state, at::TensorList, at::IntArrayRef, c10::ArrayRef<double>, int64_t) {
#if defined(TORCH_HRR_WITH_CUDA)
    if (state.progress.is_cuda()) {
      return cuda::project(state);
    }
#endif
    project_on_cpu(kName, state);
  }
};

// project_ of one brain in which only the neurons from `first` on of an area are here. Areas into which something fires
// are fixed, or there are no rounds left: then `winners` become those that they would have by themselves in the next
// round, and `inputs` theirs.
struct ProjectPart : Operator {
  static constexpr const char* kName = "_project_part_";
  static constexpr Operand kOperands[] = {{.name = "state", .trailing = kNotBatched, .written = true},
                                          {.name = "winners", .trailing = kNotBatched, .written = true},
                                          {.name = "inputs", .trailing = kNotBatched, .written = true}};
  using Signature = void(at::TensorList state, at::TensorList winners, at::TensorList inputs, at::IntArrayRef layout,
                         c10::ArrayRef<double> rates, at::IntArrayRef first, int64_t seed);
  static constexpr Derivative kDerivative = Derivative::kNone;

  static State check(at::TensorList tensors, at::TensorList winners, at::TensorList inputs, at::IntArrayRef layout,
                     c10::ArrayRef<double> rates, at::IntArrayRef first, int64_t seed) {
    State state = read_state(kName, tensors, layout, rates, seed);
    std::vector<Area>& areas = state.first.areas;
    TORCH_CHECK(state.brains == 1, kName, ": there must be one brain, got ", state.brains);
    TORCH_CHECK(winners.size() == areas.size() && inputs.size() == areas.size() && first.size() == areas.size(), kName,
                ": winners, inputs and first must be of ", areas.size(), " areas, got ", winners.size(), ", ",
                inputs.size(), " and ", first.size());
    for (size_t a = 0; a < areas.size(); ++a) {
      TORCH_CHECK(!areas[a].keyed_ties && areas[a].bias == nullptr && areas[a].last_win == nullptr, kName,
                  ": an area must have no biases, periods or keyed ties");
      TORCH_CHECK(first[a] >= 0 && first[a] <= areas[a].n - areas[a].k, kName, ": first must be in 0..",
                  areas[a].n - areas[a].k, ", got ", first[a]);
      areas[a].first = first[a];
      for (const Tensor& found : {winners[a], inputs[a]}) {
        TORCH_CHECK(found.defined() && found.layout() == at::kStrided && found.scalar_type() == at::kLong &&
                        found.dim() == 1 && found.is_contiguous() && found.size(0) == areas[a].k &&
                        found.device() == state.progress.device(),
                    kName, ": winners and inputs must be contiguous int64 tensors [k]");
      }
    }
    const auto keeps = [&](const auto& source) { return areas[static_cast<size_t>(source.target)].fixed; };
    TORCH_CHECK(state.rounds == 0 || (std::all_of(state.first.fibers.begin(), state.first.fibers.end(), keeps) &&
                                      std::all_of(state.first.stimuli.begin(), state.first.stimuli.end(), keeps)),
                kName, ": areas must be fixed in rounds");
    for (const Fiber& fiber : state.first.fibers) {
      TORCH_CHECK(fiber.scale == nullptr, kName, ": a fiber must have no scales");
    }
    check_apart(kName, {tensors, winners, inputs});
    return state;
  }
  static void run(const State& state, at::TensorList, at::TensorList winners, at::TensorList inputs, at::IntArrayRef,
                  c10::ArrayRef<double>, at::IntArrayRef, int64_t) {
    TORCH_CHECK(state.progress.is_cpu(), kName, ": state must be on the CPU, got ", state.progress.device());
    if (state.rounds > 0) {
      return project_on_cpu(kName, state);
    }
    Brain brain = state.first.of_brain(0);
    check_brain(kName, brain, 0, 0);
    const auto tell = [&](int32_t area, const std::vector<int64_t>& neurons, const std::vector<int64_t>& sums) {
      const auto a = static_cast<size_t>(area);
      std::copy(neurons.begin(), neurons.end(), winners[a].mutable_data_ptr<int64_t>());
      std::copy(sums.begin(), sums.end(), inputs[a].mutable_data_ptr<int64_t>());
    };
    try {
      kernels::choose_winners(brain, on_threads, tell);
    } catch (const std::out_of_range& error) {
      TORCH_CHECK_INDEX(false, kName, ": ", error.what());
    }
  }
};

struct Binomial {
  std::vector<uint64_t> thresholds;
  kernels::BinomialTable table;
};

struct StimulusCounts : Operator {
  static constexpr const char* kName = "_stimulus_counts_";
  static constexpr Operand kOperands[] = {{.name = "counts", .trailing = kNotBatched, .written = true}};
  using Signature = void(Tensor& counts, int64_t size, double p, int64_t seed, int64_t fiber, int64_t first);
  static constexpr Derivative kDerivative = Derivative::kNone;

  static Binomial check(const Tensor& counts, int64_t size, double p, int64_t, int64_t, int64_t first) {
    TORCH_CHECK_VALUE(p >= 0 && p <= 1, "_stimulus_counts_: p must be in [0, 1], got ", p);
    TORCH_CHECK_VALUE(size >= 0 && size < INT32_MAX, "_stimulus_counts_: size must be in 0..2^31 - 2, got ", size);
    TORCH_CHECK(counts.defined() && counts.scalar_type() == at::kInt && counts.dim() == 2 && counts.is_contiguous(),
                "_stimulus_counts_: counts must be a contiguous int32 tensor [brains, n]");
    TORCH_CHECK_VALUE(first >= 0 && first <= INT32_MAX - counts.size(1),
                      "_stimulus_counts_: first must be in 0..2^31 - 1 less the ", counts.size(1), " counts, got ",
                      first);
    Binomial binomial;
    binomial.thresholds.resize(static_cast<size_t>(kernels::binomial_capacity(size, p)));
    kernels::make_binomial_table(size, p, binomial.thresholds.data(), binomial.table);
    return binomial;
  }
  static void run(const Binomial& binomial, const Tensor& counts, int64_t, double, int64_t seed, int64_t fiber,
                  int64_t first) {
    if (counts.numel() == 0) {
      return;
    }
#if defined(TORCH_HRR_WITH_CUDA)
    if (counts.is_cuda()) {
      const Tensor all = first == 0 ? counts : at::empty({counts.size(0), first + counts.size(1)}, counts.options());
      cuda::stimulus_counts(binomial.table, binomial.thresholds, seed, fiber, all);
      if (first != 0) {
        counts.copy_(all.narrow(1, first, counts.size(1)));
      }
      return;
    }
#endif
    const int64_t n = counts.size(1);
    for (int64_t b = 0; b < counts.size(0); ++b) {
      const uint64_t key =
          kernels::connectome_key(static_cast<uint64_t>(seed), static_cast<uint64_t>(b), static_cast<uint64_t>(fiber));
      auto* const own = counts.mutable_data_ptr<int32_t>() + b * n - first;
      constexpr int64_t kGrain = 32768;
      at::parallel_for(first, first + n, kGrain, [&](int64_t begin, int64_t end) {
        kernels::kernel_table<kernels::ConnectomeKernels>().stimulus_counts(binomial.table, key, begin, end, own);
      });
    }
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<Project, ProjectPart, StimulusCounts>(m);
}

}  // namespace
}  // namespace torch_hrr::assembly

namespace torch_hrr {

void project_(at::TensorList state, at::IntArrayRef layout, at::ArrayRef<double> rates, int64_t seed) {
  call<assembly::Project>(state, layout, rates, seed);
}

}  // namespace torch_hrr
