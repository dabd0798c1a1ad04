// The HRR kernels as the operators launch them.
#include "tests/cuda_on_host/shim.h"

#include "kernels/hrr/launch_product.cuh"
#include "kernels/hrr/launch_spectra.cuh"
#include "kernels/hrr/launch_superposition.cuh"
#include "tests/cuda_on_host/hrr_testing.h"
#include "tests/cuda_on_host/profile/shapes.h"

namespace torch_hrr::cuda_on_host::profile {

namespace {

using namespace torch_hrr::kernels;
using hrr_testing::contiguous_rows;
using hrr_testing::twiddle_table;

using LongLengths = Lengths<8, 12>;

std::string shape_of(int64_t rows, int64_t dim) {
  return std::to_string(rows) + "x" + std::to_string(dim);
}

void profile_bind(std::vector<Profile>& all, int64_t rows, int64_t dim, bool normalize) {
  const std::vector<float> a = normal_elements(rows * dim, 1);
  const std::vector<float> b = normal_elements(rows * dim, 2);
  auto out = poisoned<float>(a.size());
  BindParams params;
  params.a = a.data();
  params.b = b.data();
  params.out = out.data();
  params.rows = rows;
  params.dim = dim;
  params.map = contiguous_rows(rows, dim);
  params.normalize = normalize;
  params.eps = 1e-12;
  profile(
      all, normalize ? "bind_normalize" : "bind", shape_of(rows, dim),
      [&](Recorder& recorder) {
        recorder.name("a", a.data(), Role::kArgument);
        recorder.name("b", b.data(), Role::kArgument);
        recorder.name("out", out.data(), Role::kResult);
        recorder.name("twiddles", twiddle_table<float>(), Role::kTable);
      },
      [&] {
        launch_product<false, AllLengths>("bind", Storage::kFloat, sum_of_one(params), Product::kConvolution,
                                          twiddle_table<float>(), HostLauncher{});
      });
}

void profile_bind_backward(std::vector<Profile>& all, int64_t rows, int64_t dim, bool normalize) {
  const std::vector<float> grad = normal_elements(rows * dim, 1);
  const std::vector<float> a = normal_elements(rows * dim, 2);
  const std::vector<float> b = normal_elements(rows * dim, 3);
  auto grad_a = poisoned<float>(a.size());
  auto grad_b = poisoned<float>(a.size());
  BindBackwardParams params;
  params.grad = grad.data();
  params.a = a.data();
  params.b = b.data();
  params.grad_a = grad_a.data();
  params.grad_b = grad_b.data();
  params.rows = rows;
  params.dim = dim;
  params.map = contiguous_rows(rows, dim);
  params.normalize = normalize;
  params.eps = 1e-12;
  profile(
      all, normalize ? "bind_normalize_backward" : "bind_backward", shape_of(rows, dim),
      [&](Recorder& recorder) {
        recorder.name("grad", grad.data(), Role::kArgument);
        recorder.name("a", a.data(), Role::kArgument);
        recorder.name("b", b.data(), Role::kArgument);
        recorder.name("grad_a", grad_a.data(), Role::kResult);
        recorder.name("grad_b", grad_b.data(), Role::kResult);
        recorder.name("twiddles", twiddle_table<float>(), Role::kTable);
      },
      [&] {
        launch_product_backward<LongLengths>("bind_backward", Storage::kFloat, params, twiddle_table<float>(),
                                             HostLauncher{});
      });
}

void profile_bind_superpose(std::vector<Profile>& all, int64_t rows, int64_t items, int64_t dim) {
  const std::vector<float> a = normal_elements(rows * items * dim, 1);
  const std::vector<float> b = normal_elements(rows * items * dim, 2);
  auto out = poisoned<float>(static_cast<std::size_t>(rows * dim));
  BindSuperposeParams params;
  params.a = a.data();
  params.b = b.data();
  params.out = out.data();
  params.rows = rows;
  params.items = items;
  params.dim = dim;
  params.map = contiguous_rows(rows, items * dim);
  params.item_stride_a = dim;
  params.item_stride_b = dim;
  profile(
      all, "bind_superpose", std::to_string(rows) + "x" + shape_of(items, dim),
      [&](Recorder& recorder) {
        recorder.name("a", a.data(), Role::kArgument);
        recorder.name("b", b.data(), Role::kArgument);
        recorder.name("out", out.data(), Role::kResult);
        recorder.name("twiddles", twiddle_table<float>(), Role::kTable);
      },
      [&] {
        launch_product<true, LongLengths>("bind_superpose", Storage::kFloat, params, Product::kConvolution,
                                          twiddle_table<float>(), HostLauncher{});
      });
}

void profile_superpose(std::vector<Profile>& all, int64_t rows, int64_t items, int64_t dim) {
  const std::vector<float> vectors = normal_elements(rows * items * dim, 1);
  auto out = poisoned<float>(static_cast<std::size_t>(rows * dim));
  SuperpositionParams params;
  params.vectors = vectors.data();
  params.out = out.data();
  params.rows = rows;
  params.items = items;
  params.dim = dim;
  params.map = contiguous_rows(rows, items * dim);
  params.item_stride_vectors = dim;
  params.normalize = true;
  params.eps = 1e-12;
  const SuperpositionPlan plan = superposition_plan(items, dim, sizeof(float));
  auto workspace = poisoned<float>(static_cast<std::size_t>(superposition_workspace_elements(plan, rows, dim)));
  profile(
      all, "superpose", std::to_string(rows) + "x" + shape_of(items, dim),
      [&](Recorder& recorder) {
        recorder.name("vectors", vectors.data(), Role::kArgument);
        recorder.name("out", out.data(), Role::kResult);
      },
      [&] { launch_superposition(Storage::kFloat, params, workspace.data(), HostLauncher{}); });
}

}  // namespace

void profile_hrr(std::vector<Profile>& all) {
  for (const int64_t dim : {32, 64, 128, 256}) {
    profile_bind(all, 16, dim, true);
  }
  for (const bool normalize : {false, true}) {
    profile_bind(all, 16, 512, normalize);
    profile_bind(all, 64, 1024, normalize);
    profile_bind(all, 16, 1000, normalize);
    profile_bind(all, 16, 4096, normalize);
    profile_bind(all, 4, 8192, normalize);
    profile_bind_backward(all, 16, 1024, normalize);
    profile_bind_backward(all, 4, 8192, normalize);
  }
  profile_bind_superpose(all, 8, 8, 1024);
  profile_superpose(all, 16, 8, 1024);
  profile_superpose(all, 2, 1000, 1024);
}

}  // namespace torch_hrr::cuda_on_host::profile
