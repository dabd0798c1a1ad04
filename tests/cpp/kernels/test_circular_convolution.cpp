// bind and unbind against the direct float64 sum: every algorithm, storage type, placement of rows and range of rows.
#include "kernels/hrr/circular_convolution.h"

#include "kernels/fft/row_shape.h"
#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

constexpr double kEps = 1e-12;

std::vector<int64_t> all_dims() {
  std::vector<int64_t> dims;
  for (int64_t dim = 1; dim <= 40; ++dim) {
    dims.push_back(dim);
  }
  dims.insert(dims.end(),
              {63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 512, 1000, 1024, 2048, 4095, 4096, 8192, 10000, 12960});
  // Other lengths that the CPU transforms natively: half-length passes of every radix, and every number of rows of a
  // matrix with few columns, one more than a vector's and many.
  for (int64_t dim = 64; dim <= 2048; dim += 32) {
    if (row_transform(dim) == RowTransform::kPairs && (dim & (dim - 1)) != 0) {
      dims.push_back(dim);
    }
  }
  for (const int64_t rows : {3, 5, 7, 9, 11, 13, 15, 21, 25, 27, 35, 49}) {
    for (const int64_t columns : {4, 7, 9, 13, 16, 22, 60, 64}) {
      const int64_t dim = rows * columns;
      const bool has_rows = matrix_rows(dim, 8) == rows || matrix_rows(dim, 16) == rows;
      if (has_rows && row_transform(dim) == RowTransform::kMatrix) {
        dims.push_back(dim);
      }
    }
  }
  return dims;
}

// One of each algorithm, of each vector width and of an odd and an even number of passes.
const std::vector<int64_t> kSomeDims = {1, 3, 16, 17, 32, 96, 100, 128, 160, 256, 400, 512, 768, 1000, 1024, 2048};

constexpr Product kProducts[] = {Product::kConvolution, Product::kCorrelation};

template <typename S>
BindParams params_of(const S* a, const S* b, S* out, int64_t rows, int64_t dim, const RowMap& map, Product product,
                     bool normalize) {
  BindParams params;
  params.a = a;
  params.b = b;
  params.out = out;
  params.rows = rows;
  params.dim = dim;
  params.map = map;
  params.product = product;
  params.normalize = normalize;
  params.eps = kEps;
  params.plan = cpu_row_plan(params.kFamily, StorageTraits<S>::kStorage, dim);
  return params;
}

template <typename S>
class CircularConvolution : public ::testing::Test {
 protected:
  template <typename Check>
  static void for_each_form(const std::vector<int64_t>& dims, const Check& check) {
    for (const int64_t dim : dims) {
      for (const Product product : kProducts) {
        for (const bool normalize : {false, true}) {
          SCOPED_TRACE(::testing::Message() << "dim " << dim << (product == Product::kConvolution ? " bind" : " unbind")
                                            << (normalize ? ", normalised" : ""));
          check(dim, product, normalize);
          if (::testing::Test::HasFailure()) {
            return;
          }
        }
      }
    }
  }
};
TYPED_TEST_SUITE(CircularConvolution, StorageTypes);

TYPED_TEST(CircularConvolution, EqualsTheDirectSum) {
  using S = TypeParam;
  for (const int64_t dim : all_dims()) {
    const int64_t rows = dim <= 300 ? 3 : 1;
    const Buffer<S> a = random_values<S>(rows * dim, static_cast<uint64_t>(dim));
    const Buffer<S> b = random_values<S>(rows * dim, static_cast<uint64_t>(dim) + 10000);
    for (const Product product : kProducts) {
      SCOPED_TRACE(::testing::Message() << "dim " << dim << (product == Product::kConvolution ? " bind" : " unbind"));
      Buffer<S> plain(rows * dim);
      Buffer<S> unit(rows * dim);
      const RowMap map = row_map(rows, {dim, dim});
      run_bind<S>(params_of(a.data(), b.data(), plain.data(), rows, dim, map, product, false), 0, rows);
      run_bind<S>(params_of(a.data(), b.data(), unit.data(), rows, dim, map, product, true), 0, rows);
      for (int64_t r = 0; r < rows; ++r) {
        const std::vector<double> want =
            product_of(product, row_at(a.data() + r * dim, dim), row_at(b.data() + r * dim, dim));
        ASSERT_TRUE(is_close(plain.data() + r * dim, want)) << "row " << r;
        ASSERT_TRUE(is_close(unit.data() + r * dim, normalized(want, kEps))) << "row " << r << ", normalised";
      }
    }
  }
}

// Long rows at some n: a whole direct sum would take minutes.
TYPED_TEST(CircularConvolution, EqualsTheDirectSumOnLongRows) {
  using S = TypeParam;
  for (const int64_t dim :
       {int64_t{10007}, int64_t{16384}, int64_t{65536}, kMaxRowTransform / 2 - 1, kMaxRowTransform}) {
    SCOPED_TRACE(::testing::Message() << "dim " << dim);
    const Buffer<S> a = random_values<S>(dim, 8);
    const Buffer<S> b = random_values<S>(dim, 9);
    for (const Product product : kProducts) {
      Buffer<S> out(dim);
      run_bind<S>(params_of(a.data(), b.data(), out.data(), 1, dim, RowMap{}, product, false), 0, 1);
      std::vector<S> got;
      std::vector<double> want;
      for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{2}, dim / 7, dim / 3, dim / 2, dim / 2 + 1, dim - 1}) {
        long double sum = 0;  // a million terms would cost float64 two digits
        for (int64_t m = 0; m < dim; ++m) {
          const int64_t other = product == Product::kConvolution ? n - m : n + m;
          const int64_t wrapped = other < 0 ? other + dim : other < dim ? other : other - dim;
          sum += product == Product::kConvolution ? to_double(a.data()[m]) * to_double(b.data()[wrapped])
                                                  : to_double(a.data()[wrapped]) * to_double(b.data()[m]);
        }
        got.push_back(out.data()[n]);
        want.push_back(static_cast<double>(sum));
      }
      EXPECT_TRUE(is_close(got.data(), want)) << (product == Product::kConvolution ? "bind" : "unbind");
    }
  }
}

// Rows anywhere: gaps, repeats, eight dimensions, first elements at odd offsets from an aligned address.
TYPED_TEST(CircularConvolution, BitsDoNotDependOnPlacement) {
  using S = TypeParam;
  struct Placement {
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides_a, strides_b;  // in rows of dim + 3 and dim + 7 elements
  };
  const Placement placements[] = {{{}, {}, {}},
                                  {{4}, {0}, {2}},
                                  {{2, 3}, {3, 1}, {0, 1}},
                                  {{3, 2}, {1, 3}, {1, 0}},
                                  {{2, 2, 2}, {4, 0, 1}, {1, 2, 4}},
                                  {{2, 1, 1, 2, 1, 1, 1, 2}, {4, 0, 0, 2, 0, 0, 0, 1}, {0, 9, 9, 1, 9, 9, 9, 0}}};
  this->for_each_form(kSomeDims, [&](int64_t dim, Product product, bool normalize) {
    for (const Placement& placement : placements) {
      const int64_t pitch_a = dim + 3;
      const int64_t pitch_b = dim + 7;
      RowMap map;
      map.ndim = static_cast<int>(placement.sizes.size());
      int64_t rows = 1;
      for (size_t d = 0; d < placement.sizes.size(); ++d) {
        map.sizes[d] = placement.sizes[d];
        map.strides[0][d] = placement.strides_a[d] * pitch_a;
        map.strides[1][d] = placement.strides_b[d] * pitch_b;
        rows *= placement.sizes[d];
      }
      const Buffer<S> a = random_values<S>(8 * pitch_a + 1, 1);
      const Buffer<S> b = random_values<S>(8 * pitch_b + 5, 2);
      Buffer<S> out(rows * dim + 3);
      run_bind<S>(params_of(a.data() + 1, b.data() + 5, out.data() + 3, rows, dim, map, product, normalize), 0, rows);
      for (int64_t r = 0; r < rows; ++r) {
        Buffer<S> row_a(dim);
        Buffer<S> row_b(dim);
        Buffer<S> alone(dim);
        int64_t offset_a = 1;
        int64_t offset_b = 5;
        int64_t rest = r;
        for (size_t d = placement.sizes.size(); d-- > 0;) {
          offset_a += rest % placement.sizes[d] * placement.strides_a[d] * pitch_a;
          offset_b += rest % placement.sizes[d] * placement.strides_b[d] * pitch_b;
          rest /= placement.sizes[d];
        }
        std::copy_n(a.data() + offset_a, dim, row_a.data());
        std::copy_n(b.data() + offset_b, dim, row_b.data());
        run_bind<S>(params_of(row_a.data(), row_b.data(), alone.data(), 1, dim, RowMap{}, product, normalize), 0, 1);
        ASSERT_TRUE(same_bits(out.data() + 3 + r * dim, alone.data(), dim)) << "row " << r << " of " << rows;
      }
    }
  });
}

TYPED_TEST(CircularConvolution, RangesOfRowsMakeTheWhole) {
  using S = TypeParam;
  constexpr int64_t kRows = 7;
  this->for_each_form(kSomeDims, [&](int64_t dim, Product product, bool normalize) {
    const Buffer<S> a = random_values<S>(kRows * dim, 3);
    const Buffer<S> b = random_values<S>(dim, 4);
    const RowMap map = row_map(kRows, {dim, 0});
    const auto params = [&](Buffer<S>& out) {
      return params_of(a.data(), b.data(), out.data(), kRows, dim, map, product, normalize);
    };
    Buffer<S> whole(kRows * dim);
    run_bind<S>(params(whole), 0, kRows);
    Buffer<S> parts(kRows * dim);
    const Buffer<S> untouched(kRows * dim);
    run_bind<S>(params(parts), 5, 7);
    EXPECT_TRUE(same_bits(parts.data(), untouched.data(), 5 * dim)) << "rows before the range were written";
    run_bind<S>(params(parts), 2, 2);
    EXPECT_TRUE(same_bits(parts.data(), untouched.data(), 5 * dim)) << "an empty range wrote";
    run_bind<S>(params(parts), 0, 1);
    EXPECT_TRUE(same_bits(parts.data() + dim, untouched.data(), 4 * dim)) << "rows after the range were written";
    run_bind<S>(params(parts), 1, 5);
    EXPECT_TRUE(same_bits(parts.data(), whole.data(), kRows * dim));
  });
}

TYPED_TEST(CircularConvolution, ScratchIsNotAnInput) {
  using S = TypeParam;
  const auto& kernel = kernel_of<S, BindParams>();
  this->for_each_form(kSomeDims, [&](int64_t dim, Product product, bool normalize) {
    const Buffer<S> a = random_values<S>(dim, 5);
    const Buffer<S> b = random_values<S>(dim, 6);
    Buffer<char> scratch(kernel.scratch(params_of<S>(nullptr, nullptr, nullptr, 1, dim, RowMap{}, product, normalize)));
    std::vector<Buffer<S>> outs(3, Buffer<S>(dim));
    for (size_t i = 0; i < outs.size(); ++i) {
      if (i == 1) {
        std::memset(scratch.data(), 0, static_cast<size_t>(scratch.size()));
      }
      kernel.run(params_of(a.data(), b.data(), outs[i].data(), 1, dim, RowMap{}, product, normalize), 0, 1,
                 scratch.data());
    }
    EXPECT_TRUE(same_bits(outs[1].data(), outs[0].data(), dim)) << "zeros";
    EXPECT_TRUE(same_bits(outs[2].data(), outs[0].data(), dim)) << "left by a call before";
  });
}

// An operand may be both factors: a bind a.
TYPED_TEST(CircularConvolution, OperandsMayBeOne) {
  using S = TypeParam;
  this->for_each_form(kSomeDims, [&](int64_t dim, Product product, bool normalize) {
    const Buffer<S> a = random_values<S>(dim, 7);
    const Buffer<S> copy = a;
    Buffer<S> out(dim);
    Buffer<S> want(dim);
    run_bind<S>(params_of(a.data(), a.data(), out.data(), 1, dim, RowMap{}, product, normalize), 0, 1);
    run_bind<S>(params_of(a.data(), copy.data(), want.data(), 1, dim, RowMap{}, product, normalize), 0, 1);
    EXPECT_TRUE(same_bits(out.data(), want.data(), dim));
    EXPECT_TRUE(same_bits(a.data(), copy.data(), dim)) << "the input was written";
  });
}

// Rows that share an operand transform it once, unless one of them needs scaling: each gets the bits it gets alone.
TYPED_TEST(CircularConvolution, ASharedOperandChangesNoBit) {
  using S = TypeParam;
  constexpr int64_t kRows = 4;
  this->for_each_form(kSomeDims, [&](int64_t dim, Product product, bool normalize) {
    Buffer<S> rows = random_values<S>(kRows * dim, 45);
    std::fill_n(rows.data() + dim, dim, std::numeric_limits<S>::max());
    const Buffer<S> shared = random_values<S>(dim, 46);
    for (const bool first : {false, true}) {
      const S* a = first ? shared.data() : rows.data();
      const S* b = first ? rows.data() : shared.data();
      Buffer<S> together(kRows * dim);
      Buffer<S> alone(kRows * dim);
      const RowMap map = first ? row_map(kRows, {0, dim}) : row_map(kRows, {dim, 0});
      run_bind<S>(params_of(a, b, together.data(), kRows, dim, map, product, normalize), 0, kRows);
      const auto params = params_of(a, b, alone.data(), kRows, dim, map, product, normalize);
      for (int64_t r = 0; r < kRows; ++r) {
        run_bind<S>(params, r, r + 1);
      }
      EXPECT_TRUE(same_bits(together.data(), alone.data(), kRows * dim)) << (first ? "a" : "b") << " is shared";
    }
  });
}

}  // namespace
}  // namespace torch_hrr::kernels
