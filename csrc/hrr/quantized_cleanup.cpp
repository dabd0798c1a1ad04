// quantize_rows and quantized_cleanup: the stored rows of the largest cosine, found by codes of eight bits.
#include "csrc/hrr/quantized_cleanup.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <vector>

#include "csrc/execute.h"
#include "csrc/hrr/normalization.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "csrc/operator.h"
#include "csrc/rows.h"
#include "csrc/types.h"

namespace torch_hrr::hrr {
namespace {

using at::Tensor;
using c10::SymInt;
using kernels::CleanupParams;
using kernels::FoundItem;
using kernels::QuantizeParams;

struct QuantizeRows : Operator {
  static constexpr const char* kName = "quantize_rows";
  static constexpr Operand kOperands[] = {{"rows", 1}};
  using Signature = std::tuple<Tensor, Tensor>(const Tensor& rows);
  // Codes are steps: what could be differentiated is constant almost everywhere.
  static constexpr Derivative kDerivative = Derivative::kNone;

  template <typename Int>
  static std::array<ResultContract<Int>, 2> contract(const Tensor& rows) {
    check_floating(kName, {{"rows", rows}});
    check_rank(kName, {"rows", rows}, 1, "[..., D]");
    check_not_empty_last<Int>(kName, {"rows", rows});
    const auto sizes = sizes_of<Int>(rows);
    check_numel<Int>(kName, sizes);
    Sizes<Int> bounds(sizes.begin(), sizes.end());
    bounds.back() = Int(kernels::kQuantizedBounds);
    return {{{Sizes<Int>(sizes.begin(), sizes.end()), at::kChar}, {bounds, at::kFloat}}};
  }

  static void run(const std::array<ResultContract<int64_t>, 2>& contract, const std::tuple<Tensor, Tensor>& results,
                  const Tensor& rows) {
    const auto& [codes, bounds] = results;
    const c10::ArrayRef<int64_t> batch = all_but_last<int64_t>(contract[0].sizes);
    const Rows<1> placed(batch, {{{with_unit_rows(rows, rows.scalar_type()), 1}}});
    QuantizeParams params;
    params.input = placed.data(0);
    params.map = placed.map();
    params.codes = codes.mutable_data_ptr<int8_t>();
    params.bounds = bounds.mutable_data_ptr<float>();
    params.rows = product_of(batch);
    params.dim = rows.size(-1);
    params.storage = storage_of(rows);
    if (params.rows > 0) {
      execute_rows(params, params.rows, codes,
                   kernels::kernel_table<kernels::RowKernel<QuantizeParams>>(params.storage));
    }
  }
};

// Queries of one pass over the codes: their own codes stay in the second cache, and what they found in little memory.
int64_t queries_of_a_pass(const CleanupParams& params, int64_t all, int64_t threads) {
  constexpr int64_t kCodeBytes = int64_t{1} << 18;
  constexpr int64_t kFoundBytes = int64_t{1} << 26;
  const int64_t by_codes = kCodeBytes / params.dim;
  const int64_t by_found = kFoundBytes / (threads * params.top_k * static_cast<int64_t>(sizeof(FoundItem)));
  return std::clamp<int64_t>(std::min(by_codes, by_found), 1, all);
}

// The results of params.count queries, from what was found in every range.
template <typename T>
void merge(const CleanupParams& params, int64_t ranges, const std::vector<FoundItem>& found,
           const std::vector<int64_t>& sizes, T* cosines, int64_t* indices) {
  std::vector<FoundItem> all;
  for (int64_t j = 0; j < params.count; ++j) {
    all.clear();
    for (int64_t range = 0; range < ranges; ++range) {
      const int64_t slot = range * params.count + j;
      const FoundItem* const first = found.data() + slot * params.top_k;
      all.insert(all.end(), first, first + sizes[static_cast<size_t>(slot)]);
    }
    std::partial_sort(all.begin(), all.begin() + params.top_k, all.end(), kernels::ranks_before);
    for (int64_t i = 0; i < params.top_k; ++i) {
      const FoundItem& item = all[static_cast<size_t>(i)];
      cosines[j * params.top_k + i] =
          item.value < -1 ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(item.value);
      indices[j * params.top_k + i] = item.item;
    }
  }
}

template <typename T>
void search_on_cpu(CleanupParams params, const Tensor& queries, const Tensor& cosines, const Tensor& indices) {
  constexpr int64_t kLeastItems = 512;  // of a range
  const kernels::CleanupKernels& kernel = kernels::kernel_table<kernels::CleanupKernels>(storage_of(queries));
  const int64_t ranges = std::clamp<int64_t>(params.items / kLeastItems, 1, std::max(1, at::get_num_threads()));
  const int64_t all = queries.size(0);
  const int64_t pass = queries_of_a_pass(params, all, ranges);
  std::vector<FoundItem> found;
  std::vector<int64_t> sizes;
  for (int64_t first = 0; first < all; first += pass) {
    params.count = std::min(pass, all - first);
    params.queries = queries.const_data_ptr<T>() + first * params.dim;
    found.resize(static_cast<size_t>(ranges * params.count * params.top_k));
    sizes.assign(static_cast<size_t>(ranges * params.count), 0);
    const Tensor prepared = at::empty({kernel.prepared_bytes(params)}, queries.options().dtype(at::kByte));
    void* const memory = prepared.mutable_data_ptr();
    kernel.prepare(params, memory);
    at::parallel_for(0, ranges, 1, [&](int64_t begin, int64_t end) {
      const Scratch scratch(kernel.scratch_bytes(params));
      for (int64_t range = begin; range < end; ++range) {
        const int64_t slot = range * params.count;
        kernel.search(params, memory, range * params.items / ranges, (range + 1) * params.items / ranges,
                      found.data() + slot * params.top_k, sizes.data() + slot, scratch.memory);
      }
    });
    merge(params, ranges, found, sizes, cosines.mutable_data_ptr<T>() + first * params.top_k,
          indices.mutable_data_ptr<int64_t>() + first * params.top_k);
  }
}

struct QuantizedCleanup : Operator {
  static constexpr const char* kName = "quantized_cleanup";
  static constexpr Operand kOperands[] = {{"query", 1},
                                          {"rows", kNotBatched, false},
                                          {"codes", kNotBatched, false},
                                          {"bounds", kNotBatched, false},
                                          {"order", kNotBatched, false}};
  using Signature = std::tuple<Tensor, Tensor>(const Tensor& query, const Tensor& rows, const Tensor& codes,
                                               const Tensor& bounds, const std::optional<Tensor>& order, SymInt top_k);
  static constexpr Derivative kDerivative = Derivative::kFormula;

  // Of cosines and of indices.
  template <typename Int>
  static std::array<ResultContract<Int>, 2> contract(const Tensor& query, const Tensor& rows, const Tensor& codes,
                                                     const Tensor& bounds, const std::optional<Tensor>& order,
                                                     const Int& top_k) {
    check_floating(kName, {{"query", query}, {"rows", rows}});
    check_rank(kName, {"query", query}, 1, "[..., D]");
    TORCH_CHECK_VALUE(rows.dim() == 2, kName, ": rows must be [N, D], got ", sizes_of<Int>(rows));
    const Int dim = check_same_last<Int>(kName, {"query", query}, {"rows", rows});
    check_not_empty_last<Int>(kName, {"query", query});
    const Int items = sizes_of<Int>(rows)[0];
    check_table<Int>({"codes", codes}, at::kChar, {items, dim}, rows);
    check_table<Int>({"bounds", bounds}, at::kFloat, {items, Int(kernels::kQuantizedBounds)}, rows);
    if (is_given(order)) {
      check_table<Int>({"order", *order}, at::kLong, {items}, rows);
    }
    TORCH_CHECK_VALUE(holds(at_most(0, top_k)) && holds(at_most(top_k, items)), kName,
                      ": top_k must be from 0 to N, got top_k = ", top_k, " and N = ", items);
    Sizes<Int> sizes(sizes_of<Int>(query).begin(), sizes_of<Int>(query).end());
    sizes.back() = top_k;
    check_numel<Int>(kName, sizes);
    return {{{sizes, compute_type(promote(query, rows))}, {sizes, at::kLong}}};
  }
  template <typename Int>
  static void check_table(const Argument& argument, at::ScalarType dtype, std::initializer_list<Int> sizes,
                          const Tensor& rows) {
    TORCH_CHECK_TYPE(argument.tensor.defined(), kName, ": ", argument.name,
                     " must be a defined tensor, got an undefined one");
    check_strided(kName, argument);
    TORCH_CHECK_TYPE(argument.tensor.scalar_type() == dtype, kName, ": ", argument.name, " must be ", dtype, ", got ",
                     argument.tensor.scalar_type());
    check_same_device(kName, {"rows", rows}, argument);
    TORCH_CHECK_VALUE(same_sizes<Int>(sizes_of<Int>(argument.tensor), sizes), kName, ": ", argument.name,
                      " must have sizes ", c10::ArrayRef<Int>(sizes), ", got ", sizes_of<Int>(argument.tensor));
  }

  static void run(const std::array<ResultContract<int64_t>, 2>& contract, const std::tuple<Tensor, Tensor>& results,
                  const Tensor& query, const Tensor& rows, const Tensor& codes, const Tensor& bounds,
                  const std::optional<Tensor>& order, int64_t top_k) {
    const auto& [cosines, indices] = results;
    if (cosines.numel() == 0) {
      return;
    }
    const at::ScalarType type = contract[0].dtype;
    const Tensor queries = query.reshape({-1, query.size(-1)}).to(type).contiguous();
    const Tensor placed = with_unit_rows(rows, rows.scalar_type());
    const Tensor own_codes = codes.contiguous();
    const Tensor own_bounds = bounds.contiguous();
    const Tensor own_order = is_given(order) ? order->contiguous() : Tensor();
    CleanupParams params;
    params.rows = placed.const_data_ptr();
    params.codes = own_codes.const_data_ptr<int8_t>();
    params.bounds = own_bounds.const_data_ptr<float>();
    params.row_stride = placed.stride(0);
    params.items = rows.size(0);
    params.dim = rows.size(1);
    params.top_k = top_k;
    params.storage = storage_of(rows);
    params.is_double = type == at::kDouble;
    params.places = own_order.defined() ? own_order.const_data_ptr<int64_t>() : nullptr;
#if defined(TORCH_HRR_WITH_CUDA)
    if (rows.is_cuda()) {
      const auto [values, items] = cuda::quantized_cleanup(params, queries, own_order);
      cosines.copy_(values.view_as(cosines));
      indices.copy_(items.view_as(indices));
      return;
    }
#endif
    if (params.places != nullptr) {
      int64_t present = 0;
      for (int64_t i = 0; i < params.items; ++i) {
        TORCH_CHECK_VALUE(params.places[i] < params.items, kName, ": order must be below N = ", params.items, ", got ",
                          params.places[i]);
        present += params.places[i] >= 0 ? 1 : 0;
      }
      TORCH_CHECK_VALUE(top_k <= present, kName, ": top_k must be at most the number of rows that are present, got ",
                        top_k, " and ", present);
    }
    if (params.is_double) {
      search_on_cpu<double>(params, queries, cosines, indices);
    } else {
      search_on_cpu<float>(params, queries, cosines, indices);
    }
  }

  // The cosines as a function of the query: <q / norm2(q), u_j> with the unit rows found, which are constant.
  struct Formula {
    bool reads(size_t input, const Wanted&) const {
      return input < 2;
    }
    static Tensor units(const Saved& saved) {
      const Tensor& indices = saved[5];
      const Tensor found = in_compute_type(saved[1].detach()).index_select(0, indices.reshape({-1}));
      c10::SymDimVector sizes(indices.sym_sizes().begin(), indices.sym_sizes().end());
      sizes.push_back(found.sym_size(-1));
      return torch_hrr::superpose(found.unsqueeze(-2), {}, /*normalize=*/true, least_norm(found)).view_symint(sizes);
    }
    // [..., top_k] and [..., top_k, D] to [..., D]
    variable_list backward(const Saved& saved, const Tensor& grad, const Wanted&) const {
      const Tensor weighted = (grad.unsqueeze(-1) * units(saved)).sum(-2);
      return {
          normalization_jacobian(saved[0].to(weighted.scalar_type()), weighted, least_norm(weighted)), {}, {}, {}, {}};
    }
    Tensor jvp(const Saved& saved, const variable_list& tangents) const {
      const Tensor u = units(saved);
      const at::ScalarType type = promote(u, saved[0]);
      const Tensor moved = normalization_jacobian(saved[0].to(type), tangents[0].to(type), least_norm(u));
      return (moved.unsqueeze(-2) * u).sum(-1);
    }
  };
  static Formula formula(const Tensor&, const Tensor& rows, const Tensor&, const Tensor&, const std::optional<Tensor>&,
                         const SymInt&) {
    TORCH_CHECK(!requires_grad(rows) && !torch::autograd::isFwGradDefined(rows), kName,
                ": has no derivative in rows, got rows that require one");
    return {};
  }
};

TORCH_LIBRARY_FRAGMENT(torch_hrr, m) {
  register_operators<QuantizeRows, QuantizedCleanup>(m);
}

}  // namespace
}  // namespace torch_hrr::hrr

namespace torch_hrr {

std::tuple<at::Tensor, at::Tensor> quantize_rows(const at::Tensor& rows) {
  return call<hrr::QuantizeRows>(rows);
}

std::tuple<at::Tensor, at::Tensor> quantized_cleanup(const at::Tensor& query, const at::Tensor& rows,
                                                     const at::Tensor& codes, const at::Tensor& bounds, int64_t top_k,
                                                     const at::Tensor& order) {
  return call<hrr::QuantizedCleanup>(query, rows, codes, bounds, optional_of(order), top_k);
}

}  // namespace torch_hrr
