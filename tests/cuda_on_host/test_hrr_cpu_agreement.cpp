// Every HRR kernel against the CPU kernel of its family: a few ulp of a row's norm, whatever dim, layout and magnitude.
#include "tests/cuda_on_host/hrr_cpu_agreement.h"
#include "tests/cuda_on_host/hrr_problems.h"

namespace torch_hrr::kernels {
namespace {

namespace cuda = hrr_testing;
using cuda::Rows;

// Direct, native and padded lengths. 96, 480, 768 and 800 are native on the CPU and padded on CUDA.
template <typename S>
std::vector<int64_t> dims() {
  if (std::is_same_v<S, float>) {
    return {1,   2,   3,   5,   7,   8,   13,  16,  17,   31,   32,   33,   64,   96,   100, 128,
            129, 256, 257, 480, 500, 512, 768, 999, 1000, 1024, 2047, 2048, 4095, 4096, 8192};
  }
  return {1, 2, 3, 5, 7, 8, 13, 16, 257, 300, 480, 511, 512, 1024};
}

struct Form {
  Product product;
  bool normalize;
  double eps;
};
constexpr Form kForms[] = {{Product::kConvolution, false, 0},
                           {Product::kCorrelation, false, 0},
                           {Product::kConvolution, true, 0},
                           {Product::kConvolution, true, 100},
                           {Product::kCorrelation, true, 1e-12}};

// A normalised correlation has no gradient kernel.
bool has_gradient(const Form& form) {
  return !form.normalize || form.product == Product::kConvolution;
}

std::string describe(const Form& form, int64_t dim) {
  return "dim " + std::to_string(dim) + (form.product == Product::kConvolution ? " convolution" : " correlation") +
         (form.normalize ? " normalized, eps " + std::to_string(form.eps) : "");
}

// 2 x 3 rows at an odd pitch: operand 0 repeats along the second dimension, operand 1 along the first, operand 2 along
// both.
RowMap broadcast_map(int64_t pitch) {
  RowMap map;
  map.ndim = 2;
  map.sizes[0] = 2;
  map.sizes[1] = 3;
  map.strides[0][0] = pitch;
  map.strides[1][1] = pitch;
  return map;
}

// The first elements of `count` rows at distance pitch, from an odd address.
template <typename S>
struct Pitched {
  std::vector<S> values;

  Pitched(int64_t count, int64_t dim, int64_t pitch, unsigned seed)
      : values(static_cast<size_t>(count * pitch + 1), static_cast<S>(1e4f)) {
    const Rows<S> rows(count, dim, seed);
    for (int64_t r = 0; r < count; ++r) {
      std::copy_n(rows.row(r), dim, values.data() + 1 + r * pitch);
    }
  }
  const S* data() const {
    return values.data() + 1;
  }
};

template <typename S>
class CpuAgreement : public testing::Test {};
TYPED_TEST_SUITE(CpuAgreement, StorageTypes);

TYPED_TEST(CpuAgreement, Bind) {
  using S = TypeParam;
  for (const int64_t dim : dims<S>()) {
    const Rows<S> a(2, dim, 1);
    const Rows<S> b(2, dim, 2);
    const int64_t pitch = dim + 1;
    const Pitched<S> spread_a(2, dim, pitch, 3);
    const Pitched<S> spread_b(3, dim, pitch, 4);
    for (const Form& form : kForms) {
      SCOPED_TRACE(describe(form, dim));
      std::vector<S> unused;
      BindParams params = cuda::binding_params(a, b, unused, 2, form.product, form.normalize, form.eps);
      expect_binding_agrees<S>(params);
      params.a = spread_a.data();
      params.b = spread_b.data();
      params.rows = 6;
      params.map = broadcast_map(pitch);
      expect_binding_agrees<S>(params);
    }
  }
}

TYPED_TEST(CpuAgreement, BindBackward) {
  using S = TypeParam;
  for (const int64_t dim : dims<S>()) {
    cuda::Gradients<S> gradients(2, dim, 5);
    const int64_t pitch = dim + 1;
    const Pitched<S> spread_grad(2, dim, pitch, 8);
    const Pitched<S> spread_a(3, dim, pitch, 9);
    for (const Form& form : kForms) {
      if (!has_gradient(form)) {
        continue;
      }
      SCOPED_TRACE(describe(form, dim));
      gradients.product = form.product;
      gradients.normalize = form.normalize;
      gradients.eps = form.eps;
      BindBackwardParams params = gradients.params();
      expect_backward_agrees<S>(params);
      params.grad = spread_grad.data();
      params.a = spread_a.data();
      params.rows = 6;
      params.map = broadcast_map(pitch);
      expect_backward_agrees<S>(params);
    }
  }
}

TYPED_TEST(CpuAgreement, BindSuperpose) {
  using S = TypeParam;
  for (const int64_t dim : dims<S>()) {
    for (const int64_t items : {0, 1, 9}) {
      cuda::Records<S> records(2, items, dim, 10);
      for (const bool plain : {false, true}) {
        SCOPED_TRACE(testing::Message() << "dim " << dim << ", K " << items << (plain ? "" : ", weighted, normalized"));
        records.weighted = !plain;
        records.normalize = !plain;
        std::vector<S> unused;
        BindSuperposeParams params = records.params(unused);
        expect_bind_superpose_agrees<S>(params);
        // One record of fillers for all rows, one weight for all items.
        params.map.strides[1][0] = 0;
        params.item_stride_weights = 0;
        expect_bind_superpose_agrees<S>(params);
      }
    }
  }
}

TYPED_TEST(CpuAgreement, Superpose) {
  using S = TypeParam;
  for (const int64_t dim : {1, 3, 64, 100, 1000, 4100}) {
    for (const int64_t items : {0, 1, 9, 130}) {
      cuda::Superposition<S> sum(2, items, dim, 13);
      for (const bool plain : {false, true}) {
        SCOPED_TRACE(testing::Message() << "dim " << dim << ", K " << items << (plain ? "" : ", weighted, normalized"));
        sum.weighted = !plain;
        sum.normalize = !plain;
        std::vector<S> unused;
        SuperpositionParams params = sum.params(unused);
        expect_superposition_agrees<S>(params);
        // Items interleaved between rows, the same weights for both rows.
        params.map.strides[0][0] = dim;
        params.map.strides[1][0] = 0;
        params.item_stride_vectors = 2 * dim;
        expect_superposition_agrees<S>(params);
      }
    }
  }
}

// Rows that are computed again from scaled inputs, rows of zeros and rows that are not finite, each between plain ones.
constexpr int64_t kEdgeRows = 9;
constexpr int64_t kEdgeDims[] = {5, 16, 300, 512, 1024};

template <typename S>
void put_row(Rows<S>& rows, int64_t r, double magnitude) {
  const Rows<S> scaled(1, rows.dim, static_cast<unsigned>(20 + r), magnitude);
  std::copy_n(scaled.row(0), rows.dim, rows.row(r));
}

template <typename S>
double small() {
  return 1e4 * static_cast<double>(std::numeric_limits<S>::min());
}
template <typename S>
double large() {
  return static_cast<double>(std::numeric_limits<S>::max()) / 8;
}

template <typename S>
void put_edge_rows(Rows<S>& a, Rows<S>& b) {
  put_row(a, 1, large<S>());
  put_row(b, 1, large<S>());
  put_row(a, 3, small<S>());
  put_row(b, 3, small<S>());
  put_row(a, 4, large<S>());
  put_row(b, 4, small<S>());
  put_row(a, 6, 0);
}

TYPED_TEST(CpuAgreement, EdgeRowsOfBind) {
  using S = TypeParam;
  for (const int64_t dim : kEdgeDims) {
    Rows<S> a(kEdgeRows, dim, 14);
    Rows<S> b(kEdgeRows, dim, 15);
    put_edge_rows(a, b);
    a.row(7)[dim / 2] = from_double<S>(NAN);
    b.row(8)[dim - 1] = from_double<S>(-HUGE_VAL);
    for (const Form& form : kForms) {
      SCOPED_TRACE(describe(form, dim));
      std::vector<S> unused;
      expect_binding_agrees<S>(cuda::binding_params(a, b, unused, kEdgeRows, form.product, form.normalize, form.eps));
    }
  }
}

TYPED_TEST(CpuAgreement, EdgeRowsOfBindBackward) {
  using S = TypeParam;
  for (const int64_t dim : kEdgeDims) {
    cuda::Gradients<S> gradients(kEdgeRows, dim, 16);
    put_edge_rows(gradients.a, gradients.b);
    put_row(gradients.grad, 5, large<S>());
    gradients.grad.row(7)[dim / 2] = from_double<S>(NAN);
    gradients.grad.row(8)[dim - 1] = from_double<S>(HUGE_VAL);
    gradients.a.row(2)[0] = from_double<S>(NAN);
    gradients.b.row(0)[dim / 3] = from_double<S>(-HUGE_VAL);
    for (const Form& form : kForms) {
      if (!has_gradient(form)) {
        continue;
      }
      SCOPED_TRACE(describe(form, dim));
      gradients.product = form.product;
      gradients.normalize = form.normalize;
      gradients.eps = form.eps;
      // Normalised gradients of row 4 are g / a and g / b in size, others g b and g a.
      put_row(gradients.grad, 4, form.normalize ? 1e3 : 1);
      expect_backward_agrees<S>(gradients.params());
    }
  }
}

TYPED_TEST(CpuAgreement, EdgeRowsOfSums) {
  using S = TypeParam;
  for (const int64_t dim : {16, 300, 512, 1024}) {
    cuda::Records<S> records(kEdgeRows / 3, 3, dim, 17);
    cuda::Superposition<S> sum(kEdgeRows, 3, dim, 18);
    put_edge_rows(records.a, records.b);
    records.weights.values[7] = from_double<S>(NAN);
    put_row(sum.vectors, 3, large<S>());
    put_row(sum.vectors, 4, small<S>());
    put_row(sum.vectors, 5, 0);
    for (int64_t r = 6; r < 9; ++r) {
      put_row(sum.vectors, r, small<S>());
    }
    sum.vectors.row(12)[dim - 1] = from_double<S>(HUGE_VAL);
    sum.weights.values[16] = from_double<S>(NAN);
    for (const bool normalize : {false, true}) {
      SCOPED_TRACE(testing::Message() << "dim " << dim << (normalize ? ", normalized" : ""));
      std::vector<S> unused;
      records.normalize = normalize;
      records.eps = 0;
      expect_bind_superpose_agrees<S>(records.params(unused));
      sum.normalize = normalize;
      sum.eps = 0;
      expect_superposition_agrees<S>(sum.params(unused));
    }
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
