// The row transform alone, every length, against the DFT sum.
#include "tests/cuda_on_host/hrr_testing.h"

#include "kernels/fft/roots.h"

namespace torch_hrr::kernels {
namespace {

using namespace hrr_testing;

// Bin k = thread + j M/4 of v[j], mirrored bins in the upper half; then the inverse of the same bins.
template <typename T, int kLog2>
__global__ void transform_kernel(const Complex<T>* in, Complex<T>* spectrum, Complex<T>* back,
                                 const TwiddlePoint<T>* twiddles) {
  const RowFft<T, kLog2> fft(twiddles);
  constexpr int kPoints = fft.kPoints;
  constexpr int kRun = fft.kRun;
  constexpr int kRuns = kPointsPerThread / kRun;
  const int64_t offset = (static_cast<int64_t>(blockIdx.x) * fft.rows_per_block() + fft.row) * kPoints;
  Complex<T> v[kPointsPerThread];
  for (int j = 0; j < kRuns; ++j) {
    for (int g = 0; g < kRun; ++g) {
      v[g * kRuns + j] = in[offset + fft.time_point(j) + g];
    }
  }
  fft.forward(v);
  for (int j = 0; j < 4; ++j) {
    spectrum[offset + fft.thread + j * (kPoints / 4)] = v[j];
    spectrum[offset + fft.mirror_thread() + j * (kPoints / 4)] = v[4 + j];
  }
  fft.inverse(v);
  for (int j = 0; j < kRuns; ++j) {
    for (int g = 0; g < kRun; ++g) {
      back[offset + fft.time_point(j) + g] = v[g * kRuns + j];
    }
  }
}

template <typename T>
double relative_error(const std::vector<Complex<T>>& x, const std::vector<Complex<double>>& expected) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += std::pow(x[i].re - expected[i].re, 2) + std::pow(x[i].im - expected[i].im, 2);
    norm += std::pow(expected[i].re, 2) + std::pow(expected[i].im, 2);
  }
  return std::sqrt(error / norm);
}

template <typename T, int kLog2>
void check_transform(double tolerance) {
  constexpr int kPoints = 1 << kLog2;
  constexpr int kThreads = kPoints / kPointsPerThread < 32 ? 64 : kPoints / kPointsPerThread;
  constexpr int kRows = 2 * kThreads / (kPoints / kPointsPerThread);  // two blocks
  SCOPED_TRACE(kPoints);
  std::mt19937 generator(kLog2);
  std::normal_distribution<double> normal;
  std::vector<Complex<T>> in(static_cast<size_t>(kRows) * kPoints);
  std::vector<Complex<double>> expected(in.size());
  std::vector<Complex<double>> expected_back(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = {static_cast<T>(normal(generator)), static_cast<T>(normal(generator))};
    expected_back[i] = {in[i].re * static_cast<double>(kPoints), in[i].im * static_cast<double>(kPoints)};
  }
  std::vector<Complex<double>> roots;
  for (int i = 0; i < kPoints; ++i) {
    roots.push_back(root_of_unity(i, kPoints));
  }
  for (int row = 0; row < kRows; ++row) {
    for (int k = 0; k < kPoints; ++k) {
      Complex<long double> sum{0, 0};
      for (int n = 0; n < kPoints; ++n) {
        const Complex<T> x = in[static_cast<size_t>(row * kPoints + n)];
        const Complex<double> w = roots[static_cast<size_t>(static_cast<int64_t>(n) * k % kPoints)];
        sum.re += static_cast<long double>(x.re) * w.re - static_cast<long double>(x.im) * w.im;
        sum.im += static_cast<long double>(x.re) * w.im + static_cast<long double>(x.im) * w.re;
      }
      expected[static_cast<size_t>(row * kPoints + k)] = {static_cast<double>(sum.re), static_cast<double>(sum.im)};
    }
  }
  for (const Schedule& schedule : all_schedules(1)) {
    SCOPED_TRACE(schedule);
    auto spectrum = poisoned<Complex<T>>(in.size());
    auto back = poisoned<Complex<T>>(in.size());
    host_launch("transform", transform_kernel<T, kLog2>, dim3(2), dim3(kThreads),
                RowFft<T, kLog2>::shared_bytes(kThreads), schedule, in.data(), spectrum.data(), back.data(),
                twiddle_table<T>());
    EXPECT_LT(relative_error(spectrum, expected), tolerance);
    EXPECT_LT(relative_error(back, expected_back), tolerance);
  }
}

template <typename T, int kLog2 = kMinDeviceFftLog2>
void check_all_transforms(double tolerance) {
  check_transform<T, kLog2>(tolerance);
  if constexpr (kLog2 < kMaxDeviceFftLog2) {
    check_all_transforms<T, kLog2 + 1>(tolerance);
  }
}

TEST(DeviceFft, MatchesTheSumAndInvertsFloat) {
  check_all_transforms<float>(3e-7);
}

TEST(DeviceFft, MatchesTheSumAndInvertsDouble) {
  check_all_transforms<double>(1e-15);
}

TEST(DeviceFft, StagesMultiplyToTheLength) {
  for (int m = kMinDeviceFftLog2; m <= kMaxDeviceFftLog2; ++m) {
    for (const bool inverse : {false, true}) {
      const DeviceFftStages stages = device_fft_stages(m, inverse);
      EXPECT_EQ(stage_period(m, inverse, stages.count), 1 << m);
      EXPECT_EQ(stages.radix[inverse ? 0 : stages.count - 1], 4);
      EXPECT_EQ(stages.radix[inverse ? stages.count - 1 : 0], device_fft_stages(m, false).radix[0]);
    }
  }
}

TEST(DeviceFft, TwiddleTableIsWrittenWholeAndExact) {
  const float unwritten = 77;
  std::vector<TwiddlePoint<float>> table(kTwiddleTablePoints + 1, {unwritten, unwritten});
  fill_twiddle_table(table.data());
  for (int i = 0; i < kTwiddleTablePoints; ++i) {
    EXPECT_LT(std::abs(std::hypot(table[i].re, table[i].im) - 1), 1e-7f) << i;
  }
  EXPECT_EQ(table.back().re, unwritten);
  for (int64_t index = 0; index < 48; ++index) {
    const Complex<double> w = root_of_unity(index, 48);
    const long double angle = 2 * 3.141592653589793238462643383279502884L * index / 48;
    EXPECT_NEAR(w.re, static_cast<double>(std::cos(angle)), 1.2e-16) << index;
    EXPECT_NEAR(w.im, -static_cast<double>(std::sin(angle)), 1.2e-16) << index;
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
