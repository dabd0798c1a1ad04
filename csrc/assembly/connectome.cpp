// connectome_inputs and _connectome_counts_: edges of the procedural graph from winners into all or some targets.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

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

void check_range(const char* op, const char* name, const Tensor& rows) {
  const auto* winners = rows.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < rows.numel(); ++i) {
    TORCH_CHECK_INDEX(winners[i] >= 0 && winners[i] <= kMostNeurons, op, ": ", name,
                      " must be from 0 to 2^31 - 1, got ", winners[i]);
  }
}

// Column blocks of so many rows that a thread takes at a time.
int64_t grain_of(const kernels::GapTables& tables, int64_t rows) {
  constexpr double kEdgesPerChunk = 32768;
  const double edges_per_block = static_cast<double>(rows) * (1 + tables.p * static_cast<double>(tables.width));
  return static_cast<int64_t>(std::max(1.0, kEdgesPerChunk / std::max(1.0, edges_per_block)));
}

// Pieces of work are column blocks of rows, numbered row by row: threads share few rows as well as many.
void deliver_on_cpu(const Tensor& rows, double p, uint64_t key, const Tensor& counts) {
  const int64_t n = counts.size(-1);
  const auto tables = gap_tables(p);
  const int64_t k = rows.size(-1);
  const int64_t width = tables->width;
  const int64_t blocks = kernels::block_count(*tables, n);
  kernels::DeliverParams common;
  common.tables = tables.get();
  common.key = key;
  common.row_count = k;
  common.n = n;
  auto* out = counts.mutable_data_ptr<int32_t>();
  const auto* in = rows.const_data_ptr<int64_t>();
  at::parallel_for(0, counts.numel() / n * blocks, grain_of(*tables, k), [&](int64_t begin, int64_t end) {
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
    check_range(kName, "winners", rows);
    if (counts.numel() != 0) {
      deliver_on_cpu(rows, p, key, counts);
    }
  }
};

// counts[j] += sign for every edge from the rows into column first + j. A block of columns is drawn from its start, so
// that a first column within one costs those before it.
void add_on_cpu(const kernels::DeliverParams& common, int64_t first, int64_t n, int32_t* counts) {
  const int64_t width = common.tables->width;
  const int64_t first_block = first / width;
  at::parallel_for(first_block, kernels::block_count(*common.tables, first + n),
                   grain_of(*common.tables, common.row_count), [&](int64_t begin, int64_t end) {
                     const auto& kernels = kernels::kernel_table<kernels::ConnectomeKernels>();
                     kernels::DeliverParams params = common;
                     params.n = first + n;
                     if (begin == first_block && first % width != 0) {
                       const int64_t last = std::min(params.n, (begin + 1) * width);
                       std::vector<int32_t> whole(static_cast<size_t>(width), 0);
                       params.counts = whole.data() - begin * width;
                       kernels.deliver(params, begin, begin + 1);
                       for (int64_t j = first; j < last; ++j) {
                         // Wraps around, as the kernel does.
                         counts[j - first] =
                             static_cast<int32_t>(static_cast<uint32_t>(counts[j - first]) +
                                                  static_cast<uint32_t>(whole[static_cast<size_t>(j - begin * width)]));
                       }
                       ++begin;
                     }
                     params.counts = counts - first;
                     kernels.deliver(params, begin, end);
                   });
}

struct ConnectomeCounts : Operator {
  static constexpr const char* kName = "_connectome_counts_";
  static constexpr Operand kOperands[] = {{.name = "counts", .trailing = kNotBatched, .written = true},
                                          {.name = "rows", .trailing = kNotBatched}};
  using Signature = void(Tensor& counts, const Tensor& rows, int64_t first, int64_t sign, double p, int64_t seed,
                         int64_t fiber, int64_t brain);
  static constexpr Derivative kDerivative = Derivative::kNone;

  static Tensor check(const Tensor& counts, const Tensor& rows, int64_t first, int64_t sign, double p, int64_t, int64_t,
                      int64_t) {
    TORCH_CHECK_VALUE(p >= 0 && p <= 1, kName, ": p must be in [0, 1], got ", p);
    TORCH_CHECK_VALUE(sign == 1 || sign == -1, kName, ": sign must be 1 or -1, got ", sign);
    TORCH_CHECK(counts.defined() && counts.scalar_type() == at::kInt && counts.dim() == 1 && counts.is_contiguous(),
                kName, ": counts must be a contiguous int32 tensor [n]");
    TORCH_CHECK(rows.defined() && rows.scalar_type() == at::kLong && rows.dim() == 1, kName,
                ": rows must be an int64 tensor [m]");
    check_same_device(kName, {"counts", counts}, {"rows", rows});
    TORCH_CHECK_VALUE(first >= 0 && first <= kMostNeurons - counts.size(0), kName,
                      ": first must be in 0..2^31 - 1 less the ", counts.size(0), " counts, got ", first);
    return rows.contiguous();
  }
  static void run(const Tensor& given, const Tensor& counts, const Tensor&, int64_t first, int64_t sign, double p,
                  int64_t seed, int64_t fiber, int64_t brain) {
    const int64_t n = counts.size(0);
    const uint64_t key = kernels::connectome_key(static_cast<uint64_t>(seed), static_cast<uint64_t>(brain),
                                                 static_cast<uint64_t>(fiber));
#if defined(TORCH_HRR_WITH_CUDA)
    if (counts.is_cuda()) {
      if (n != 0 && given.numel() != 0) {
        const Tensor all = at::empty({first + n}, counts.options());
        cuda::connectome_inputs(given, p, key, all);
        counts.add_(all.narrow(0, first, n), sign);
      }
      return;
    }
#endif
    check_range(kName, "rows", given);
    if (n == 0 || given.numel() == 0) {
      return;
    }
    const auto tables = gap_tables(p);
    kernels::DeliverParams params;
    params.tables = tables.get();
    params.key = key;
    params.rows = given.const_data_ptr<int64_t>();
    params.row_count = given.numel();
    params.sign = static_cast<int32_t>(sign);
    add_on_cpu(params, first, n, counts.mutable_data_ptr<int32_t>());
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<ConnectomeInputs, ConnectomeCounts>(m);
}

}  // namespace
}  // namespace torch_hrr::assembly

namespace torch_hrr {

at::Tensor connectome_inputs(const at::Tensor& winners, int64_t n, double p, int64_t seed, int64_t fiber,
                             int64_t brain) {
  return call<assembly::ConnectomeInputs>(winners, n, p, seed, fiber, brain);
}

}  // namespace torch_hrr
