// Rows of lengths that are no powers of two: the mixed-radix transform against the sum, and its kernels against the
// direct sums and the CPU.
#include "tests/cuda_on_host/hrr_cpu_agreement.h"
#include "tests/cuda_on_host/hrr_maps.h"
#include "tests/cuda_on_host/hrr_mixed.h"
#include "tests/cuda_on_host/hrr_problems.h"

#include "kernels/hrr/launch_mixed.cuh"

namespace torch_hrr::kernels {
namespace {

using namespace hrr_testing;

// spectrum[k] = bin k, back = the inverse of the bins; a block.
template <typename T>
__global__ void mixed_transform_kernel(const Complex<T>* in, Complex<T>* spectrum, Complex<T>* back,
                                       const MixedPlan* plan) {
  const MixedRow<T> row(plan, 1);
  row.for_each_point([&](int n) { row.set({0}, n, in[n]); });
  mixed_transform<false, T>(plan, 0);
  row.for_each_point([&](int k) { spectrum[k] = row.point({0}, row.table.positions[k]); });
  mixed_transform<true, T>(plan, 0);
  row.for_each_point([&](int n) { back[n] = row.point({0}, n); });
}

template <typename T>
void check_mixed_transform(int points, double tolerance) {
  SCOPED_TRACE(points);
  const MixedTableOf<T> table(2 * points);
  std::mt19937 generator(static_cast<unsigned>(points));
  std::normal_distribution<double> normal;
  std::vector<Complex<T>> in(static_cast<size_t>(points));
  for (Complex<T>& x : in) {
    x = {static_cast<T>(normal(generator)), static_cast<T>(normal(generator))};
  }
  for (const Schedule& schedule : all_schedules(1)) {
    SCOPED_TRACE(schedule);
    auto spectrum = poisoned<Complex<T>>(in.size());
    auto back = poisoned<Complex<T>>(in.size());
    host_launch("transform", mixed_transform_kernel<T>, dim3(1), dim3(mixed_threads<T>(*table.plan())),
                mixed_shared_bytes<T>(*table.plan(), 1), schedule, in.data(), spectrum.data(), back.data(),
                table.plan());
    double error = 0;
    double norm = 0;
    const int step = 1 + points / 300;  // of long rows some bins
    for (int k = 0; k < points; k += step) {
      Complex<long double> sum{0, 0};
      for (int n = 0; n < points; ++n) {
        const Complex<double> w = root_of_unity(static_cast<int64_t>(n) * k % points, points);
        const Complex<T> x = in[static_cast<size_t>(n)];
        sum.re += static_cast<long double>(x.re) * w.re - static_cast<long double>(x.im) * w.im;
        sum.im += static_cast<long double>(x.re) * w.im + static_cast<long double>(x.im) * w.re;
      }
      const Complex<T> bin = spectrum[static_cast<size_t>(k)];
      error += std::pow(bin.re - static_cast<double>(sum.re), 2) + std::pow(bin.im - static_cast<double>(sum.im), 2);
      norm += static_cast<double>(sum.re * sum.re + sum.im * sum.im);
    }
    EXPECT_LT(std::sqrt(error / norm), tolerance);
    error = norm = 0;
    for (size_t n = 0; n < in.size(); ++n) {
      error += std::pow(back[n].re / points - in[n].re, 2) + std::pow(back[n].im / points - in[n].im, 2);
      norm += std::pow(in[n].re, 2) + std::pow(in[n].im, 2);
    }
    EXPECT_LT(std::sqrt(error / norm), tolerance);
  }
}

TEST(MixedFft, MatchesTheSumAndInverts) {
  for (const int points : {1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 26, 121, 360, 500, 637, 1001, 1024, 4608}) {
    check_mixed_transform<float>(points, 4e-7);
  }
  for (const int points : {1, 6, 286, 1155}) {
    check_mixed_transform<double>(points, 1e-15);
  }
}

// Every length that the plan takes: its stages multiply to the points, no two bins share a place, no root is missing.
TEST(MixedFft, PlansAreWhole) {
  int taken = 0;
  for (int64_t dim = 1; dim <= 16384; ++dim) {
    const MixedPlan plan = mixed_plan(dim);
    ASSERT_EQ(plan.points > 0, is_mixed_plan_for(dim)) << dim;
    if (plan.points == 0 || (dim > 512 && dim % 10 != 0)) {
      continue;
    }
    ++taken;
    int points = 1;
    int roots = 0;
    for (int s = plan.stages - 1; s >= 0; --s) {
      const MixedStage& stage = plan.stage[s];
      ASSERT_EQ(stage.span, points) << dim;
      points *= stage.radix;
      roots += (stage.radix - 1) * stage.span;
      for (const int64_t q : {stage.span - 1, stage.span, plan.points / stage.radix - 1}) {
        ASSERT_EQ(q * stage.reciprocal >> 31, q / stage.span) << dim;
      }
    }
    ASSERT_EQ(points, plan.points) << dim;
    ASSERT_EQ(roots, plan.points - 1) << dim;
    std::vector<bool> met(static_cast<size_t>(points));
    for (int k = 0; k < points; ++k) {
      const int place = mixed_position(plan, k);
      ASSERT_TRUE(place < points && !met[static_cast<size_t>(place)]) << dim;
      met[static_cast<size_t>(place)] = true;
      ASSERT_EQ(mixed_mirror(&plan, place), mixed_position(plan, k == 0 ? 0 : points - k)) << dim << " bin " << k;
    }
  }
  EXPECT_GT(taken, 400);
  for (const int64_t dim : {int64_t{0}, int64_t{-2}, int64_t{17}, int64_t{4097}, int64_t{1} << 40}) {
    EXPECT_FALSE(is_mixed_plan_for(dim)) << dim;
  }
}

// The launches at their parameters.
template <typename S, typename Params>
void run(Params params, const Schedule& schedule = {}) {
  const MixedTableOf<compute_t<S>> table(params.dim);
  params.plan.table = table.plan();
  launch_mixed<compute_t<S>>(kStorage<S>, params, HostLauncher{schedule});
}

constexpr Form kAllForms[] = {{Product::kConvolution, false},
                              {Product::kCorrelation, false},
                              {Product::kConvolution, true},
                              {Product::kCorrelation, true}};

std::vector<float> mixed_product(const Rows<float>& a, const Rows<float>& b, const Form& form, double eps = kEps,
                                 const Schedule& schedule = {}) {
  auto out = poisoned<float>(a.values.size());
  const int64_t rows = static_cast<int64_t>(a.values.size()) / a.dim;
  run<float>(binding_params(a, b, out, rows, form.product, form.normalize, eps), schedule);
  return out;
}

TEST(MixedRows, ProductsMatchTheDirectSum) {
  for (const int64_t dim : {1, 2, 3, 4, 6, 9, 22, 26, 35, 100, 300, 1000, 1155, 1500}) {
    const Rows<float> a(2, dim, 1);
    const Rows<float> b(2, dim, 2);
    for (const Form& form : kAllForms) {
      const Exact c = oracle_product(form.product, a.exact(1), b.exact(1));
      std::vector<float> first;
      for (const Schedule& schedule : all_schedules(1)) {
        SCOPED_TRACE(schedule);
        const std::vector<float> out = mixed_product(a, b, form, kEps, schedule);
        EXPECT_TRUE(row_close(out.data() + dim, form.normalize ? oracle_normalized(c, kEps) : c, kTolerance<float>))
            << dim;
        first = first.empty() ? out : first;
        EXPECT_TRUE(hrr_testing::same_bits(out.data(), first.data(), 2 * dim)) << dim;
      }
    }
  }
}

template <typename S>
void check_against_the_cpu(int64_t dim) {
  SCOPED_TRACE(dim);
  const Rows<S> a(1, dim, 3);
  const Rows<S> b(1, dim, 4);
  auto on_cuda = poisoned<S>(static_cast<size_t>(dim));
  auto on_cpu = on_cuda;
  for (const Form& form : kAllForms) {
    BindParams params = binding_params(a, b, on_cuda, 1, form.product, form.normalize);
    run<S>(params);
    params.out = on_cpu.data();
    run_bind<S>(params, 0, 1);
    expect_rows_agree(on_cuda, on_cpu, dim);
  }
  for (const Form& form : kForms) {
    Gradients<S> gradients(1, dim, 5);
    gradients.product = form.product;
    gradients.normalize = form.normalize;
    BindBackwardParams params = gradients.params();
    run<S>(params);
    std::vector<S> cpu_a(static_cast<size_t>(dim));
    std::vector<S> cpu_b(static_cast<size_t>(dim));
    params.grad_a = cpu_a.data();
    params.grad_b = cpu_b.data();
    run_bind_backward<S>(params, 0, 1);
    expect_rows_agree(gradients.grad_a, cpu_a, dim);
    expect_rows_agree(gradients.grad_b, cpu_b, dim);
  }
  Records<S> records(1, 3, dim, 6);
  BindSuperposeParams params = records.params(on_cuda);
  run<S>(params);
  params.out = on_cpu.data();
  run_bind_superpose<S>(params, 0, 1);
  expect_rows_agree(on_cuda, on_cpu, dim);
}

TEST(MixedRows, AgreeWithTheCpu) {
  for (const int64_t dim : {45, 60, 1500, 16384}) {
    check_against_the_cpu<float>(dim);
  }
  check_against_the_cpu<double>(300);
  check_against_the_cpu<Half>(150);
  check_against_the_cpu<BFloat16>(75);
}

// Odd addresses and strides, a repeated operand, a row alone.
TEST(MixedRows, LayoutsGiveTheSameBits) {
  for (const int64_t dim : {15, 90, 700}) {
    const Rows<float> a(2, dim, 7);
    const Rows<float> b(3, dim, 8);
    for (const int64_t shift : {0, 1, 2}) {
      const int64_t stride = dim + shift;
      std::vector<float> a_memory(static_cast<size_t>(2 * stride + shift), 1e9f);
      std::vector<float> b_memory(static_cast<size_t>(3 * stride + shift), 1e9f);
      for (int64_t r = 0; r < 3; ++r) {
        std::copy_n(a.row(r % 2), dim, a_memory.data() + shift + r % 2 * stride);
        std::copy_n(b.row(r), dim, b_memory.data() + shift + r * stride);
      }
      auto out = poisoned<float>(static_cast<size_t>(6 * dim + shift));
      BindParams params = binding_params(a, b, out, 6);
      params.a = a_memory.data() + shift;
      params.b = b_memory.data() + shift;
      params.out = out.data() + shift;
      params.map = RowMap{};
      params.map.ndim = 2;
      params.map.sizes[0] = 3;
      params.map.sizes[1] = 2;
      params.map.strides[0][1] = stride;
      params.map.strides[1][0] = stride;
      run<float>(params);
      for (int64_t r = 0; r < 6; ++r) {
        auto alone = poisoned<float>(static_cast<size_t>(dim));
        BindParams one = binding_params(a, b, alone, 1);
        one.a = a.row(r % 2);
        one.b = b.row(r / 2);
        run<float>(one);
        EXPECT_TRUE(hrr_testing::same_bits(out.data() + shift + r * dim, alone.data(), dim)) << dim << " row " << r;
      }
    }
  }
}

TEST(MixedRows, ANonFiniteRowIsNanAndLeavesItsNeighbours) {
  for (const int64_t dim : {45, 100}) {
    Rows<float> a(4, dim, 9);
    Rows<float> b(4, dim, 10);
    const std::vector<float> clean = mixed_product(a, b, kAllForms[0]);
    a.row(1)[dim - 1] = NAN;
    b.row(3)[dim / 2] = INFINITY;
    const std::vector<float> out = mixed_product(a, b, kAllForms[0]);
    Gradients<float> gradients(1, dim, 11);
    gradients.a.row(0)[2] = INFINITY;
    run<float>(gradients.params());
    EXPECT_TRUE(hrr_testing::all_nan(gradients.grad_b.data(), dim));
    EXPECT_TRUE(std::isfinite(gradients.grad_a[0]));
    for (int64_t r = 0; r < 4; ++r) {
      if (r % 2 == 1) {
        EXPECT_TRUE(hrr_testing::all_nan(out.data() + r * dim, dim)) << dim << " row " << r;
      } else {
        EXPECT_TRUE(hrr_testing::same_bits(out.data() + r * dim, clean.data() + r * dim, dim)) << dim << " row " << r;
      }
    }
  }
}

// Magnitudes whose spectra, products or norms leave the range of float, and rows of zeros.
TEST(MixedRows, AnyRangeIsKept) {
  struct Case {
    double a, b;
  };
  for (const int64_t dim : {45, 100}) {
    for (const Case& scale :
         {Case{1e-30, 1e30}, Case{1e30, 1e30}, Case{1e-30, 1e-30}, Case{1e-8, 1e8}, Case{1e38, 1}}) {
      const Rows<float> a(1, dim, 12, scale.a);
      const Rows<float> b(1, dim, 13, scale.b);
      const Exact c = oracle_product(Product::kConvolution, a.exact(0), b.exact(0));
      EXPECT_TRUE(row_close(mixed_product(a, b, kAllForms[2], 0).data(), oracle_normalized(c, 0), kTolerance<float>));
      if (scale.a * scale.b == 1) {
        EXPECT_TRUE(row_close(mixed_product(a, b, kAllForms[0]).data(), c, kTolerance<float>));
      }
    }
    const Rows<float> zeros(1, dim, 14, 0);
    const Rows<float> some(1, dim, 15);
    for (const float value : mixed_product(zeros, some, kAllForms[2])) {
      EXPECT_EQ(value, 0);
    }
    EXPECT_TRUE(hrr_testing::all_nan(mixed_product(zeros, some, kAllForms[2], 0).data(), dim));
    // The items of a record are brought to the range of their sum.
    Records<float> records(1, 4, dim, 16);
    for (int64_t k = 0; k < 3; ++k) {
      for (int64_t n = 0; n < dim; ++n) {
        records.a.row(k)[n] *= k == 1 ? 0 : k == 0 ? 1e-20f : 1e20f;
        records.b.row(k)[n] *= k == 0 ? 1e-20f : 1e12f;
      }
    }
    records.normalize = true;
    auto out = poisoned<float>(static_cast<size_t>(dim));
    run<float>(records.params(out));
    EXPECT_TRUE(row_close(out.data(), records.expected(0), kTolerance<float>)) << dim;
  }
}

template <typename S, typename Params>
std::vector<S> result_of(Params params) {
  auto out = poisoned<S>(static_cast<size_t>(params.rows * params.dim));
  params.out = out.data();
  run<S>(params);
  return out;
}

// Packed bins by the sums themselves.
Exact packed_oracle(const Exact& row) {
  const int64_t dim = static_cast<int64_t>(row.size());
  Exact packed(row.size());
  for (int64_t k = 0; 2 * k <= dim; ++k) {
    Complex<long double> bin{0, 0};
    for (int64_t n = 0; n < dim; ++n) {
      const Complex<double> w = root_of_unity(n * k % dim, dim);
      bin.re += row[static_cast<size_t>(n)] * w.re;
      bin.im += row[static_cast<size_t>(n)] * w.im;
    }
    packed[static_cast<size_t>(packed_real(k))] = bin.re;
    if (k > 0 && 2 * k < dim) {
      packed[static_cast<size_t>(packed_imaginary(k))] = bin.im;
    }
  }
  return packed;
}

// A row of ordinary numbers, one to scale up, one to scale down, zeros, and one that is not finite.
template <typename S>
Rows<S> difficult_rows(int64_t dim, unsigned seed) {
  Rows<S> rows = tame_rows<S>(5, dim, seed);
  const int shift = std::is_same_v<S, double> ? 600 : std::is_same_v<S, Half> ? 4 : 60;
  for (int64_t i = 0; i < dim; ++i) {
    rows.row(1)[i] = static_cast<S>(std::ldexp(static_cast<double>(rows.row(1)[i]), shift));
    rows.row(2)[i] = static_cast<S>(std::ldexp(static_cast<double>(rows.row(2)[i]), -shift));
    rows.row(3)[i] = static_cast<S>(0);
  }
  rows.row(4)[dim / 3] = static_cast<S>(std::numeric_limits<double>::infinity());
  return rows;
}

TEST(MixedRows, PackedSpectraMatchTheSumsAndComeBack) {
  for (const int64_t dim : {1, 2, 3, 5, 14, 45, 100, 1001, 1500}) {
    const Rows<float> a = difficult_rows<float>(dim, 21);
    PackedSpectrumParams params = packed_params(a, 5, false);
    const std::vector<float> packed = result_of<float>(params);
    params.in = packed.data();
    params.inverse = true;
    const std::vector<float> back = result_of<float>(params);
    for (int64_t r = 0; r < 4; ++r) {
      EXPECT_TRUE(row_close(packed.data() + r * dim, packed_oracle(a.exact(r)), kTolerance<float>)) << dim << " " << r;
      EXPECT_TRUE(row_close(back.data() + r * dim, a.exact(r), kTolerance<float>)) << dim << " row " << r;
    }
    EXPECT_TRUE(hrr_testing::all_nan(packed.data() + 4 * dim, dim)) << dim;
    EXPECT_TRUE(hrr_testing::all_nan(back.data() + 4 * dim, dim)) << dim;
  }
}

template <typename S>
void check_spectra_against_the_cpu(int64_t dim) {
  SCOPED_TRACE(dim);
  const int64_t rows = dim > 1024 ? 1 : 5;
  const Rows<S> a = difficult_rows<S>(dim, 22);
  const Rows<S> v = difficult_rows<S>(dim, 23);
  auto on_cpu = poisoned<S>(static_cast<size_t>(rows * dim));
  for (const SpectralMap kind : kMaps) {
    for (const double eps : {0.0, 0.9}) {
      SCOPED_TRACE(::testing::Message() << "map " << static_cast<int>(kind) << " eps " << eps);
      SpectralMapParams params = map_params(kind, a, v, rows);
      params.eps = eps;
      params.exponent = 0.75;
      params.order = kind == SpectralMap::kPower && eps > 0 ? 2 : 0;
      const std::vector<S> on_cuda = result_of<S>(params);
      params.out = on_cpu.data();
      run_spectral_map<S>(params, 0, rows);
      expect_rows_agree(on_cuda, on_cpu, dim, {}, 2 * kUlps);
    }
  }
  const double exponents[] = {2, 0.5, -0.25, 1, 1};
  SpectralMapParams power = map_params(SpectralMap::kPower, a, v, rows);
  power.exponents = exponents;
  power.map.strides[2][0] = 1;
  const std::vector<S> powers = result_of<S>(power);
  power.out = on_cpu.data();
  run_spectral_map<S>(power, 0, rows);
  expect_rows_agree(powers, on_cpu, dim, {}, 2 * kUlps);

  const Rows<S> items(2 * 4, dim, 24);
  MultibindParams multibind = multibind_params(items, 2, 4);
  const std::vector<S> products = result_of<S>(multibind);
  on_cpu.resize(static_cast<size_t>(2 * dim));
  multibind.out = on_cpu.data();
  run_multibind<S>(multibind, 0, 2);
  expect_rows_agree(products, on_cpu, dim);

  for (const Product product : {Product::kConvolution, Product::kCorrelation}) {
    BindParams binding = binding_params(a, v, on_cpu, 1, product);
    run_bind<S>(binding, 0, 1);
    on_cpu.resize(static_cast<size_t>(dim));
    const std::vector<S> packed = result_of<S>(packed_params(v, 1, false));
    const std::vector<S> with_spectrum = result_of<S>(spectrum_bind_params(a, packed.data(), 1, product));
    expect_rows_agree(with_spectrum, on_cpu, dim, {}, 2 * kUlps);
    on_cpu.resize(static_cast<size_t>(2 * dim));
  }
}

TEST(MixedRows, SpectraAgreeWithTheCpu) {
  for (const int64_t dim : {1, 2, 3, 6, 45, 100, 1000, 5000}) {
    check_spectra_against_the_cpu<float>(dim);
  }
  check_spectra_against_the_cpu<double>(75);
  check_spectra_against_the_cpu<double>(300);
}

// Bins that are small on the way and large in the end keep their digits.
TEST(MixedRows, ProductsKeepBinsThatAreSmallOnTheWay) {
  for (const int64_t dim : {45, 90, 1500}) {
    const Rows<float> rows = rows_of_a_bin_that_returns(dim);
    const std::vector<float> out = result_of<float>(multibind_params(rows, 1, 6));
    EXPECT_TRUE(row_close(out.data(), product_of(rows, 6), 200 * kTolerance<float>)) << dim;
  }
}

// Of a product of items far from 1 nothing is lost on the way.
TEST(MixedRows, ManyItemsOfAnyRange) {
  for (const int64_t dim : {45, 90}) {
    Rows<float> items(4, dim, 25);
    Exact expected = items.exact(0);
    const float scales[] = {1e30f, 1e25f, 1e-30f, 1e-25f};
    for (int64_t k = 0; k < 4; ++k) {
      for (int64_t n = 0; n < dim; ++n) {
        items.row(k)[n] *= scales[k];
      }
      expected = k == 0 ? items.exact(0) : oracle_product(Product::kConvolution, expected, items.exact(k));
    }
    const std::vector<float> out = result_of<float>(multibind_params(items, 1, 4));
    EXPECT_TRUE(row_close(out.data(), expected, kTolerance<float>)) << dim;
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
