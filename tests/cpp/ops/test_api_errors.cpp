// Bad arguments of the public C++ functions: the type of the error, its text, and that nothing was done.
#include <c10/util/Exception.h>

#include <functional>
#include <limits>
#include <string>

#include "direct.h"

namespace torch_hrr::testing {
namespace {

// The text of the error that a call throws; of exactly this type.
template <typename Error>
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_TRUE(typeid(error) == typeid(Error)) << "another type: " << error.what_without_backtrace();
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

#define EXPECT_ERROR(Error, text, call)                                 \
  do {                                                                  \
    const std::string message = error_of<Error>([&] { (void)(call); }); \
    EXPECT_EQ(message.substr(0, std::string(text).size()), text);       \
  } while (false)

Tensor floats(std::vector<int64_t> sizes, c10::DeviceType device = at::kCPU) {
  return at::ones(sizes, at::TensorOptions(device).dtype(at::kFloat));
}

// CPU and Meta look at arguments with the same code, so every error is expected of both.
class ApiErrors : public ::testing::TestWithParam<c10::DeviceType> {
 protected:
  static Tensor ones(std::vector<int64_t> sizes, at::ScalarType dtype = at::kFloat) {
    return at::ones(sizes, at::TensorOptions(GetParam()).dtype(dtype));
  }
};

TEST_P(ApiErrors, LengthsMustAgree) {
  EXPECT_ERROR(c10::ValueError, "bind: a and b must have the same last dimension, got 512 and 1000",
               bind(ones({2, 512}), ones({1000})));
  EXPECT_ERROR(c10::ValueError, "unbind: bound and role must have the same last dimension, got 8 and 1",
               unbind(ones({8}), ones({1})));
  EXPECT_ERROR(c10::ValueError, "bind_normalize: a and b must have the same last dimension, got 8 and 9",
               bind_normalize(ones({8}), ones({9})));
  EXPECT_ERROR(c10::ValueError, "bind_superpose: a and b must have the same last dimension, got 8 and 9",
               bind_superpose(ones({2, 8}), ones({2, 9})));
}

TEST_P(ApiErrors, RowsMustNotBeEmpty) {
  EXPECT_ERROR(c10::ValueError, "bind: a must have a last dimension of at least 1, got 0",
               bind(ones({2, 0}), ones({0})));
  EXPECT_ERROR(c10::ValueError, "superpose: vectors must have a last dimension of at least 1, got 0",
               superpose(ones({2, 0})));
}

TEST_P(ApiErrors, RanksMustSuffice) {
  EXPECT_ERROR(c10::ValueError, "bind: b must have at least 1 dimension [..., D], got 0", bind(ones({8}), ones({})));
  EXPECT_ERROR(c10::ValueError, "superpose: vectors must have at least 2 dimensions [..., K, D], got 1",
               superpose(ones({8})));
  EXPECT_ERROR(c10::ValueError, "superpose: weights must have at least 1 dimension [..., K], got 0",
               superpose(ones({2, 8}), ones({})));
  EXPECT_ERROR(c10::ValueError, "bind_superpose: b must have at least 2 dimensions [..., K, D], got 1",
               bind_superpose(ones({2, 8}), ones({8})));
}

TEST_P(ApiErrors, LeadingDimensionsMustBroadcast) {
  EXPECT_ERROR(c10::ValueError,
               "bind: the leading dimensions of a and b must broadcast, got sizes 2 and 3 at dimension 0",
               bind(ones({2, 8}), ones({3, 8})));
  EXPECT_ERROR(c10::ValueError,
               "superpose: weights and the dimensions [..., K] of the vectors must broadcast, got sizes 3 and 4",
               superpose(ones({3, 8}), ones({4})));
}

TEST_P(ApiErrors, TypesMustBeRealFloating) {
  EXPECT_ERROR(c10::TypeError, "bind: a must be float32, float64, float16 or bfloat16, got Long",
               bind(ones({8}, at::kLong), ones({8})));
  EXPECT_ERROR(c10::TypeError, "unbind: role must be float32, float64, float16 or bfloat16, got ComplexFloat",
               unbind(ones({8}), ones({8}, at::kComplexFloat)));
  EXPECT_ERROR(c10::TypeError, "superpose: weights must be float32, float64, float16 or bfloat16, got Bool",
               superpose(ones({2, 8}), ones({2}, at::kBool)));
}

TEST_P(ApiErrors, EpsMustBeANumber) {
  EXPECT_ERROR(c10::ValueError, "bind_normalize: eps must be a number >= 0, got -1",
               bind_normalize(ones({8}), ones({8}), -1));
  EXPECT_ERROR(c10::ValueError, "superpose: eps must be a number >= 0, got nan",
               superpose(ones({2, 8}), std::nullopt, true, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_ERROR(c10::ValueError, "bind_superpose: eps must be a number >= 0, got -1e-12",
               bind_superpose(ones({2, 8}), ones({2, 8}), std::nullopt, true, -1e-12));
}

TEST_P(ApiErrors, TensorsMustBeDefined) {
  EXPECT_ERROR(c10::TypeError, "bind: a must be a defined tensor, got an undefined one", bind(Tensor(), ones({8})));
  EXPECT_ERROR(c10::TypeError, "bind: b must be a defined tensor, got an undefined one", bind(ones({8}), Tensor()));
  EXPECT_ERROR(c10::TypeError, "bind_superpose: a must be a defined tensor, got an undefined one",
               bind_superpose(Tensor(), ones({2, 8})));
  EXPECT_THROW(bind(Tensor(), Tensor()), c10::Error);
  EXPECT_THROW(superpose(Tensor()), c10::Error);
}

TEST_P(ApiErrors, ResultsMustBeAddressable) {
  const Tensor a = ones({1, 1, 64}).expand({int64_t{1} << 40, 1, 64});
  const Tensor b = ones({1, 1, 64}).expand({1, int64_t{1} << 40, 64});
  EXPECT_ERROR(c10::ValueError, "bind: the result must have fewer than 2^60 elements, got sizes", bind(a, b));
}

TEST_P(ApiErrors, OutMustFit) {
  const Tensor a = ones({2, 8});
  const Tensor b = ones({8});
  Tensor out = ones({2, 8}, at::kDouble);
  EXPECT_ERROR(c10::TypeError, "bind: out must have dtype Float, got Double", bind_out(out, a, b));
  out = ones({8});
  EXPECT_ERROR(c10::ValueError, "unbind: out must have sizes [2, 8], got [8]", unbind_out(out, a, b));
  out = ones({2, 8});
  EXPECT_ERROR(c10::ValueError, "superpose: out must have sizes [8], got [2, 8]", superpose_out(out, a));
  out = Tensor();
  EXPECT_ERROR(c10::TypeError, "bind_normalize: out must be a defined tensor, got an undefined one",
               bind_normalize_out(out, a, b));
}

TEST_P(ApiErrors, OutTakesNoGradient) {
  const Tensor a = ones({2, 8}).requires_grad_();
  Tensor out = ones({2, 8});
  EXPECT_ERROR(c10::Error, "bind: out must not be given where a gradient is asked for", bind_out(out, a, ones({8})));
}

INSTANTIATE_TEST_SUITE_P(Devices, ApiErrors, ::testing::Values(at::kCPU, at::kMeta),
                         [](const auto& info) { return c10::DeviceTypeName(info.param, /*lower_case=*/true); });

TEST(ApiErrorsOfDevices, AllMustBeOne) {
  const Tensor cpu = floats({2, 8});
  const Tensor meta = floats({2, 8}, at::kMeta);
  EXPECT_ERROR(c10::Error, "bind: a and b must be on the same device, got cpu and meta", bind(cpu, meta));
  EXPECT_ERROR(c10::Error, "bind: a and b must be on the same device, got meta and cpu", bind(meta, cpu));
  EXPECT_ERROR(c10::Error, "superpose: vectors and weights must be on the same device, got meta and cpu",
               superpose(meta, floats({2})));
  EXPECT_ERROR(c10::Error, "superpose: vectors and weights must be on the same device, got cpu and meta",
               superpose(cpu, floats({2}, at::kMeta)));
  Tensor out = meta;
  EXPECT_ERROR(c10::Error, "bind: a and out must be on the same device, got cpu and meta", bind_out(out, cpu, cpu));
}

TEST(ApiErrorsOfLayouts, TensorsMustBeStrided) {
  const Tensor dense = floats({2, 8});
  EXPECT_THROW(bind(dense.to_sparse(), dense), c10::TypeError);
  EXPECT_THROW(bind(dense, dense.to_sparse()), c10::TypeError);
  EXPECT_THROW(superpose(dense.to_sparse_csr()), c10::TypeError);
}

TEST(ApiErrorsOfMemory, OutMustBeItsOwn) {
  Tensor a = floats({2, 8});
  EXPECT_ERROR(c10::Error, "bind: out must not share memory with a, got overlapping tensors",
               bind_out(a, a, floats({8})));
  EXPECT_ERROR(c10::Error, "unbind: out must not share memory with role, got overlapping tensors",
               unbind_out(a, floats({8}), a));
  Tensor expanded = floats({1, 8}).expand({2, 8});
  EXPECT_ERROR(c10::Error, "bind: out must not overlap itself, got an expanded tensor",
               bind_out(expanded, a, floats({8})));
}

TEST(ApiErrorsOfMemory, LeaveOutAsItWas) {
  const Tensor a = floats({2, 8});
  Tensor out = at::full({2, 8}, 7.0, at::kFloat);
  const auto version = out._version();
  EXPECT_THROW(bind_out(out, a, floats({9})), c10::ValueError);
  EXPECT_THROW(bind_normalize_out(out, a, a, -1), c10::ValueError);
  EXPECT_THROW(bind_out(out, a, floats({8}, at::kMeta)), c10::Error);
  EXPECT_TRUE(out.equal(at::full({2, 8}, 7.0, at::kFloat)));
  EXPECT_EQ(out._version(), version);
}

}  // namespace
}  // namespace torch_hrr::testing
