// Binding and records on the CPU; compiled once per instruction set.
#include "kernels/hrr/circular_convolution.h"

#include "kernels/hrr/families.h"
#include "kernels/hrr/record_row.h"

namespace torch_hrr::kernels {
HRR_ISA_BEGIN
namespace {

template <typename S>
void bind_rows(const BindingParams& params, int64_t begin, int64_t end, void* scratch) {
  with_engine<S>(params.dim, scratch, [&](const auto& engine, int64_t used) {
    using Engine = std::remove_cvref_t<decltype(engine)>;
    const auto a = engine.operand(scratch, used);
    const auto b = engine.operand(scratch, used);
    const auto sum = engine.operand(scratch, used);
    for (int64_t r = begin; r < end; ++r) {
      const RecordRow<S> row{static_cast<const S*>(params.a) + row_offset(params.map, 0, r),
                             static_cast<const S*>(params.b) + row_offset(params.map, 1, r),
                             nullptr,
                             1,
                             0,
                             0,
                             0,
                             params.product,
                             params.normalize,
                             params.eps};
      S* out = static_cast<S*>(params.out) + r * params.dim;
      bool done = false;
      if constexpr (std::is_same_v<Engine, DirectEngine<S>>) {
        done = try_record_row<S>(engine, row, a, b, sum, out);
      } else if (params.product == Product::kConvolution) {
        done = try_bind_row<Product::kConvolution, S>(engine, row, a, b, out);
      } else {
        done = try_bind_row<Product::kCorrelation, S>(engine, row, a, b, out);
      }
      if (!done) {
        careful_row<S>(engine, row, a, b, sum, out);
      }
    }
  });
}

template <typename S>
void record_rows(const RecordParams& params, int64_t begin, int64_t end, void* scratch) {
  with_engine<S>(params.dim, scratch, [&](const auto& engine, int64_t used) {
    const auto a = engine.operand(scratch, used);
    const auto b = engine.operand(scratch, used);
    const auto sum = engine.operand(scratch, used);
    for (int64_t r = begin; r < end; ++r) {
      const S* weights = static_cast<const S*>(params.weights);
      const RecordRow<S> row{static_cast<const S*>(params.a) + row_offset(params.map, 0, r),
                             static_cast<const S*>(params.b) + row_offset(params.map, 1, r),
                             weights == nullptr ? nullptr : weights + row_offset(params.map, 2, r),
                             params.items,
                             params.item_stride_a,
                             params.item_stride_b,
                             params.item_stride_weights,
                             Product::kConvolution,
                             params.normalize,
                             params.eps};
      S* out = static_cast<S*>(params.out) + r * params.dim;
      if (!try_record_row<S>(engine, row, a, b, sum, out)) {
        careful_row<S>(engine, row, a, b, sum, out);
      }
    }
  });
}

template <typename S>
int64_t record_scratch(int64_t dim) {
  return scratch_bytes<S>(dim, 3, 0);
}

} // namespace

template <typename S>
void add_binding(HrrKernels& kernels) {
  kernels.bind_scratch = record_scratch<S>;
  kernels.bind = bind_rows<S>;
  kernels.record_scratch = record_scratch<S>;
  kernels.record = record_rows<S>;
}

template void add_binding<float>(HrrKernels&);
template void add_binding<double>(HrrKernels&);
template void add_binding<Half>(HrrKernels&);
template void add_binding<BFloat16>(HrrKernels&);

HRR_ISA_END
} // namespace torch_hrr::kernels
