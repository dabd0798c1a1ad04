// permute: a random permutation of the elements that depends on the seed alone; every device, Meta, derivatives.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>
#include <torch/library.h>

#include <list>
#include <mutex>
#include <numeric>
#include <vector>

#include "csrc/autograd.h"
#include "csrc/dispatch.h"
#include "csrc/hrr/contracts.h"
#include "csrc/hrr/operators.h"
#include "kernels/philox.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;
using c10::SymInt;

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
  c10::Device device;

  bool operator==(const TableKey& other) const = default;
};

Tensor make_table(const TableKey& key) {
  std::vector<int64_t> table = permutation_power(random_permutation(key.dim, key.seed), key.power);
  return at::from_blob(table.data(), {key.dim}, at::kLong)
      .to(key.device, at::kLong, /*non_blocking=*/false, /*copy=*/true);
}

// Tables of short rows are kept: on the CPU the kMaxCpuTables used last, at most 8 MiB each; on a GPU all of them, for
// a captured graph may hold their addresses. The first use on a GPU copies the table there and must not be captured.
Tensor index_table(const TableKey& key) {
  constexpr size_t kMaxCpuTables = 64;
  constexpr int64_t kMaxKeptDim = int64_t{1} << 20;
  if (key.dim > kMaxKeptDim) {
    return make_table(key);
  }
  using Tables = std::list<std::pair<TableKey, Tensor>>;
  // Never freed: a CUDA context may be gone before the statics are.
  static auto& cpu_tables = *new Tables();
  static auto& gpu_tables = *new Tables();
  static std::mutex mutex;
  Tables& tables = key.device.is_cpu() ? cpu_tables : gpu_tables;
  const auto find = [&]() -> Tensor {
    const std::lock_guard<std::mutex> lock(mutex);
    for (auto entry = tables.begin(); entry != tables.end(); ++entry) {
      if (entry->first == key) {
        tables.splice(tables.begin(), tables, entry);
        return entry->second;
      }
    }
    return Tensor();
  };
  if (const Tensor found = find(); found.defined()) {
    return found;
  }
  const Tensor table = make_table(key);
  const std::lock_guard<std::mutex> lock(mutex);
  tables.emplace_front(key, table);
  if (cpu_tables.size() > kMaxCpuTables) {
    cpu_tables.pop_back();
  }
  return table;
}

template <typename Int>
void check(const Tensor& a, int64_t power) {
  check_floating("permute", {{"a", a}});
  check_rank("permute", {"a", a}, 1, "[..., D]");
  check_not_empty_last<Int>("permute", {"a", a});
  TORCH_CHECK_VALUE(power != INT64_MIN, "permute: power must be above -2^63, got ", power);
  check_numel<Int>("permute", sizes_of<Int>(a));
}

Tensor compute(const Tensor& a, int64_t seed, int64_t power) {
  check<int64_t>(a, power);
  if (a.numel() == 0) {
    return at::empty(a.sizes(), a.options());
  }
  const Tensor table = index_table({a.size(-1), seed, power, a.device()});
  return at::index_select(a, -1, table);
}

Tensor compute_meta(const Tensor& a, int64_t, int64_t power) {
  check<SymInt>(a, power);
  return at::empty_symint(a.sym_sizes(), a.options());
}

struct PermuteFormula {
  static constexpr const char* kName = "TorchHrrPermuteBackward";
  static constexpr const char* kOperator = "permute";
  static constexpr const char* kArguments[] = {"a"};
  int64_t seed;
  int64_t power;

  Tensor forward(const Tensor& a) const {
    return torch_hrr::permute(a, seed, power);
  }
  variable_list backward(const std::vector<Tensor>&, const Tensor& grad, const std::vector<bool>&) const {
    return {torch_hrr::permute(grad, seed, -power)};
  }
  Tensor jvp(const std::vector<Tensor>&, const std::vector<Tensor>& tangents) const {
    return torch_hrr::permute(tangents[0], seed, power);
  }
};

template <c10::DeviceType kDevice>
void register_autocast(torch::Library& m) {
  m.impl("permute", [](const Tensor& a, int64_t seed, int64_t power) {
    const Autocast<kDevice> cast;
    return torch_hrr::permute(cast(a), seed, power);
  });
}

}  // namespace
}  // namespace torch_hrr::hrr

using namespace torch_hrr::hrr;

TORCH_LIBRARY_IMPL(torch_hrr, CPU, m) {
  m.impl("permute", compute);
}
#if defined(TORCH_HRR_WITH_CUDA)
TORCH_LIBRARY_IMPL(torch_hrr, CUDA, m) {
  m.impl("permute", compute);
}
#endif
TORCH_LIBRARY_IMPL(torch_hrr, Meta, m) {
  m.impl("permute", compute_meta);
}
TORCH_LIBRARY_IMPL(torch_hrr, Autograd, m) {
  m.impl("permute", [](const Tensor& a, int64_t seed, int64_t power) {
    return torch_hrr::differentiable(PermuteFormula{seed, power}, a);
  });
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCPU, m) {
  register_autocast<c10::DeviceType::CPU>(m);
}
TORCH_LIBRARY_IMPL(torch_hrr, AutocastCUDA, m) {
  register_autocast<c10::DeviceType::CUDA>(m);
}
