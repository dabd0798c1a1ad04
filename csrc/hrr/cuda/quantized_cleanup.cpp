// quantized_cleanup on the current CUDA stream.
#include "csrc/hrr/quantized_cleanup.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "csrc/execute.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "kernels/hrr/quantized_launch.h"

namespace torch_hrr::hrr::cuda {

using at::Tensor;

std::tuple<Tensor, Tensor> quantized_cleanup(const kernels::CleanupParams& search, const Tensor& queries,
                                             const Tensor& order) {
  // Elements of the matrix of a pass.
  constexpr int64_t kMatrix = int64_t{1} << 26;
  const c10::DeviceGuard guard(queries.device());
  const int64_t all = queries.size(0);
  const int64_t items = search.items;
  const int64_t top_k = search.top_k;
  const Tensor units = torch_hrr::superpose(queries.unsqueeze(-2), {}, /*normalize=*/true, least_norm(queries));
  const auto [query_codes, query_bounds] = torch_hrr::quantize_rows(units);

  kernels::DeviceCleanupParams params{search};
  Tensor item_at;
  if (order.defined()) {
    // Absent items are written behind the others, where nobody looks.
    item_at = at::full({items + 1}, -1, order.options());
    item_at.scatter_(0, order.masked_fill((order < 0).logical_or(order >= items), items),
                     at::arange(items, order.options()));
  }
  const Tensor cosines = at::empty({all, top_k}, queries.options());
  const Tensor indices = at::empty({all, top_k}, queries.options().dtype(at::kLong));
  const int64_t pass = std::clamp<int64_t>(kMatrix / items, 1, all);
  for (int64_t first = 0; first < all; first += pass) {
    params.count = std::min(pass, all - first);
    const Tensor matrix = at::full({params.count, items}, kernels::kExcluded, queries.options());
    const Tensor own = units.narrow(0, first, params.count);
    const Tensor own_codes = query_codes.narrow(0, first, params.count);
    const Tensor own_bounds = query_bounds.narrow(0, first, params.count);
    params.queries = own.const_data_ptr();
    params.query_codes = own_codes.const_data_ptr<int8_t>();
    params.query_bounds = own_bounds.const_data_ptr<float>();
    params.matrix = matrix.mutable_data_ptr();
    params.thresholds = nullptr;
    execute_on_cuda(matrix, params);
    const Tensor thresholds = std::get<0>(torch_hrr::k_winners(matrix, top_k)).amin({-1});
    params.thresholds = thresholds.const_data_ptr();
    execute_on_cuda(matrix, params);
    const auto [values, places] = torch_hrr::k_winners(matrix, top_k, /*sorted=*/true);
    cosines.narrow(0, first, params.count)
        .copy_(values.masked_fill(values < -1, std::numeric_limits<double>::quiet_NaN()));
    const Tensor found = order.defined() ? item_at.index({places}) : places;
    indices.narrow(0, first, params.count).copy_(found.masked_fill(values == kernels::kExcluded, -1));
  }
  return {cosines, indices};
}

}  // namespace torch_hrr::hrr::cuda
