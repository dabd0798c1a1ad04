// connectome_inputs: edges of the procedural graph from winners into every target; CPU and CUDA, Meta, registration.
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>

#include "csrc/assembly/connectome.h"
#include "csrc/assembly/gap_tables.h"
#include "csrc/checks.h"
#include "csrc/dispatch.h"
#include "kernels/assembly/tables.h"

namespace torch_hrr::assembly {
namespace {

using at::Tensor;
using c10::SymInt;

constexpr int64_t kMostNeurons = (int64_t{1} << 31) - 1;

// Sparse and nested tensors never reach a device's kernel: the Autograd kernel asks this too.
void check_winners(const Tensor& winners) {
  TORCH_CHECK(winners.defined(), "connectome_inputs: winners must be a defined tensor, got an undefined one");
  TORCH_CHECK_TYPE(winners.scalar_type() == at::kLong, "connectome_inputs: winners must be int64, got ",
                   winners.scalar_type());
  check_strided("connectome_inputs", {"winners", winners});
}

// The sizes of the result.
template <typename Int>
Sizes<Int> check(const Tensor& winners, const Int& n, double p) {
  check_winners(winners);
  check_rank("connectome_inputs", {"winners", winners}, 1, "[..., k]");
  TORCH_CHECK_VALUE(holds(at_most(0, n)) && holds(at_most(n, kMostNeurons)),
                    "connectome_inputs: n must be from 0 to 2^31 - 1, got ", n);
  TORCH_CHECK_VALUE(p >= 0 && p <= 1, "connectome_inputs: p must be from 0 to 1, got ", p);
  Sizes<Int> sizes(sizes_of<Int>(winners).begin(), sizes_of<Int>(winners).end());
  TORCH_CHECK(holds(at_most(sizes.back(), kMostNeurons)),
              "connectome_inputs: winners must have a last dimension of at most 2^31 - 1, got ", sizes.back());
  sizes.back() = n;
  check_numel<Int>("connectome_inputs", sizes);
  return sizes;
}

void check_range(const Tensor& rows) {
  const auto* winners = rows.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < rows.numel(); ++i) {
    TORCH_CHECK_INDEX(winners[i] >= 0 && winners[i] <= kMostNeurons,
                      "connectome_inputs: winners must be from 0 to 2^31 - 1, got ", winners[i]);
  }
}

uint64_t key_of(int64_t seed, int64_t fiber, int64_t brain) {
  return kernels::connectome_key(static_cast<uint64_t>(seed), static_cast<uint64_t>(brain),
                                 static_cast<uint64_t>(fiber));
}

// Pieces of work are column blocks of rows, numbered row by row: threads share few rows as well as many.
Tensor compute_cpu(const Tensor& winners, int64_t n, double p, int64_t seed, int64_t fiber, int64_t brain) {
  const Sizes<int64_t> sizes = check<int64_t>(winners, n, p);
  const Tensor rows = winners.contiguous();
  check_range(rows);
  const Tensor counts = at::empty(sizes, winners.options().dtype(at::kInt));
  if (counts.numel() == 0) {
    return counts;
  }
  constexpr double kEdgesPerChunk = 32768;
  const auto tables = gap_tables(p);
  const int64_t k = rows.size(-1);
  const int64_t width = tables->width;
  const int64_t blocks = kernels::block_count(*tables, n);
  const double edges_per_piece = static_cast<double>(k) * (1 + p * static_cast<double>(width));
  const auto grain = static_cast<int64_t>(std::max(1.0, kEdgesPerChunk / std::max(1.0, edges_per_piece)));
  kernels::DeliverParams common;
  common.tables = tables.get();
  common.key = key_of(seed, fiber, brain);
  common.row_count = k;
  common.n = n;
  auto* out = counts.mutable_data_ptr<int32_t>();
  const auto* in = rows.const_data_ptr<int64_t>();
  at::parallel_for(0, counts.numel() / n * blocks, grain, [&](int64_t begin, int64_t end) {
    const auto& kernels = kernels::assembly_kernels();
    while (begin < end) {
      const int64_t row = begin / blocks;
      const int64_t first = begin - row * blocks;
      const int64_t last = std::min(blocks, first + end - begin);
      kernels::DeliverParams params = common;
      params.rows = in + row * k;
      params.counts = out + row * n;
      std::fill(params.counts + first * width, params.counts + std::min(n, last * width), 0);
      kernels.deliver(params, first, last);
      begin += last - first;
    }
  });
  return counts;
}

#if defined(TORCH_HRR_WITH_CUDA)
Tensor compute_cuda(const Tensor& winners, int64_t n, double p, int64_t seed, int64_t fiber, int64_t brain) {
  const Sizes<int64_t> sizes = check<int64_t>(winners, n, p);
  const Tensor counts = at::empty(sizes, winners.options().dtype(at::kInt));
  if (counts.numel() != 0) {
    cuda::connectome_inputs(winners.contiguous(), p, key_of(seed, fiber, brain), counts);
  }
  return counts;
}
#endif

Tensor compute_meta(const Tensor& winners, SymInt n, double p, int64_t, int64_t, int64_t) {
  return at::empty_symint(check<SymInt>(winners, n, p), winners.options().dtype(at::kInt));
}

// Integers have no derivative: below autograd, nothing is recorded.
Tensor compute_autograd(const Tensor& winners, SymInt n, double p, int64_t seed, int64_t fiber, int64_t brain) {
  static const auto op =
      typed_operator<Tensor(const Tensor&, SymInt, double, int64_t, int64_t, int64_t)>("torch_hrr::connectome_inputs");
  check_winners(winners);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return op.call(winners, std::move(n), p, seed, fiber, brain);
}

}  // namespace
}  // namespace torch_hrr::assembly

using namespace torch_hrr::assembly;

TORCH_LIBRARY_IMPL(torch_hrr, CPU, m) {
  m.impl("connectome_inputs", compute_cpu);
}
#if defined(TORCH_HRR_WITH_CUDA)
TORCH_LIBRARY_IMPL(torch_hrr, CUDA, m) {
  m.impl("connectome_inputs", compute_cuda);
}
#endif
TORCH_LIBRARY_IMPL(torch_hrr, Meta, m) {
  m.impl("connectome_inputs", compute_meta);
}
TORCH_LIBRARY_IMPL(torch_hrr, Autograd, m) {
  m.impl("connectome_inputs", compute_autograd);
}
