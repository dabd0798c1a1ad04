// Packed spectra and products with them, against direct sums in long double.
#include "kernels/hrr/packed_spectrum.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "kernels/fft/row_shape.h"
#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

constexpr long double kFullTurn = 6.283185307179586476925286766559L;
constexpr int64_t kDims[] = {32,   48,   64, 80,   96, 128, 160, 256, 400, 480, 512, 960,
                             1024, 2048, 40, 1000, 75, 100, 243, 392, 343, 500, 560, 1001};
// Transforms alone: rows side by side and Bluestein's sum.
constexpr int64_t kOtherDims[] = {1, 2, 3, 4, 5, 16, 22, 34, 101, 254};

// Memory between two pages whose every access faults.
class FencedMemory {
 public:
  explicit FencedMemory(int64_t bytes) : page_(sysconf(_SC_PAGESIZE)), bytes_((bytes + page_ - 1) / page_ * page_) {
    const auto size = static_cast<size_t>(bytes_ + 2 * page_);
    void* const memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::bad_alloc();
    }
    memory_ = static_cast<char*>(memory);
    if (mprotect(memory_ + page_, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE) != 0) {
      throw std::bad_alloc();
    }
  }
  FencedMemory(const FencedMemory&) = delete;
  FencedMemory& operator=(const FencedMemory&) = delete;
  ~FencedMemory() {
    munmap(memory_, static_cast<size_t>(bytes_ + 2 * page_));
  }

  // `count` elements right behind the first such page, or right before the last one.
  template <typename S>
  S* place(int64_t count, bool at_end) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(S));
    return reinterpret_cast<S*>(memory_ + page_ + (at_end ? bytes_ - bytes : 0));
  }

 private:
  int64_t page_;
  int64_t bytes_;
  char* memory_ = nullptr;
};

constexpr Product kProducts[] = {Product::kConvolution, Product::kCorrelation};

// cos and sin of 2 pi m / D
struct Turns {
  std::vector<long double> cosines, sines;
  explicit Turns(size_t dim) {
    for (size_t m = 0; m < dim; ++m) {
      const long double angle = kFullTurn * static_cast<long double>(m) / static_cast<long double>(dim);
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
  }
};

// A_0, Re A_1, Im A_1, ..., and A_{D/2} where D is even, with A_k = sum_n a[n] e^{-2 pi i nk/D}
std::vector<double> packed(const std::vector<double>& row) {
  const size_t dim = row.size();
  const Turns turns(dim);
  std::vector<double> result(dim);
  for (size_t k = 0; k <= dim / 2; ++k) {
    long double re = 0;
    long double im = 0;
    for (size_t n = 0; n < dim; ++n) {
      re += static_cast<long double>(row[n]) * turns.cosines[n * k % dim];
      im -= static_cast<long double>(row[n]) * turns.sines[n * k % dim];
    }
    result[k == 0 ? 0 : 2 * k - 1] = static_cast<double>(re);
    if (k > 0 && 2 * k < dim) {
      result[2 * k] = static_cast<double>(im);
    }
  }
  return result;
}

// a[n] = sum over all D bins of A_k e^{2 pi i nk/D} / D
std::vector<double> unpacked(const std::vector<double>& spectrum) {
  const size_t dim = spectrum.size();
  const Turns turns(dim);
  std::vector<double> row(dim);
  for (size_t n = 0; n < dim; ++n) {
    long double sum = static_cast<long double>(spectrum[0]);
    if (dim % 2 == 0) {
      sum += static_cast<long double>(spectrum[dim - 1]) * (n % 2 == 0 ? 1.0L : -1.0L);
    }
    for (size_t k = 1; 2 * k < dim; ++k) {
      sum += 2 * (static_cast<long double>(spectrum[2 * k - 1]) * turns.cosines[n * k % dim] -
                  static_cast<long double>(spectrum[2 * k]) * turns.sines[n * k % dim]);
    }
    row[n] = static_cast<double>(sum / static_cast<long double>(dim));
  }
  return row;
}

std::vector<double> moved_by(std::vector<double> row, int shift) {
  for (double& value : row) {
    value = std::ldexp(value, shift);
  }
  return row;
}

template <typename S>
Buffer<S> scaled_values(const Buffer<S>& values, int shift) {
  Buffer<S> moved(values.size());
  for (int64_t i = 0; i < values.size(); ++i) {
    moved.data()[i] = from_double<S>(std::ldexp(to_double(values.data()[i]), shift));
  }
  return moved;
}

// Shifts that the storage holds and whose squares leave the compute type.
template <typename S>
std::vector<int> shifts() {
  return std::is_same_v<S, double> ? std::vector<int>{-900, -40, 40, 900}
         : std::is_same_v<S, Half> ? std::vector<int>{-4, 4}
                                   : std::vector<int>{-100, -20, 20, 110};
}

template <typename S>
class PackedSpectra : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 3;

  static PackedSpectrumParams params_of(bool inverse, int64_t dim, const S* in, S* out) {
    PackedSpectrumParams params;
    params.in = in;
    params.out = out;
    params.rows = kRows;
    params.dim = dim;
    params.map = row_map(kRows, {dim});
    params.inverse = inverse;
    return params;
  }

  static Buffer<S> transformed(bool inverse, int64_t dim, const Buffer<S>& in) {
    Buffer<S> out(kRows * dim);
    run_packed_spectrum<S>(params_of(inverse, dim, in.data(), out.data()), 0, kRows);
    return out;
  }

  static SpectrumBindParams params_of(Product product, int64_t dim, const S* a, const S* spectrum, S* out) {
    SpectrumBindParams params;
    params.a = a;
    params.spectrum = spectrum;
    params.out = out;
    params.rows = kRows;
    params.dim = dim;
    params.map = row_map(kRows, {dim, dim});
    params.product = product;
    return params;
  }

  static Buffer<S> bound(Product product, int64_t dim, const Buffer<S>& a, const Buffer<S>& spectrum) {
    Buffer<S> out(kRows * dim);
    run_bind_spectrum<S>(params_of(product, dim, a.data(), spectrum.data(), out.data()), 0, kRows);
    return out;
  }
};
TYPED_TEST_SUITE(PackedSpectra, StorageTypes);

TYPED_TEST(PackedSpectra, MatchTheDirectSums) {
  using S = TypeParam;
  std::vector<int64_t> dims(std::begin(kDims), std::end(kDims));
  dims.insert(dims.end(), std::begin(kOtherDims), std::end(kOtherDims));
  for (const int64_t dim : dims) {
    SCOPED_TRACE(::testing::Message() << "dim " << dim);
    const Buffer<S> in = random_values<S>(this->kRows * dim, 91);
    const Buffer<S> bins = this->transformed(false, dim, in);
    const Buffer<S> rows = this->transformed(true, dim, in);
    for (int64_t r = 0; r < this->kRows; ++r) {
      const std::vector<double> row = row_at(in.data() + r * dim, dim);
      EXPECT_TRUE(is_close(bins.data() + r * dim, packed(row))) << "row " << r;
      EXPECT_TRUE(is_close(rows.data() + r * dim, unpacked(row))) << "row " << r;
    }
  }
}

// Whole vectors write beyond the bins of a column; the rows beside this one are other threads'.
TYPED_TEST(PackedSpectra, WriteTheirRowAlone) {
  using S = TypeParam;
  for (int64_t dim = 1; dim <= 900; ++dim) {
    const Buffer<S> in = random_values<S>(this->kRows * dim, 90);
    for (const bool inverse : {false, true}) {
      Buffer<S> out(this->kRows * dim);
      std::fill_n(out.data(), out.size(), from_double<S>(7));
      run_packed_spectrum<S>(this->params_of(inverse, dim, in.data(), out.data()), 1, 2);
      for (const int64_t r : {int64_t{0}, int64_t{2}}) {
        EXPECT_TRUE(
            std::all_of(out.data() + r * dim, out.data() + (r + 1) * dim, [](S x) { return to_double(x) == 7; }))
            << "dim " << dim << " row " << r;
      }
    }
  }
}

// Instructions that leave out lanes may fault where these lie. Short rows and the ends of packed rows go by such
// instructions.
TYPED_TEST(PackedSpectra, TouchTheirMemoryAlone) {
  using S = TypeParam;
  std::vector<int64_t> dims = {49,  64,  100, 101, 128, 160, 256, 320, 336,  343,
                               375, 384, 392, 441, 512, 560, 600, 999, 1000, 1024};
  for (int64_t dim = 1; dim <= 34; ++dim) {
    dims.push_back(dim);
  }
  constexpr int64_t kMostRows = 17;
  FencedMemory in(kMostRows * 1024 * static_cast<int64_t>(sizeof(S)));
  FencedMemory out(kMostRows * 1024 * static_cast<int64_t>(sizeof(S)));
  for (const int64_t dim : dims) {
    for (const int64_t rows : {int64_t{1}, int64_t{3}, int64_t{14}, kMostRows}) {
      const Buffer<S> values = random_values<S>(rows * dim, 89);
      for (const bool inverse : {false, true}) {
        PackedSpectrumParams params = this->params_of(inverse, dim, nullptr, nullptr);
        params.rows = rows;
        params.map = row_map(rows, {dim});
        Buffer<S> expected(rows * dim);
        params.in = values.data();
        params.out = expected.data();
        run_packed_spectrum<S>(params, 0, rows);
        for (const bool at_end : {false, true}) {
          S* const source = in.place<S>(rows * dim, at_end);
          S* const target = out.place<S>(rows * dim, at_end);
          std::copy_n(values.data(), rows * dim, source);
          params.in = source;
          params.out = target;
          run_packed_spectrum<S>(params, 0, rows);
          EXPECT_EQ(std::memcmp(target, expected.data(), static_cast<size_t>(rows * dim) * sizeof(S)), 0)
              << "dim " << dim << " rows " << rows << (inverse ? " inverse" : "");
        }
      }
    }
  }
}

TYPED_TEST(PackedSpectra, ComeBack) {
  using S = TypeParam;
  for (const int64_t dim : {int64_t{32}, int64_t{960}, int64_t{1001}, int64_t{5463}, int64_t{16384}, int64_t{65536}}) {
    const Buffer<S> in = random_values<S>(this->kRows * dim, 92, 1 / std::sqrt(static_cast<double>(dim)));
    const Buffer<S> back = this->transformed(true, dim, this->transformed(false, dim, in));
    for (int64_t r = 0; r < this->kRows; ++r) {
      // Every bin is rounded to the storage type, an error that spreads over the row.
      const double tolerance = 2 * StorageTraits<S>::kTolerance + StorageTraits<S>::kRounding;
      EXPECT_TRUE(is_close(back.data() + r * dim, row_at(in.data() + r * dim, dim), tolerance)) << dim;
    }
  }
}

TYPED_TEST(PackedSpectra, MagnitudesDoNotMatter) {
  using S = TypeParam;
  for (const int64_t dim : {int64_t{96}, int64_t{250}, int64_t{256}}) {
    const Buffer<S> in = random_values<S>(this->kRows * dim, 93);
    for (const bool inverse : {false, true}) {
      const Buffer<S> plain = this->transformed(inverse, dim, in);
      for (const int shift : shifts<S>()) {
        const Buffer<S> out = this->transformed(inverse, dim, scaled_values(in, shift));
        for (int64_t r = 0; r < this->kRows; ++r) {
          const double tolerance = StorageTraits<S>::kTolerance + StorageTraits<S>::kRounding;
          EXPECT_TRUE(is_close(out.data() + r * dim, moved_by(row_at(plain.data() + r * dim, dim), shift), tolerance))
              << "dim " << dim << " shift " << shift << (inverse ? " inverse" : "");
        }
      }
    }
  }
}

TYPED_TEST(PackedSpectra, ZerosStayAndTooLargeBinsOverflowAlone) {
  using S = TypeParam;
  constexpr int64_t kDim = 64;
  const double large = to_double(std::numeric_limits<S>::max()) / 2;
  Buffer<S> in(this->kRows * kDim);
  std::fill_n(in.data(), kDim, from_double<S>(0));
  std::fill_n(in.data() + kDim, 2 * kDim, from_double<S>(large));
  in.data()[2 * kDim] = from_double<S>(0);
  const Buffer<S> bins = this->transformed(false, kDim, in);
  for (int64_t i = 0; i < kDim; ++i) {
    EXPECT_EQ(to_double(bins.data()[i]), 0);
    EXPECT_EQ(to_double(bins.data()[kDim + i]), i == 0 ? std::numeric_limits<double>::infinity() : 0);
  }
  // All but one element are the same: the sum overflows, and every other bin is minus the missing element.
  EXPECT_TRUE(std::isinf(to_double(bins.data()[2 * kDim])));
  for (int64_t i = 1; i < kDim; ++i) {
    EXPECT_NEAR(to_double(bins.data()[2 * kDim + i]) / large, i % 2 == 1 ? -1 : 0, 1e-4) << i;
  }
}

TYPED_TEST(PackedSpectra, ARowThatIsNotFiniteIsNanAndLeavesItsNeighbours) {
  using S = TypeParam;
  for (const int64_t dim : {int64_t{64}, int64_t{75}, int64_t{480}}) {
    const Buffer<S> clean = random_values<S>(this->kRows * dim, 94);
    for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY), -static_cast<double>(INFINITY)}) {
      for (const int64_t position : {int64_t{0}, dim / 3, dim - 1}) {
        Buffer<S> in = clean;
        in.data()[dim + position] = from_double<S>(bad);
        const auto check = [&](const Buffer<S>& out, const Buffer<S>& want) {
          EXPECT_TRUE(all_nan(out.data() + dim, dim)) << position;
          EXPECT_TRUE(same_bits(out.data(), want.data(), dim));
          EXPECT_TRUE(same_bits(out.data() + 2 * dim, want.data() + 2 * dim, dim));
        };
        for (const bool inverse : {false, true}) {
          check(this->transformed(inverse, dim, in), this->transformed(inverse, dim, clean));
        }
        if (row_transform(dim) == RowTransform::kNone) {
          continue;
        }
        for (const Product product : kProducts) {
          const Buffer<S> want = this->bound(product, dim, clean, clean);
          check(this->bound(product, dim, in, clean), want);
          check(this->bound(product, dim, clean, in), want);
        }
      }
    }
  }
}

TYPED_TEST(PackedSpectra, ProductsMatchTheDirectSums) {
  using S = TypeParam;
  for (const int64_t dim : kDims) {
    const double share = 1 / std::sqrt(static_cast<double>(dim));
    const Buffer<S> a = random_values<S>(this->kRows * dim, 95, share);
    const Buffer<S> spectrum = random_values<S>(this->kRows * dim, 96);
    for (const Product product : kProducts) {
      const Buffer<S> out = this->bound(product, dim, a, spectrum);
      for (int64_t r = 0; r < this->kRows; ++r) {
        const std::vector<double> b = unpacked(row_at(spectrum.data() + r * dim, dim));
        EXPECT_TRUE(is_close(out.data() + r * dim, product_of(product, row_at(a.data() + r * dim, dim), b)))
            << "dim " << dim << " row " << r;
      }
    }
  }
}

// Operands whose spectra or squares leave the range and whose product does not.
TYPED_TEST(PackedSpectra, ProductsOfOperandsAtTheEndsOfTheRange) {
  using S = TypeParam;
  constexpr int64_t kDim = 256;
  const Buffer<S> a = random_values<S>(this->kRows * kDim, 97, 0.0625);
  const Buffer<S> spectrum = random_values<S>(this->kRows * kDim, 98);
  const int largest = std::is_same_v<S, double> ? 1018 : std::is_same_v<S, Half> ? 12 : 122;
  for (const Product product : kProducts) {
    const Buffer<S> plain = this->bound(product, kDim, a, spectrum);
    for (const int shift : {largest - 4, -largest / 4}) {
      const Buffer<S> out = this->bound(product, kDim, scaled_values(a, shift), scaled_values(spectrum, -shift / 2));
      const Buffer<S> other = this->bound(product, kDim, scaled_values(a, -shift / 2), scaled_values(spectrum, shift));
      for (int64_t r = 0; r < this->kRows; ++r) {
        const double tolerance = StorageTraits<S>::kTolerance + 2 * StorageTraits<S>::kRounding;
        const std::vector<double> want = moved_by(row_at(plain.data() + r * kDim, kDim), shift - shift / 2);
        EXPECT_TRUE(is_close(out.data() + r * kDim, want, tolerance)) << shift;
        EXPECT_TRUE(is_close(other.data() + r * kDim, want, tolerance)) << shift;
      }
    }
  }
}

// The largest elements: transforms overflow on the way, the result does not.
TYPED_TEST(PackedSpectra, ARowOfTheLargestNumbersTimesASmallSpectrum) {
  using S = TypeParam;
  constexpr int64_t kDim = 64;
  Buffer<S> a(this->kRows * kDim);
  std::fill_n(a.data(), a.size(), std::numeric_limits<S>::max());
  Buffer<S> spectrum(this->kRows * kDim);
  std::fill_n(spectrum.data(), spectrum.size(), from_double<S>(0));
  for (int64_t r = 0; r < this->kRows; ++r) {
    spectrum.data()[r * kDim] = from_double<S>(0.25);
  }
  for (const Product product : kProducts) {
    const Buffer<S> out = this->bound(product, kDim, a, spectrum);
    const double want = to_double(std::numeric_limits<S>::max()) / 4;
    EXPECT_TRUE(is_close(out.data() + kDim, std::vector<double>(kDim, want)));
  }
}

// Neighbours that share a spectrum, one of which needs scaling, get the bits that they get alone.
TYPED_TEST(PackedSpectra, ASharedSpectrumChangesNoBit) {
  using S = TypeParam;
  constexpr int64_t kDim = 96;
  Buffer<S> a = random_values<S>(this->kRows * kDim, 99);
  std::fill_n(a.data() + kDim, kDim, std::numeric_limits<S>::max());
  const Buffer<S> spectrum = random_values<S>(kDim, 100);
  for (const Product product : kProducts) {
    Buffer<S> shared(this->kRows * kDim);
    SpectrumBindParams params = this->params_of(product, kDim, a.data(), spectrum.data(), shared.data());
    params.map = row_map(this->kRows, {kDim, 0});
    run_bind_spectrum<S>(params, 0, this->kRows);
    Buffer<S> alone(this->kRows * kDim);
    params.out = alone.data();
    for (int64_t r = 0; r < this->kRows; ++r) {
      run_bind_spectrum<S>(params, r, r + 1);
    }
    EXPECT_TRUE(same_bits(shared.data(), alone.data(), this->kRows * kDim));
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
