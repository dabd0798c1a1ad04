// The HRR kernels as the operators launch them.
#include "tests/cuda_on_host/shim.h"

#include <cmath>
#include <vector>

#include "kernels/hrr/launch_product.cuh"
#include "kernels/hrr/launch_spectra.cuh"
#include "kernels/hrr/launch_superposition.cuh"
#include "tests/cuda_on_host/hrr_problems.h"
#include "tests/cuda_on_host/profile/shapes.h"
#include "tests/cuda_on_host/quantized_problem.h"

namespace torch_hrr::cuda_on_host::profile {

namespace {

using namespace torch_hrr::kernels;
using namespace torch_hrr::kernels::hrr_testing;

using LongLengths = Lengths<8, 12>;
using OneLength = Lengths<9, 9>;

template <typename T>
NamedArray twiddles() {
  return {"twiddles", twiddle_table<T>(), Role::kTable};
}

template <typename S, typename Lengths>
void profile_bind(std::vector<Profile>& all, const std::string& type, int64_t rows, int64_t dim, bool normalize) {
  using T = compute_t<S>;
  const Rows<S> a(rows, dim, 1);
  const Rows<S> b(rows, dim, 2);
  auto out = poisoned<S>(a.values.size());
  const BindParams params = planned<S>(binding_params(a, b, out, rows, Product::kConvolution, normalize));
  profile(all, (normalize ? "bind_normalize" : "bind") + type, shape_of(rows, dim),
          {{"a", params.a}, {"b", params.b}, {"out", params.out, Role::kResult}, twiddles<T>()}, [&] {
            launch_product<T, false, Lengths>("bind", kStorage<S>, sum_of_one(params), Product::kConvolution,
                                              HostLauncher{});
          });
}

void profile_bind(std::vector<Profile>& all, int64_t rows, int64_t dim, bool normalize) {
  profile_bind<float, AllLengths>(all, "", rows, dim, normalize);
}

void profile_bind_backward(std::vector<Profile>& all, int64_t rows, int64_t dim, bool normalize) {
  Gradients<float> gradients(rows, dim, 1);
  gradients.normalize = normalize;
  const BindBackwardParams params = planned<float>(gradients.params());
  profile(all, normalize ? "bind_normalize_backward" : "bind_backward", shape_of(rows, dim),
          {{"grad", params.grad},
           {"a", params.a},
           {"b", params.b},
           {"grad_a", params.grad_a, Role::kResult},
           {"grad_b", params.grad_b, Role::kResult},
           twiddles<float>()},
          [&] { launch_product_backward<float, LongLengths>(Storage::kFloat, params, HostLauncher{}); });
}

void profile_bind_superpose(std::vector<Profile>& all, int64_t rows, int64_t items, int64_t dim) {
  Records<float> records(rows, items, dim, 1);
  records.weighted = false;
  auto out = poisoned<float>(static_cast<std::size_t>(rows * dim));
  const BindSuperposeParams params = planned<float>(records.params(out));
  profile(all, "bind_superpose", shape_of(rows, items, dim),
          {{"a", params.a}, {"b", params.b}, {"out", params.out, Role::kResult}, twiddles<float>()}, [&] {
            launch_product<float, true, LongLengths>("bind_superpose", Storage::kFloat, params, Product::kConvolution,
                                                     HostLauncher{});
          });
}

void profile_superpose(std::vector<Profile>& all, int64_t rows, int64_t items, int64_t dim) {
  Superposition<float> superposition(rows, items, dim, 1);
  superposition.weighted = false;
  auto out = poisoned<float>(static_cast<std::size_t>(rows * dim));
  const SuperpositionParams params = superposition.params(out);
  const SuperpositionPlan plan = superposition_plan(items, dim, sizeof(float));
  auto workspace = poisoned<float>(static_cast<std::size_t>(superposition_workspace_elements(plan, rows, dim)));
  profile(all, "superpose", shape_of(rows, items, dim),
          {{"vectors", params.vectors}, {"out", params.out, Role::kResult}},
          [&] { launch_superposition(Storage::kFloat, params, workspace.data(), HostLauncher{}); });
}

// One pass of quantized_cleanup without k_winners: the thresholds are those of the tenth largest bound.
void profile_quantized(std::vector<Profile>& all, int64_t items, int64_t dim, int64_t queries) {
  QuantizedProblem<float> problem(items, dim, queries);
  problem.rows = normal_elements(items * dim, 1);
  problem.queries = normal_elements(queries * dim, 2);
  for (float& element : problem.queries) {
    element /= std::sqrt(static_cast<float>(dim));
  }
  problem.code();
  problem.bound();
  profile(all, "quantize_rows", shape_of(items, dim),
          {{"rows", problem.rows.data()},
           {"codes", problem.codes.data(), Role::kResult},
           {"bounds", problem.bounds.data(), Role::kResult}},
          [&] { problem.code_rows<float>(problem.rows, items, problem.codes, problem.bounds, {}); });
  const std::string shape = shape_of(queries, items, dim);
  const NamedArray matrix{"matrix", problem.matrix.data(), Role::kResult};
  profile(all, "quantized_cleanup bounds", shape, {{"codes", problem.codes.data()}, matrix}, [&] { problem.bound(); });
  problem.choose(10);
  profile(all, "quantized_cleanup cosines", shape, {{"rows", problem.rows.data()}, matrix},
          [&] { problem.compute_left(); });
}

}  // namespace

void profile_hrr(std::vector<Profile>& all) {
  for (const int64_t dim : {16, 32, 64, 128, 256}) {
    profile_bind(all, dim == 16 ? 64 : 16, dim, true);
  }
  profile_bind<double, OneLength>(all, " double", 16, 1024, true);
  profile_bind<BFloat16, AllLengths>(all, " bfloat16", 16, 1024, true);
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
  profile_quantized(all, 256, 1024, 32);
}

}  // namespace torch_hrr::cuda_on_host::profile
