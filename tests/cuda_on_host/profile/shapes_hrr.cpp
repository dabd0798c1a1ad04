// The HRR kernels as the operators launch them.
#include "tests/cuda_on_host/shim.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/hrr/launch_product.cuh"
#include "kernels/hrr/launch_spectra.cuh"
#include "kernels/hrr/launch_superposition.cuh"
#include "kernels/hrr/quantized_rows.cuh"
#include "tests/cuda_on_host/hrr_problems.h"
#include "tests/cuda_on_host/profile/shapes.h"

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
  const BindParams params = binding_params(a, b, out, rows, Product::kConvolution, normalize);
  profile(all, (normalize ? "bind_normalize" : "bind") + type, shape_of(rows, dim),
          {{"a", params.a}, {"b", params.b}, {"out", params.out, Role::kResult}, twiddles<T>()}, [&] {
            launch_product<false, Lengths>("bind", kStorage<S>, sum_of_one(params), Product::kConvolution,
                                           twiddle_table<T>(), HostLauncher{});
          });
}

void profile_bind(std::vector<Profile>& all, int64_t rows, int64_t dim, bool normalize) {
  profile_bind<float, AllLengths>(all, "", rows, dim, normalize);
}

void profile_bind_backward(std::vector<Profile>& all, int64_t rows, int64_t dim, bool normalize) {
  Gradients<float> gradients(rows, dim, 1);
  gradients.normalize = normalize;
  const BindBackwardParams params = gradients.params();
  profile(all, normalize ? "bind_normalize_backward" : "bind_backward", shape_of(rows, dim),
          {{"grad", params.grad},
           {"a", params.a},
           {"b", params.b},
           {"grad_a", params.grad_a, Role::kResult},
           {"grad_b", params.grad_b, Role::kResult},
           twiddles<float>()},
          [&] {
            launch_product_backward<LongLengths>("bind_backward", Storage::kFloat, params, twiddle_table<float>(),
                                                 HostLauncher{});
          });
}

void profile_bind_superpose(std::vector<Profile>& all, int64_t rows, int64_t items, int64_t dim) {
  Records<float> records(rows, items, dim, 1);
  records.weighted = false;
  auto out = poisoned<float>(static_cast<std::size_t>(rows * dim));
  const BindSuperposeParams params = records.params(out);
  profile(all, "bind_superpose", shape_of(rows, items, dim),
          {{"a", params.a}, {"b", params.b}, {"out", params.out, Role::kResult}, twiddles<float>()}, [&] {
            launch_product<true, LongLengths>("bind_superpose", Storage::kFloat, params, Product::kConvolution,
                                              twiddle_table<float>(), HostLauncher{});
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
  const std::vector<float> rows = normal_elements(items * dim, 1);
  const std::vector<float> units = [&] {
    std::vector<float> values = normal_elements(queries * dim, 2);
    for (float& value : values) {
      value /= std::sqrt(static_cast<float>(dim));
    }
    return values;
  }();
  std::vector<int8_t> codes(rows.size());
  std::vector<int8_t> query_codes(units.size());
  auto bounds = poisoned<float>(static_cast<std::size_t>(2 * items));
  auto query_bounds = poisoned<float>(static_cast<std::size_t>(2 * queries));
  const auto quantize = [&](const std::vector<float>& values, int64_t count, std::vector<int8_t>& own,
                            std::vector<float>& limits) {
    QuantizeParams params;
    params.input = values.data();
    params.codes = own.data();
    params.bounds = limits.data();
    params.rows = count;
    params.dim = dim;
    params.map.ndim = 1;
    params.map.sizes[0] = count;
    params.map.strides[0][0] = dim;
    launch_quantize_rows_with(params, HostLauncher{});
  };
  profile(all, "quantize_rows", shape_of(items, dim),
          {{"rows", rows.data()}, {"codes", codes.data(), Role::kResult}, {"bounds", bounds.data(), Role::kResult}},
          [&] { quantize(rows, items, codes, bounds); });
  quantize(rows, items, codes, bounds);
  quantize(units, queries, query_codes, query_bounds);
  std::vector<float> matrix(static_cast<std::size_t>(queries * items), static_cast<float>(kExcluded));
  std::vector<float> thresholds(static_cast<std::size_t>(queries));
  DeviceCleanupParams params;
  params.rows = rows.data();
  params.codes = codes.data();
  params.bounds = bounds.data();
  params.queries = units.data();
  params.query_codes = query_codes.data();
  params.query_bounds = query_bounds.data();
  params.thresholds = thresholds.data();
  params.matrix = matrix.data();
  params.row_stride = dim;
  params.items = items;
  params.dim = dim;
  params.count = queries;
  const std::string shape = shape_of(queries, items, dim);
  profile(all, "quantized_cleanup bounds", shape, {{"codes", codes.data()}, {"matrix", matrix.data(), Role::kResult}},
          [&] { launch_code_bounds_with(params, HostLauncher{}); });
  launch_code_bounds_with(params, HostLauncher{});
  for (int64_t j = 0; j < queries; ++j) {
    std::vector<float> row(matrix.begin() + j * items, matrix.begin() + (j + 1) * items);
    std::nth_element(row.begin(), row.begin() + 9, row.end(), std::greater<float>());
    thresholds[static_cast<std::size_t>(j)] = row[9];
  }
  profile(all, "quantized_cleanup cosines", shape, {{"rows", rows.data()}, {"matrix", matrix.data(), Role::kResult}},
          [&] { launch_left_cosines_with(params, HostLauncher{}); });
}

}  // namespace

void profile_hrr(std::vector<Profile>& all) {
  for (const int64_t dim : {16, 32, 64, 128, 256}) {
    profile_bind(all, dim == 16 ? 64 : 16, dim, true);
  }
  profile_bind<double, OneLength>(all, " double", 16, 1024, true);
  profile_bind<BFloat16, AllLengths>(all, " bfloat16", 16, 1024, true);
  profile_bind_backward(all, 64, 16, true);
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
