// permute: a random permutation of the elements that depends on the seed alone.
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include <compare>
#include <numeric>
#include <vector>

#include "csrc/cache.h"
#include "csrc/execute.h"
#include "csrc/hrr/contracts.h"
#include "csrc/hrr/operators.h"
#include "csrc/operator.h"
#include "csrc/rows.h"
#include "kernels/hrr/gathered_rows.h"
#include "kernels/philox.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;

// Fisher and Yates: for i = D-1 .. 1 exchange i and floor((i + 1) r_i / 2^64), r_i the first two words of Philox block
// i of stream kPermutationStream under the key `seed` (modulo 2^64).
constexpr uint64_t kPermutationStream = 0x7065726d;

std::vector<int64_t> random_permutation(int64_t dim, int64_t seed) {
  std::vector<int64_t> table(static_cast<size_t>(dim));
  std::iota(table.begin(), table.end(), int64_t{0});
  const kernels::PhiloxKey key = kernels::philox_key(static_cast<uint64_t>(seed));
  for (int64_t i = dim - 1; i > 0; --i) {
    const kernels::PhiloxBlock block =
        kernels::philox4x32(kernels::philox_counter(static_cast<uint64_t>(i), kPermutationStream), key);
    const uint64_t random = kernels::join_words(block.word[0], block.word[1]);
    const auto j = static_cast<size_t>((static_cast<unsigned __int128>(random) * static_cast<uint64_t>(i + 1)) >> 64);
    std::swap(table[static_cast<size_t>(i)], table[j]);
  }
  return table;
}

// The power of a permutation: along a cycle of length n, power mod n steps.
std::vector<int64_t> permutation_power(const std::vector<int64_t>& table, int64_t power) {
  std::vector<int64_t> result(table.size(), -1);
  std::vector<int64_t> cycle;
  for (size_t start = 0; start < table.size(); ++start) {
    if (result[start] >= 0) {
      continue;
    }
    cycle.clear();
    for (auto at = static_cast<int64_t>(start); cycle.empty() || at != cycle.front();
         at = table[static_cast<size_t>(at)]) {
      cycle.push_back(at);
    }
    const auto length = static_cast<int64_t>(cycle.size());
    const int64_t steps = (power % length + length) % length;
    for (int64_t i = 0; i < length; ++i) {
      result[static_cast<size_t>(cycle[static_cast<size_t>(i)])] = cycle[static_cast<size_t>((i + steps) % length)];
    }
  }
  return result;
}

struct TableKey {
  int64_t dim;
  int64_t seed;
  int64_t power;
  int64_t device;  // its index on a GPU, else -1

  auto operator<=>(const TableKey& other) const = default;
};

Tensor make_table(const TableKey& key, c10::Device device, at::ScalarType type) {
  std::vector<int64_t> table = permutation_power(random_permutation(key.dim, key.seed), key.power);
  return at::from_blob(table.data(), {key.dim}, at::kLong).to(device, type, /*non_blocking=*/false, /*copy=*/true);
}

constexpr int64_t kMaxKeptDim = int64_t{1} << 20;

// Whether the kernel of the CPU gathers the rows, whose table is one of int32; at::index_select has others.
bool has_kernel(const Tensor& a) {
  return a.is_cpu() && a.size(-1) <= kMaxKeptDim;
}

// Tables of short rows, at most 8 MiB each, are kept: on the CPU those used last, on GPUs the first that fit into 256
// MiB.
Tensor index_table(const Tensor& a, int64_t seed, int64_t power) {
  constexpr size_t kMaxCpuTables = 64;
  constexpr int64_t kMaxGpuBytes = int64_t{256} << 20;
  static auto& cpu_tables = *new Recent<TableKey, Tensor>(kMaxCpuTables);
  static auto& gpu_tables = *new DeviceTables<TableKey>(kMaxGpuBytes);
  const c10::Device device = a.device();
  const TableKey key{a.size(-1), seed, power, device.is_cpu() ? -1 : int64_t{device.index()}};
  const auto make = [&](const TableKey& made) {
    return make_table(made, device, has_kernel(a) ? at::kInt : at::kLong);
  };
  if (key.dim > kMaxKeptDim) {
    return make(key);
  }
  return device.is_cpu() ? cpu_tables.get(key, make) : gpu_tables.get(key, make);
}

void gather_rows(const Tensor& out, const Tensor& a, const Tensor& table) {
  const Rows<1> rows(a.sizes().slice(0, static_cast<size_t>(a.dim() - 1)), {{{with_unit_rows(a, a.scalar_type()), 1}}});
  kernels::GatheredRowsParams params;
  params.input = rows.data(0);
  params.table = table.const_data_ptr<int32_t>();
  params.out = out.mutable_data_ptr();
  params.dim = a.size(-1);
  params.rows = a.numel() / params.dim;
  params.map = rows.map();
  execute_rows_on_cpu(params, params.rows,
                      kernels::kernel_table<kernels::RowKernel<kernels::GatheredRowsParams>>(storage_of(out)));
}

struct Permute : Operator {
  static constexpr const char* kName = "permute";
  static constexpr Operand kOperands[] = {{"a", 1}};
  using Signature = Tensor(const Tensor& a, int64_t seed, int64_t power);
  static constexpr bool kAutocast = true;
  static constexpr Derivative kDerivative = Derivative::kFormula;

  template <typename Int>
  static ResultContract<Int> contract(const Tensor& a, int64_t /*seed*/, int64_t power) {
    const auto result = row_contract<Int>(kName, {"a", a});
    TORCH_CHECK_VALUE(power != INT64_MIN, "permute: power must be above -2^63, got ", power);
    return result;
  }
  static void run(const ResultContract<int64_t>&, const Tensor& out, const Tensor& a, int64_t seed, int64_t power) {
    if (a.numel() == 0) {
      return;
    }
    const Tensor table = index_table(a, seed, power);
    if (has_kernel(a)) {
      gather_rows(out, a, table);
    } else {
      Tensor result = out;
      at::index_select_out(result, a, -1, table);
    }
  }

  struct Formula : LinearFormula {
    int64_t seed;
    int64_t power;

    Formula(int64_t given_seed, int64_t given_power) : seed(given_seed), power(given_power) {}
    variable_list backward(const Saved&, const Tensor& grad, const Wanted&) const {
      return {call<Permute>(grad, seed, -power)};
    }
    Tensor jvp(const Saved&, const variable_list& tangents) const {
      return call<Permute>(tangents[0], seed, power);
    }
  };
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<Permute>(m);
}

}  // namespace
}  // namespace torch_hrr::hrr

namespace torch_hrr {

at::Tensor permute(const at::Tensor& a, int64_t seed, int64_t power) {
  return call<hrr::Permute>(a, seed, power);
}

}  // namespace torch_hrr
