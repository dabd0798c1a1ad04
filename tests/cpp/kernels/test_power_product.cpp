// Products of powers of rows against std::complex in double, bin by bin.
#include "kernels/hrr/power_product.h"

#include <complex>
#include <type_traits>

#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

using Bin = std::complex<double>;

template <typename T>
class PowerProduct : public ::testing::Test {
 protected:
  struct Group {
    LogarithmTable table;
    Buffer<T> spectra;
    Buffer<double> memory;
  };

  // Bins near the unit circle; all real ones of the first two rows are negative, and bin `empty` of the last is 0.
  static Group group(int64_t items, int64_t dim, int64_t empty = -1) {
    Group made{{items, dim, std::is_same_v<T, double>}, random_values<T>(items * dim, 7, 0.3), Buffer<double>(0)};
    T* const spectra = made.spectra.data();
    for (int64_t i = 0; i < items * dim; ++i) {
      spectra[i] += i % 2 == 0 ? T(1) : T(-1);
    }
    for (int64_t item = 0; item < items && item < 2; ++item) {
      spectra[item * dim] = T(-1.25);
      spectra[item * dim + dim - 1] = T(-0.75);
    }
    for (int64_t part = 2 * empty - 1; empty > 0 && part <= 2 * empty; ++part) {
      spectra[(items - 1) * dim + part] = 0;
    }
    // Filled by parts, as by several threads.
    Buffer<double> memory(made.table.size());
    std::fill_n(memory.data() + made.table.marks(), made.table.size() - made.table.marks(), 0.0);
    LogarithmParams params{spectra, memory.data(), items, made.table};
    const auto& kernel = kernel_table<RowKernel<LogarithmParams>>();
    Buffer<char> scratch(kernel.scratch(params));
    kernel.run(params, items / 2, items, scratch.data());
    kernel.run(params, 0, items / 2, scratch.data());
    return {made.table, std::move(made.spectra), std::move(memory)};
  }

  // Rows of which all read this table.
  static Buffer<T> products(const Group& group, const Buffer<double>& exponents, int64_t rows) {
    Buffer<T> out(rows * group.table.dim);
    PowerProductParams params{group.memory.data(), exponents.data(), out.data(), rows, {}, group.table};
    params.map.ndim = 1;
    params.map.sizes[0] = rows;
    params.map.strides[1][0] = group.table.items;
    const auto& kernel = kernel_table<RowKernel<PowerProductParams>>();
    Buffer<char> scratch(kernel.scratch(params));
    kernel.run(params, 0, rows, scratch.data());
    return out;
  }

  static Bin bin(const T* packed, int64_t dim, int64_t k) {
    const bool real = 2 * k % dim == 0;
    return {static_cast<double>(packed[k == 0 ? 0 : 2 * k - 1]), real ? 0 : static_cast<double>(packed[2 * k])};
  }
  static Bin product(const Group& group, const double* exponents, int64_t k) {
    const int64_t dim = group.table.dim;
    Bin result = 1;
    for (int64_t item = 0; item < group.table.items; ++item) {
      const Bin power = std::pow(bin(group.spectra.data() + item * dim, dim, k), exponents[item]);
      result *= 2 * k % dim == 0 ? power.real() : power;
    }
    return result;
  }
};

using WideTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(PowerProduct, WideTypes);

TYPED_TEST(PowerProduct, EqualsThatOfComplexPowers) {
  const double tolerance = 8 * static_cast<double>(std::numeric_limits<TypeParam>::epsilon());
  const int64_t rows = 7;  // some together, others one by one
  for (const int64_t dim : {1, 2, 3, 8, 30, 31, 32, 33, 64, 65, 130}) {
    for (const int64_t items : {0, 1, 2, 5, 9}) {
      const auto group = this->group(items, dim);
      const Buffer<double> exponents = random_values<double>(rows * items, 3, 1.5);
      const Buffer<TypeParam> out = this->products(group, exponents, rows);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t k = 0; k <= dim / 2; ++k) {
          const Bin want = this->product(group, exponents.data() + r * items, k);
          const Bin got = this->bin(out.data() + r * dim, dim, k);
          // The logarithms of sizes add up in the rows' type.
          double size = static_cast<double>(items + 1);
          for (int64_t item = 0; item < items; ++item) {
            size *= std::pow(std::abs(this->bin(group.spectra.data() + item * dim, dim, k)),
                             exponents.data()[r * items + item]);
          }
          ASSERT_LE(std::abs(got - want), tolerance * size)
              << "D " << dim << " K " << items << " row " << r << " bin " << k;
        }
      }
    }
  }
}

TYPED_TEST(PowerProduct, IsZeroWhereABinOfOneRowIsEmpty) {
  const auto group = this->group(3, 66, 20);
  const Buffer<double> exponents = random_values<double>(3, 3);
  const Buffer<TypeParam> out = this->products(group, exponents, 1);
  for (int64_t k = 0; k <= 33; ++k) {
    EXPECT_EQ(this->bin(out.data(), 66, k) == 0.0, k == 20) << k;
  }
}

TYPED_TEST(PowerProduct, OfARowsOwnExponentsAlone) {
  const auto group = this->group(3, 40);
  Buffer<double> exponents = random_values<double>(5 * 3, 3);
  const Buffer<TypeParam> before = this->products(group, exponents, 5);
  exponents.data()[1 * 3 + 2] = std::numeric_limits<double>::infinity();
  const Buffer<TypeParam> after = this->products(group, exponents, 5);
  for (int64_t i = 0; i < 5 * 40; ++i) {
    EXPECT_EQ(std::isnan(after.data()[i]), i / 40 == 1);
    EXPECT_TRUE(i / 40 == 1 || after.data()[i] == before.data()[i]);
  }
  Buffer<double> last(3);
  std::copy_n(exponents.data(), 3, last.data());
  const Buffer<TypeParam> alone = this->products(group, last, 1);
  EXPECT_TRUE(std::equal(alone.data(), alone.data() + 40, before.data()));
}

}  // namespace
}  // namespace torch_hrr::kernels
