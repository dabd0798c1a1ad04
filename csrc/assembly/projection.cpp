// project_ and _stimulus_counts_: the rounds of a batch of brains whose state is a list of tensors.
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "csrc/assembly/state.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/operator.h"
#include "kernels/assembly/connectome.h"
#include "kernels/registry.h"

namespace torch_hrr::assembly {
namespace {

using at::Tensor;

// Winners are neurons, and every area has memory for the slots that the rounds left may add.
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
    for (int64_t i = 0; i < count; ++i) {
      TORCH_CHECK_INDEX(
          area.winners[i] >= 0 && area.winners[i] < area.n && (i == 0 || area.winners[i - 1] < area.winners[i]),
          "project_: winners must ascend in 0..n - 1, got ", area.winners[i], " of ", area.n);
    }
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
  at::parallel_for(0, state.brains, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      int64_t* const own = progress + b * stride;
      *own -=
          kernels::run_rounds(brains[static_cast<size_t>(b)], *own, state.brains == 1 ? parallel : nullptr, own + 1);
    }
  });
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
