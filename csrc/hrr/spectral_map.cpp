// Runs a map of spectra, by kernels where they reach, else by the library's transforms.
#include "csrc/hrr/spectral_map.h"

#include "csrc/hrr/execute.h"
#include "csrc/hrr/library_fft.h"
#include "csrc/rows.h"

namespace torch_hrr::hrr {

using at::Tensor;

void run_map(const MapCall& call, const ResultContract<int64_t>& contract, const Tensor& out) {
  const c10::ArrayRef<int64_t> sizes = contract.sizes;
  const c10::ArrayRef<int64_t> batch = all_but_last(sizes);
  kernels::SpectralMapParams params;
  params.rows = product_of(batch);
  params.dim = sizes.back();
  params.kind = call.kind;
  params.eps = call.eps;
  params.order = call.is_power_itself ? kernels::kPowerItself : static_cast<int32_t>(call.order);
  if (params.rows == 0) {
    return;
  }
  const bool number = is_number(call.exponent);
  const Tensor exponents = call.exponent.defined() && !number ? call.exponent.to(at::kDouble) : Tensor();
  params.exponent = number ? call.exponent.item<double>() : 0;
  params.plan = plan_rows(params, out, contract.dtype);
  if (params.plan.path == kernels::RowPath::kLibrary) {
    const auto rows = [&](const Tensor& x) {
      return x.defined() ? x.to(contract.dtype).expand(sizes).reshape({params.rows, params.dim}) : x;
    };
    kernels::LibraryBinsParams bins;
    bins.kind = call.kind;
    bins.eps = call.eps;
    bins.exponent = params.exponent;
    bins.order = params.order;
    const Tensor of_rows = exponents.defined() ? exponents.expand(batch).contiguous() : exponents;
    bins.exponents = of_rows.defined() ? of_rows.const_data_ptr<double>() : nullptr;
    return library_spectral_map(rows(call.a), rows(call.v), bins, out.view({params.rows, params.dim}));
  }
  const at::ScalarType row_type = row_type_of(params.plan, out, contract.dtype);
  const Tensor rows_v = call.v.defined() ? with_unit_rows(call.v, row_type) : Tensor();
  const Rows<3> rows(batch, {{{with_unit_rows(call.a, row_type), 1}, {rows_v, 1}, {exponents, 0}}});
  params.map = rows.map();
  params.a = rows.data(0);
  params.v = rows.data(1);
  params.exponents = static_cast<const double*>(rows.data(2));
  params.roundoff = compute_epsilon(contract.dtype);
  execute_in(row_type, params, out);
}

}  // namespace torch_hrr::hrr
