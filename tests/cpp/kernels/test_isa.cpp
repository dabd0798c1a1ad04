// The choice of the instruction set: TORCH_HRR_ISA, the tables of each, and the skipping of tests for one that
// this processor lacks.
#include "kernels/isa.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>

#include "kernels/fft/chirp_plan.h"
#include "kernels/hrr/circular_convolution.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
namespace {

constexpr const char* kVariable = "TORCH_HRR_ISA";

// What this build and the processor have, asked otherwise than by the code under test.
bool is_there(const std::string& isa) {
#if defined(KERNEL_HAS_avx2)
  if (isa == "avx2") {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  }
#endif
#if defined(KERNEL_HAS_avx512)
  if (isa == "avx512") {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
           __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
#endif
  return isa == "scalar";
}

class SkipsWhatTheProcessorLacks : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* forced = std::getenv(kVariable);
    if (forced != nullptr && (std::string(forced) == "avx2" || std::string(forced) == "avx512") && !is_there(forced)) {
      GTEST_SKIP() << "this build or processor has no " << forced;
    }
  }
};
[[maybe_unused]] const ::testing::Environment* const kEnvironment =
    ::testing::AddGlobalTestEnvironment(new SkipsWhatTheProcessorLacks);

// The choice is made once a process, so every case is one of its own.
class ActiveIsa : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
  }

  [[noreturn]] static void report_choice(const char* forced) {
    if (forced == nullptr) {
      unsetenv(kVariable);
    } else {
      setenv(kVariable, forced, 1);
    }
    try {
      const char* first = isa_name(active_isa());
      setenv(kVariable, "scalar", 1);
      std::fprintf(stderr, "chose %s then %s;", first, isa_name(active_isa()));
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "refused: %s;", error.what());
    }
    std::exit(0);
  }
  static std::string chosen_twice(const std::string& isa) {
    return "chose " + isa + " then " + isa + ";";
  }
};

TEST_F(ActiveIsa, IsTheOneInTheEnvironment) {
  for (const std::string isa : {"scalar", "avx2", "avx512"}) {
    if (is_there(isa)) {
      EXPECT_EXIT(report_choice(isa.c_str()), ::testing::ExitedWithCode(0), chosen_twice(isa));
    } else {
      EXPECT_EXIT(report_choice(isa.c_str()), ::testing::ExitedWithCode(0), "refused: TORCH_HRR_ISA: .*" + isa);
    }
  }
}

TEST_F(ActiveIsa, IsTheBestOneOtherwise) {
  const std::string best = is_there("avx512") ? "avx512" : is_there("avx2") ? "avx2" : "scalar";
  EXPECT_EXIT(report_choice(nullptr), ::testing::ExitedWithCode(0), chosen_twice(best));
  EXPECT_EXIT(report_choice(""), ::testing::ExitedWithCode(0), chosen_twice(best));
}

TEST_F(ActiveIsa, RefusesUnknownNames) {
  for (const std::string name : {"avx513", "AVX2", "avx2 ", "sse"}) {
    EXPECT_EXIT(report_choice(name.c_str()), ::testing::ExitedWithCode(0),
                "refused: TORCH_HRR_ISA must be scalar, avx2 or avx512, got " + name + ";");
  }
}

TEST(IsaNames, AreThoseOfTheEnvironment) {
  EXPECT_STREQ(isa_name(Isa::kScalar), "scalar");
  EXPECT_STREQ(isa_name(Isa::kAvx2), "avx2");
  EXPECT_STREQ(isa_name(Isa::kAvx512), "avx512");
}

TEST(Registry, HasOneTableOfRowKernelsAStorageType) {
  std::set<decltype(RowKernel<BindParams>::run)> entries;
  for (const Storage storage : {Storage::kFloat, Storage::kDouble, Storage::kHalf, Storage::kBFloat16}) {
    const RowKernel<BindParams>& kernel = kernel_table<RowKernel<BindParams>>(storage);
    EXPECT_EQ(&kernel, &kernel_table<RowKernel<BindParams>>(storage));
    entries.insert(kernel.run);
  }
  EXPECT_EQ(entries.size(), 4u);
}

TEST(Registry, HasATableForEveryInstructionSet) {
  std::set<decltype(ChirpKernels::transform)> entries{registered_for<ChirpKernels>(Isa::kScalar).transform};
  size_t built = 1;
#if defined(KERNEL_HAS_avx2)
  entries.insert(registered_for<ChirpKernels>(Isa::kAvx2).transform);
  ++built;
#endif
#if defined(KERNEL_HAS_avx512)
  entries.insert(registered_for<ChirpKernels>(Isa::kAvx512).transform);
  ++built;
#endif
  EXPECT_EQ(entries.size(), built);
  EXPECT_EQ(&kernel_table<ChirpKernels>(), &registered_for<ChirpKernels>(active_isa()));
}

}  // namespace
}  // namespace torch_hrr::kernels
