// The public C++ functions: values, dtypes, broadcasting, out forms, Meta, threads.
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <ctime>
#include <string>
#include <thread>

#include "direct.h"

namespace torch_hrr::testing {
namespace {

const std::vector<int64_t> kDims = {1, 5, 16, 17, 64, 96, 100, 512, 1000};
// Padded to a long transform, and beyond the transforms of our own.
const std::vector<int64_t> kLongDims = {5000, 600000};

double tolerance_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 1e-13;
    case at::kHalf:
      return 5e-3;
    case at::kBFloat16:
      return 3e-2;
    default:
      return 1e-5;
  }
}

class Api : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(Api, EqualsTheDefinitions) {
  const at::ScalarType dtype = GetParam();
  const double tolerance = tolerance_of(dtype);
  for (const int64_t dim : kDims) {
    SCOPED_TRACE(::testing::Message() << "dim " << dim);
    const Tensor a = random({3, dim}, 1, dtype);
    const Tensor b = random({3, dim}, 2, dtype);
    const Tensor weights = random({3}, 3, dtype);
    const Tensor wide_a = a.to(at::kDouble);
    const Tensor wide_b = b.to(at::kDouble);
    const Tensor c = direct_bind(wide_a, wide_b);
    const Tensor bound = bind(a, b);
    EXPECT_EQ(bound.scalar_type(), dtype);
    EXPECT_LE(relative_error(bound, c), tolerance);
    EXPECT_LE(relative_error(unbind(a, b), direct_unbind(wide_a, wide_b)), tolerance);
    EXPECT_LE(relative_error(bind_normalize(a, b), direct_normalize(c)), tolerance);
    EXPECT_LE(relative_error(bind_normalize(a, b, 1e4), c / 1e4), tolerance);
    const Tensor wide_weights = weights.to(at::kDouble);
    EXPECT_LE(relative_error(superpose(a, weights, false), direct_superpose(wide_a, wide_weights)), tolerance);
    EXPECT_LE(relative_error(superpose(a), direct_normalize(direct_superpose(wide_a, std::nullopt))), tolerance);
    EXPECT_LE(relative_error(bind_superpose(a, b, weights), direct_superpose(c, wide_weights)), tolerance);
    EXPECT_LE(
        relative_error(bind_superpose(a, b, std::nullopt, true), direct_normalize(direct_superpose(c, std::nullopt))),
        tolerance);
  }
}

TEST_P(Api, PacksSpectraAndMultipliesByThem) {
  const at::ScalarType dtype = GetParam();
  const double tolerance = tolerance_of(dtype);
  for (const int64_t dim : kDims) {
    SCOPED_TRACE(::testing::Message() << "dim " << dim);
    const Tensor a = random({3, dim}, 6, dtype);
    const Tensor b = random({3, dim}, 7, dtype);
    const Tensor packed = spectrum(b);
    EXPECT_EQ(packed.scalar_type(), dtype);
    const Tensor parts = at::view_as_real(at::fft_rfft(b.to(at::kDouble))).flatten(-2);
    const Tensor want = at::cat({parts.narrow(-1, 0, 1), parts.narrow(-1, 2, dim - 1)}, -1);
    EXPECT_LE(relative_error(packed, want), tolerance);
    const Tensor row = from_spectrum(packed);
    EXPECT_LE(relative_error(row, b.to(at::kDouble)), tolerance);
    const Tensor wide_a = a.to(at::kDouble);
    const Tensor wide_b = from_spectrum(packed.to(at::kDouble));
    EXPECT_LE(relative_error(bind_spectrum(a, packed), direct_bind(wide_a, wide_b)), tolerance);
    EXPECT_LE(relative_error(unbind_spectrum(a, packed), direct_unbind(wide_a, wide_b)), tolerance);
  }
}

// At a few n: the whole matrix of shifts would not fit the memory.
TEST_P(Api, EqualsTheDefinitionsOnLongRows) {
  const at::ScalarType dtype = GetParam();
  for (const int64_t dim : kLongDims) {
    const Tensor a = random({2, dim}, 4, dtype);
    const Tensor b = random({2, dim}, 5, dtype);
    const Tensor wide_a = a.to(at::kDouble);
    const Tensor wide_b = b.to(at::kDouble);
    const Tensor bound = bind(a, b).to(at::kDouble);
    const Tensor unbound = unbind(a, b).to(at::kDouble);
    const double tolerance = tolerance_of(dtype) * std::sqrt(static_cast<double>(dim));
    for (const int64_t n : {int64_t{0}, int64_t{1}, dim / 2 + 3, dim - 1}) {
      const Tensor want_bound = (wide_a * wide_b.flip(-1).roll(n + 1, -1)).sum(-1);
      const Tensor want_unbound = (wide_a.roll(-n, -1) * wide_b).sum(-1);
      EXPECT_LE((bound.select(-1, n) - want_bound).abs().max().item<double>(), tolerance) << dim << " at " << n;
      EXPECT_LE((unbound.select(-1, n) - want_unbound).abs().max().item<double>(), tolerance) << dim << " at " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Api, ::testing::Values(at::kFloat, at::kDouble, at::kHalf, at::kBFloat16),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST(ApiShapes, LeadingDimensionsBroadcast) {
  const Tensor a = random({4, 1, 3, 24}, 6);
  const Tensor b = random({5, 1, 24}, 7);
  EXPECT_LE(relative_error(bind(a, b), direct_bind(a, b)), 1e-13);
  EXPECT_LE(relative_error(bind(b, a), direct_bind(b, a)), 1e-13);
  EXPECT_LE(relative_error(unbind(a, b), direct_unbind(a, b)), 1e-13);
  EXPECT_LE(relative_error(bind(a, random({24}, 8)), direct_bind(a, random({24}, 8))), 1e-13);
  // K broadcasts too: one role for every item, a weight for every record.
  EXPECT_LE(
      relative_error(bind_superpose(a, b, random({5, 3}, 9)), direct_superpose(direct_bind(a, b), random({5, 3}, 9))),
      1e-13);
  EXPECT_LE(
      relative_error(superpose(a, random({2, 1, 1, 3}, 10), false), direct_superpose(a, random({2, 1, 1, 3}, 10))),
      1e-13);
}

TEST(ApiShapes, EmptyBatchesAndEmptySumsWork) {
  EXPECT_EQ(bind(at::zeros({0, 3, 8}), at::zeros({3, 8})).sizes(), (std::vector<int64_t>{0, 3, 8}));
  EXPECT_TRUE(superpose(at::zeros({2, 0, 8})).equal(at::zeros({2, 8})));
  EXPECT_TRUE(bind_superpose(at::zeros({2, 0, 8}), at::zeros({0, 8})).equal(at::zeros({2, 8})));
}

TEST(ApiShapes, LayoutChangesNoBit) {
  const Tensor a = random({4, 6, 40}, 11, at::kFloat);
  const Tensor b = random({4, 6, 40}, 12, at::kFloat);
  const Tensor want = bind(a, b);
  EXPECT_TRUE(same_bits(bind(a.transpose(0, 1).contiguous().transpose(0, 1), b), want));
  EXPECT_TRUE(same_bits(bind(a, b.transpose(0, 2).contiguous().transpose(0, 2)), want));
  EXPECT_TRUE(same_bits(bind(at::constant_pad_nd(a, {1, 2}).narrow(-1, 1, 40), b), want));
  EXPECT_TRUE(same_bits(bind(a.select(0, 1), b.select(0, 1)), want.select(0, 1)));
}

TEST(ApiDtypes, MixedTypesPromote) {
  const Tensor a = random({2, 32}, 13);
  const Tensor b = random({2, 32}, 14);
  EXPECT_EQ(bind(a.to(at::kHalf), b.to(at::kFloat)).scalar_type(), at::kFloat);
  EXPECT_EQ(bind(a.to(at::kFloat), b).scalar_type(), at::kDouble);
  EXPECT_EQ(unbind(a.to(at::kHalf), b.to(at::kBFloat16)).scalar_type(), at::kFloat);
  EXPECT_EQ(superpose(a.to(at::kBFloat16), random({2}, 15, at::kFloat)).scalar_type(), at::kFloat);
  EXPECT_TRUE(same_bits(bind(a.to(at::kFloat), b), bind(a.to(at::kFloat).to(at::kDouble), b)));
}

TEST(ApiOut, WritesTheSameBits) {
  const Tensor a = random({3, 5, 64}, 16, at::kFloat);
  const Tensor b = random({5, 64}, 17, at::kFloat);
  const Tensor weights = random({5}, 18, at::kFloat);
  const auto check = [](const Tensor& want, const auto& write) {
    Tensor out = at::full_like(want, 7);
    write(out);
    EXPECT_TRUE(same_bits(out, want));
    Tensor strided = at::full({64, want.numel() / 64}, 7, want.options()).t();
    strided = strided.unflatten(0, want.sizes().slice(0, static_cast<size_t>(want.dim()) - 1));
    EXPECT_FALSE(strided.is_contiguous());
    const auto version = strided._version();
    write(strided);
    EXPECT_TRUE(same_bits(strided, want)) << "strided";
    EXPECT_GT(strided._version(), version) << "a write in place changes the version";
  };
  check(bind(a, b), [&](Tensor& out) { bind_out(out, a, b); });
  check(unbind(a, b), [&](Tensor& out) { unbind_out(out, a, b); });
  check(bind_normalize(a, b, 0.5), [&](Tensor& out) { bind_normalize_out(out, a, b, 0.5); });
  check(superpose(a, weights, false), [&](Tensor& out) { superpose_out(out, a, weights, false); });
}

TEST(ApiMeta, GivesShapesWithoutData) {
  const at::TensorOptions meta = at::TensorOptions(at::kMeta).dtype(at::kHalf);
  const Tensor a = at::empty({4, 1, 512}, meta);
  const Tensor b = at::empty({3, 512}, meta.dtype(at::kFloat));
  const Tensor bound = bind(a, b);
  EXPECT_TRUE(bound.is_meta());
  EXPECT_EQ(bound.scalar_type(), at::kFloat);
  EXPECT_EQ(bound.sizes(), (std::vector<int64_t>{4, 3, 512}));
  EXPECT_EQ(bind_normalize(a, b).sizes(), bound.sizes());
  EXPECT_EQ(superpose(b).sizes(), (std::vector<int64_t>{512}));
  EXPECT_EQ(bind_superpose(a, b).sizes(), (std::vector<int64_t>{4, 512}));
}

double cpu_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// parallel_for stays serial, without a word, in a file that is not compiled for OpenMP: then this thread would do it
// all.
TEST(ApiThreads, RowsAreSharedAmongThreads) {
  const int before = at::get_num_threads();
  const Tensor a = random({2000, 1024}, 19, at::kFloat);
  const Tensor b = random({2000, 1024}, 20, at::kFloat);
  Tensor out = at::empty_like(a);
  at::set_num_threads(4);
  bind_out(out, a, b);
  const double process = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  const double own = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
  for (int repeat = 0; repeat < 4; ++repeat) {
    bind_out(out, a, b);
  }
  const double own_part = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - own;
  const double all = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - process;
  at::set_num_threads(before);
  EXPECT_LT(own_part, 0.7 * all) << own_part << " s of " << all << " s were this thread's";
}

TEST(ApiThreads, NumberChangesNoBit) {
  const int before = at::get_num_threads();
  for (const int64_t dim : {64, 100, 5000, 600000}) {
    const int64_t rows = dim > 5000 ? 1 : 40;
    const Tensor a = random({rows, 2, dim}, 21, at::kFloat);
    const Tensor b = random({rows, 2, dim}, 22, at::kFloat);
    at::set_num_threads(1);
    const std::vector<Tensor> want = {bind(a, b), bind_normalize(a, b), superpose(a), bind_superpose(a, b)};
    for (const int threads : {2, 3, 5}) {
      at::set_num_threads(threads);
      const std::vector<Tensor> got = {bind(a, b), bind_normalize(a, b), superpose(a), bind_superpose(a, b)};
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(same_bits(got[i], want[i])) << threads << " threads, dim " << dim << ", operator " << i;
      }
    }
  }
  at::set_num_threads(before);
}

TEST(ApiThreads, MayCallAtOnce) {
  const Tensor a = random({8, 2048}, 23, at::kFloat);
  const Tensor b = random({8, 2048}, 24, at::kFloat);
  std::vector<Tensor> results(6);
  std::vector<std::thread> threads;
  for (Tensor& result : results) {
    threads.emplace_back([&] {
      const c10::InferenceMode inference;
      result = bind(a, b);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Tensor& result : results) {
    EXPECT_TRUE(same_bits(result, results.front()));
  }
}

TEST(ApiRowPlan, SaysWhichKernelServesRows) {
  const std::string text = row_plan("bind", 1000);
  EXPECT_EQ(text, torch_hrr_row_plan("bind", 1000, "float32", "cpu"));
  EXPECT_EQ(text.find("bind of float32 rows of 1000 on the CPU"), 0u) << text;
  EXPECT_NE(row_plan("unitary", 1003, "float64").find("Bluestein"), std::string::npos);
  EXPECT_NE(row_plan("bind", 8192, "float16", "cuda").find("4096 complex numbers"), std::string::npos);
  EXPECT_THROW(row_plan("permute", 64), c10::ValueError);
  EXPECT_THROW(row_plan("bind", 0), c10::ValueError);
  EXPECT_THROW(row_plan("bind", 64, "int64"), c10::TypeError);
  EXPECT_THROW(row_plan("bind", 64, "float32", "meta"), c10::ValueError);
  EXPECT_EQ(std::string(torch_hrr_row_plan("bind", 0, "float32", "cpu")), "error=plan: dim must be at least 1, got 0");
}

TEST(ApiBuildInfo, NamesWhatWasBuilt) {
  const std::string info = torch_hrr_build_info();
  for (const char* key : {"version=", "\ntorch=2.", "\ncuda=", "\nisas=scalar", "\nprocessor=", "\nisa="}) {
    EXPECT_NE(info.find(key), std::string::npos) << info;
  }
}

}  // namespace
}  // namespace torch_hrr::testing
