// connectome_inputs: edges of the procedural graph from winners into every target.
#include <ATen/Parallel.h>

#include <algorithm>

#include "csrc/assembly/gap_tables.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/operator.h"
#include "kernels/assembly/connectome.h"
#include "kernels/registry.h"

namespace torch_hrr::assembly {
namespace {

using at::Tensor;
using c10::SymInt;

constexpr int64_t kMostNeurons = (int64_t{1} << 31) - 1;

void check_range(const Tensor& rows) {
  const auto* winners = rows.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < rows.numel(); ++i) {
    TORCH_CHECK_INDEX(winners[i] >= 0 && winners[i] <= kMostNeurons,
                      "connectome_inputs: winners must be from 0 to 2^31 - 1, got ", winners[i]);
  }
}

// Pieces of work are column blocks of rows, numbered row by row: threads share few rows as well as many.
void deliver_on_cpu(const Tensor& rows, double p, uint64_t key, const Tensor& counts) {
  const int64_t n = counts.size(-1);
  constexpr double kEdgesPerChunk = 32768;
  const auto tables = gap_tables(p);
  const int64_t k = rows.size(-1);
  const int64_t width = tables->width;
  const int64_t blocks = kernels::block_count(*tables, n);
  const double edges_per_piece = static_cast<double>(k) * (1 + p * static_cast<double>(width));
  const auto grain = static_cast<int64_t>(std::max(1.0, kEdgesPerChunk / std::max(1.0, edges_per_piece)));
  kernels::DeliverParams common;
  common.tables = tables.get();
  common.key = key;
  common.row_count = k;
  common.n = n;
  auto* out = counts.mutable_data_ptr<int32_t>();
  const auto* in = rows.const_data_ptr<int64_t>();
  at::parallel_for(0, counts.numel() / n * blocks, grain, [&](int64_t begin, int64_t end) {
    const auto& kernels = kernels::kernel_table<kernels::ConnectomeKernels>();
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
}

struct ConnectomeInputs : Operator {
  static constexpr const char* kName = "connectome_inputs";
  static constexpr Operand kOperands[] = {{"winners", 1}};
  using Signature = Tensor(const Tensor& winners, SymInt n, double p, int64_t seed, int64_t fiber, int64_t brain);
  static constexpr Derivative kDerivative = Derivative::kNone;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& winners, const Int& n, double p, int64_t, int64_t, int64_t) {
    TORCH_CHECK_TYPE(winners.defined(), "connectome_inputs: winners must be a defined tensor, got an undefined one");
    check_strided(kName, {"winners", winners});
    TORCH_CHECK_TYPE(winners.scalar_type() == at::kLong, "connectome_inputs: winners must be int64, got ",
                     winners.scalar_type());
    check_rank(kName, {"winners", winners}, 1, "[..., k]");
    TORCH_CHECK_VALUE(holds(at_most(0, n)) && holds(at_most(n, kMostNeurons)),
                      "connectome_inputs: n must be from 0 to 2^31 - 1, got ", n);
    TORCH_CHECK_VALUE(p >= 0 && p <= 1, "connectome_inputs: p must be from 0 to 1, got ", p);
    Sizes<Int> sizes(sizes_of<Int>(winners).begin(), sizes_of<Int>(winners).end());
    TORCH_CHECK_VALUE(holds(at_most(sizes.back(), kMostNeurons)),
                      "connectome_inputs: winners must have a last dimension of at most 2^31 - 1, got ", sizes.back());
    sizes.back() = n;
    check_numel<Int>(kName, sizes);
    return {sizes, at::kInt};
  }

  static void run(const ResultContract<int64_t>&, const Tensor& counts, const Tensor& winners, int64_t /*n*/, double p,
                  int64_t seed, int64_t fiber, int64_t brain) {
    const Tensor rows = winners.contiguous();
    const uint64_t key = kernels::connectome_key(static_cast<uint64_t>(seed), static_cast<uint64_t>(brain),
                                                 static_cast<uint64_t>(fiber));
#if defined(TORCH_HRR_WITH_CUDA)
    if (counts.is_cuda()) {
      if (counts.numel() != 0) {
        cuda::connectome_inputs(rows, p, key, counts);
      }
      return;
    }
#endif
    check_range(rows);
    if (counts.numel() != 0) {
      deliver_on_cpu(rows, p, key, counts);
    }
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<ConnectomeInputs>(m);
}

}  // namespace
}  // namespace torch_hrr::assembly

namespace torch_hrr {

at::Tensor connectome_inputs(const at::Tensor& winners, int64_t n, double p, int64_t seed, int64_t fiber,
                             int64_t brain) {
  return call<assembly::ConnectomeInputs>(winners, n, p, seed, fiber, brain);
}

}  // namespace torch_hrr
