// Each HRR kernel launched by itself: blocks of several shapes and grids with blocks to spare give the same bits.
#include "tests/cuda_on_host/hrr_problems.h"

#include "kernels/hrr/launch_product.cuh"
#include "kernels/hrr/launch_superposition.cuh"

namespace torch_hrr::kernels {
namespace {

using namespace hrr_testing;

constexpr unsigned kSpareBlocks[] = {0, 2};
// The orders of threads are varied where kernels are compared with their formulas.
constexpr Schedule kSchedule{Schedule::Order::kShuffled, 1};

// Blocks of the transform of 2^kLog2 points that hold whole rows, up to the kernel's launch bounds.
template <int kLog2>
std::vector<dim3> row_blocks() {
  constexpr unsigned kThreads = RowFft<float, kLog2>::kThreads;
  if (kThreads < 32) {
    return {dim3(32), dim3(kThreads, 64 / kThreads), dim3(kThreads, 2, 48 / kThreads), dim3(128)};
  }
  if (kThreads < kBlockThreads<kLog2>) {
    return {dim3(kThreads), dim3(kThreads / 4, 8), dim3(kBlockThreads<kLog2>)};
  }
  return {dim3(kThreads), dim3(kThreads / 8, 8), dim3(kThreads / 8, 2, 4)};
}

template <int kLog2>
void check_product_kernel(int64_t dim) {
  using Fft = RowFft<float, kLog2>;
  const int64_t rows = 9;
  Records<float> pairs(rows, 1, dim, 3);
  Records<float> records(rows, 3, dim, 4);
  pairs.weighted = false;
  const std::vector<float> bound_rows = bound(pairs.a, pairs.b, Product::kCorrelation);
  const std::vector<float> bind_superpose_rows = records.run();
  for (const dim3 block : row_blocks<kLog2>()) {
    const int threads = static_cast<int>(block.x * block.y * block.z);
    const unsigned blocks = grid_for(rows, threads / Fft::kThreads).x;
    for (const unsigned spare : kSpareBlocks) {
      auto out = poisoned<float>(static_cast<size_t>(rows * dim));
      host_launch("product_kernel", product_kernel<float, kLog2, false>, dim3(blocks + spare), block,
                  Fft::shared_bytes(threads), kSchedule, pairs.params(out), Product::kCorrelation, Storage::kFloat,
                  twiddle_table<float>());
      EXPECT_EQ(out, bound_rows) << dim << " block " << to_text(block);
      out = poisoned<float>(out.size());
      host_launch("product_kernel", product_kernel<float, kLog2, true>, dim3(blocks + spare), block,
                  Fft::shared_bytes(threads), kSchedule, records.params(out), Product::kConvolution, Storage::kFloat,
                  twiddle_table<float>());
      EXPECT_EQ(out, bind_superpose_rows) << dim << " block " << to_text(block);
    }
  }
}

TEST(Shapes, ProductKernel) {
  check_product_kernel<4>(32);
  check_product_kernel<7>(100);
  check_product_kernel<8>(512);
  check_product_kernel<10>(999);
}

template <int kLog2>
void check_product_backward_kernel(int64_t dim) {
  using Fft = RowFft<float, kLog2>;
  const int64_t rows = 9;
  Gradients<float> gradients(rows, dim, 5);
  gradients.normalize = true;
  gradients.run();
  const std::vector<float> expected_a = gradients.grad_a;
  const std::vector<float> expected_b = gradients.grad_b;
  for (const dim3 block : row_blocks<kLog2>()) {
    const int threads = static_cast<int>(block.x * block.y * block.z);
    const unsigned blocks = grid_for(rows, threads / Fft::kThreads).x;
    for (const unsigned spare : kSpareBlocks) {
      host_launch("product_backward_kernel", product_backward_kernel<float, kLog2>, dim3(blocks + spare), block,
                  Fft::shared_bytes(threads), kSchedule, gradients.params(), Storage::kFloat, twiddle_table<float>());
      EXPECT_EQ(gradients.grad_a, expected_a) << dim << " block " << to_text(block);
      EXPECT_EQ(gradients.grad_b, expected_b) << dim << " block " << to_text(block);
    }
  }
}

TEST(Shapes, ProductBackwardKernel) {
  check_product_backward_kernel<4>(32);
  check_product_backward_kernel<7>(100);
  check_product_backward_kernel<8>(512);
  check_product_backward_kernel<10>(999);
}

// Both kernels take 256 threads in any arrangement; grids below and above the work.
TEST(Shapes, SuperpositionKernels) {
  struct Size {
    int64_t items, dim;
  };
  for (const Size& size : {Size{5, 100}, Size{130, 1030}}) {
    const int64_t rows = 3;
    const Superposition<float> sum(rows, size.items, size.dim, 6);
    const std::vector<float> expected = sum.run();
    const SuperpositionPlan plan = superposition_plan(size.items, size.dim, sizeof(float));
    const std::size_t shared_bytes = superposition_shared_bytes(plan, size.dim, sizeof(float));
    const auto workspace_elements = static_cast<size_t>(superposition_workspace_elements(plan, rows, size.dim));
    for (const dim3 block : {dim3(256), dim3(16, 16), dim3(8, 4, 8)}) {
      for (const dim3 grid : {dim3(1), dim3(2), dim3(40)}) {
        auto workspace = poisoned<float>(workspace_elements);
        auto out = poisoned<float>(expected.size());
        const SuperpositionParams params = sum.params(out);
        if (plan.workspace) {
          host_launch("superpose_chunks_kernel", superpose_chunks_kernel<float, 4>, grid, block, shared_bytes,
                      kSchedule, params, plan, Storage::kFloat, workspace.data());
        }
        host_launch("superpose_kernel", superpose_kernel<float, 4>, grid, block, shared_bytes, kSchedule, params, plan,
                    Storage::kFloat, workspace.data());
        EXPECT_EQ(out, expected) << size.items << " x " << size.dim << " block " << to_text(block);
      }
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
