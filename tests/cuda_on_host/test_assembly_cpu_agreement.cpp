// The kernels of k_winners against the CPU kernel: the same bits, whatever the elements, lengths and layouts.
#include "tests/cuda_on_host/assembly_testing.h"

#include <array>

#include "kernels/assembly/launch_winners.cuh"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
namespace {

using namespace assembly_testing;

template <typename S>
Winners run_on_cpu(const WinnersProblem<S>& problem, bool sorted) {
  std::vector<S> values;
  std::vector<int64_t> indices;
  WinnersParams params = problem.params(values, indices);
  params.sorted = sorted;
  const RowKernel<WinnersParams>& kernel = kernel_table<RowKernel<WinnersParams>>();
  const auto bytes = static_cast<size_t>(kernel.scratch(params));
  std::vector<unsigned char> scratch(bytes + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(scratch.data());
  kernel.run(params, 0, problem.rows, scratch.data() + (64 - address % 64));
  return winners_of(values, indices);
}

// In the order of the kernels, and with the sort of csrc for `sorted`: by the keys, stable, descending within a row.
template <typename S>
std::array<Winners, 2> run_on_cuda(const WinnersProblem<S>& problem, int64_t chunk) {
  std::vector<S> values;
  std::vector<int64_t> indices;
  const WinnersParams params = problem.params(values, indices);
  const WinnersPlan plan{chunk, (problem.n + chunk - 1) / chunk};
  auto workspace = poisoned<uint64_t>(static_cast<size_t>(WinnersWorkspace<S>::bytes(problem.rows, plan) / 8));
  launch_winners_rows<S>(params, plan, workspace.data(), HostLauncher{}, 64);
  std::vector<int64_t> keys(values.size());
  launch_winner_keys_of<S>(values.data(), static_cast<int64_t>(keys.size()), keys.data(), HostLauncher{});
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  for (int64_t r = 0; r < problem.rows; ++r) {
    std::stable_sort(order.begin() + r * problem.k, order.begin() + (r + 1) * problem.k,
                     [&](size_t i, size_t j) { return keys[i] > keys[j]; });
  }
  Winners sorted;
  for (const size_t i : order) {
    sorted.values.push_back(bits_of(values[i]));
    sorted.indices.push_back(indices[i]);
  }
  return {winners_of(values, indices), sorted};
}

template <typename S>
class AssemblyCpuAgreement : public testing::Test {};
TYPED_TEST_SUITE(AssemblyCpuAgreement, ElementTypes);

TYPED_TEST(AssemblyCpuAgreement, KWinners) {
  using S = TypeParam;
  for (const int64_t n : {1, 2, 16, 17, 65, 500, 2001}) {
    for (const Kind kind : kKinds) {
      for (const int64_t k : {int64_t{0}, int64_t{1}, n / 9, n / 2, n}) {
        const WinnersProblem<S> problem(kind, 2, n, k, 3, 1, static_cast<unsigned>(n + k));
        SCOPED_TRACE(testing::Message() << "n " << n << " k " << k << " kind " << static_cast<int>(kind));
        const std::array<Winners, 2> on_cpu = {run_on_cpu(problem, false), run_on_cpu(problem, true)};
        EXPECT_EQ(run_on_cuda(problem, n), on_cpu);
        EXPECT_EQ(run_on_cuda(problem, n / 3 + 1), on_cpu);
      }
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
