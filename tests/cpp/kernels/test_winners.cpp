// The k largest of each row against a stable sort by the keys of single elements.
#include "kernels/assembly/winners.h"

#include <algorithm>
#include <numeric>

#include "kernels/assembly/winners.h"
#include "kernels/registry.h"
#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

// Around whole vectors, chunks of vectors, and the least row that is sampled; the last ones fill the candidates'
// memory.
const std::vector<int64_t> kLengths = {1, 2, 7, 8, 15, 16, 17, 33, 511, 512, 1025, 2047, 2048, 2049, 12000, 30000};

// A float16 key by its bits: sign and magnitude order it as they do a float.
uint32_t order_key_of_half_bits(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7fffu;
  return magnitude > 0x7c00u ? 0x1ffffu
         : magnitude == 0    ? 0x8000u
         : (bits >> 15) != 0 ? 0xffffu - bits
                             : bits | 0x8000u;
}

struct FloatElements {
  using Bits = uint32_t;
  static constexpr Element kElement = Element::kFloat;
  static uint64_t key(Bits bits) {
    return order_key_of_float_bits(bits);
  }
  static Bits of(double value) {
    return bit_cast_to<Bits>(static_cast<float>(value));
  }
  template <typename To, typename From>
  static To bit_cast_to(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof(to));
    return to;
  }
};
struct DoubleElements {
  using Bits = uint64_t;
  static constexpr Element kElement = Element::kDouble;
  static uint64_t key(Bits bits) {
    return order_key_of_double_bits(bits);
  }
  static Bits of(double value) {
    return FloatElements::bit_cast_to<Bits>(value);
  }
};
struct HalfElements {
  using Bits = uint16_t;
  static constexpr Element kElement = Element::kHalf;
  static uint64_t key(Bits bits) {
    return order_key_of_half_bits(bits);
  }
  static Bits of(double value) {
    return Half(static_cast<float>(value)).x;
  }
};
struct BFloat16Elements {
  using Bits = uint16_t;
  static constexpr Element kElement = Element::kBFloat16;
  static uint64_t key(Bits bits) {
    return order_key_of_float_bits(static_cast<uint32_t>(bits) << 16);
  }
  static Bits of(double value) {
    return BFloat16(static_cast<float>(value)).x;
  }
};
struct Int32Elements {
  using Bits = uint32_t;
  static constexpr Element kElement = Element::kInt32;
  static uint64_t key(Bits bits) {
    return order_key_of_integer(static_cast<int32_t>(bits));
  }
  static Bits of(double value) {
    return static_cast<Bits>(static_cast<int32_t>(value * 1000));
  }
};
struct Int64Elements {
  using Bits = uint64_t;
  static constexpr Element kElement = Element::kInt64;
  static uint64_t key(Bits bits) {
    return order_key_of_integer(static_cast<int64_t>(bits));
  }
  static Bits of(double value) {
    return static_cast<Bits>(static_cast<int64_t>(value * 1e12));
  }
};

template <typename E>
class Winners : public ::testing::Test {
 protected:
  using Bits = typename E::Bits;

  // Rows [first, rows) of a table whose rows lie `stride` apart, with and without `sorted`.
  static void expect_winners(const std::vector<Bits>& table, int64_t rows, int64_t n, int64_t stride, int64_t k,
                             int64_t first = 0) {
    std::vector<std::vector<int64_t>> orders;
    for (int64_t r = 0; r < rows; ++r) {
      orders.push_back(order_of(table.data() + r * stride, n));
    }
    expect_winners(table, rows, n, stride, k, first, orders);
  }
  static void expect_winners(const std::vector<Bits>& table, int64_t rows, int64_t n, int64_t stride, int64_t k,
                             int64_t first, const std::vector<std::vector<int64_t>>& orders) {
    Buffer<Bits> input((rows - 1) * stride + n);
    std::copy_n(table.data(), input.size(), input.data());
    for (const bool sorted : {false, true}) {
      Buffer<Bits> values(rows * k);
      Buffer<int64_t> indices(rows * k);
      WinnersParams params;
      params.input = input.data();
      params.values = values.data();
      params.indices = indices.data();
      params.rows = rows;
      params.n = n;
      params.k = k;
      params.row_stride = stride;
      params.element = E::kElement;
      params.sorted = sorted;
      const RowKernel<WinnersParams>& kernel = kernel_table<RowKernel<WinnersParams>>();
      Buffer<char> scratch(kernel.scratch(params));
      kernel.run(params, first, rows, scratch.data());
      for (int64_t r = 0; r < rows; ++r) {
        const std::vector<int64_t> want = expected(orders[static_cast<size_t>(r)], k, sorted);
        for (int64_t i = 0; i < k; ++i) {
          if (r < first) {
            ASSERT_EQ(indices.data()[r * k + i], -1);
            continue;
          }
          ASSERT_EQ(indices.data()[r * k + i], want[static_cast<size_t>(i)]) << "n " << n << " k " << k << " row " << r;
          ASSERT_EQ(values.data()[r * k + i], input.data()[r * stride + want[static_cast<size_t>(i)]]);
        }
      }
    }
  }

  // The positions of a row, the largest element's first.
  static std::vector<int64_t> order_of(const Bits* row, int64_t n) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return E::key(row[a]) > E::key(row[b]); });
    return order;
  }
  static std::vector<int64_t> expected(std::vector<int64_t> order, int64_t k, bool sorted) {
    order.resize(static_cast<size_t>(k));
    if (!sorted) {
      std::sort(order.begin(), order.end());
    }
    return order;
  }

  // Every k of interest for rows that `value(generator, position)` makes.
  template <typename Value>
  static void expect_all(int64_t n, const Value& value) {
    std::mt19937_64 generator(static_cast<uint64_t>(n));
    std::vector<Bits> table(static_cast<size_t>(2 * n));
    for (size_t i = 0; i < table.size(); ++i) {
      table[i] = value(generator, static_cast<int64_t>(i) % n);
    }
    const std::vector<std::vector<int64_t>> orders = {order_of(table.data(), n), order_of(table.data() + n, n)};
    for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{2}, n / 100, n / 9, n / 8 + 1, n / 2, n - 1, n}) {
      if (k >= 0 && k <= n) {
        expect_winners(table, 2, n, n, k, 0, orders);
      }
    }
  }

  static double normal(std::mt19937_64& generator) {
    return std::normal_distribution<double>()(generator);
  }
};

using Elements =
    ::testing::Types<FloatElements, DoubleElements, HalfElements, BFloat16Elements, Int32Elements, Int64Elements>;
TYPED_TEST_SUITE(Winners, Elements);

TYPED_TEST(Winners, OfRandomRows) {
  for (const int64_t n : kLengths) {
    this->expect_all(n, [&](auto& generator, int64_t) { return TypeParam::of(this->normal(generator)); });
  }
}

TYPED_TEST(Winners, OfAnyBits) {
  for (const int64_t n : kLengths) {
    this->expect_all(n, [](auto& generator, int64_t) { return static_cast<typename TypeParam::Bits>(generator()); });
  }
}

// Both zeros and infinities, denormals, NaN of both signs and several payloads; the ends of the integers.
TYPED_TEST(Winners, OfSpecialValues) {
  using Bits = typename TypeParam::Bits;
  const Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  std::vector<Bits> special = {0, 1, 2, static_cast<Bits>(sign - 1)};
  if constexpr (TypeParam::kElement != Element::kInt32 && TypeParam::kElement != Element::kInt64) {
    const Bits infinity = TypeParam::of(std::numeric_limits<double>::infinity());
    special.insert(special.end(), {static_cast<Bits>(infinity - 1), infinity, static_cast<Bits>(infinity + 1)});
  }
  for (size_t i = special.size(); i-- > 0;) {
    special.push_back(special[i] | sign);
  }
  for (const int64_t n : {int64_t{40}, int64_t{3000}, int64_t{20000}}) {
    this->expect_all(n, [&](auto& generator, int64_t) { return special[generator() % special.size()]; });
    this->expect_all(n, [&](auto& generator, int64_t) {
      return generator() % 100 == 0 ? special[generator() % special.size()] : TypeParam::of(this->normal(generator));
    });
  }
}

TYPED_TEST(Winners, OfTiesAndOrderedRows) {
  for (const int64_t n : {int64_t{33}, int64_t{2048}, int64_t{30000}}) {
    const auto expect = [&](const auto& value) {
      this->expect_all(n, [&](auto& generator, int64_t j) { return TypeParam::of(value(generator, j)); });
    };
    expect([](auto&, int64_t) { return -2.5; });
    expect([&](auto& generator, int64_t) { return std::max(0.0, this->normal(generator)); });
    expect([](auto& generator, int64_t) { return static_cast<double>(generator() % 2); });
    expect([](auto& generator, int64_t) { return generator() % 200 == 0 ? 1.0 : 0.0; });
    expect([](auto&, int64_t j) { return static_cast<double>(j); });
    expect([](auto&, int64_t j) { return -static_cast<double>(j); });
    expect([](auto&, int64_t j) { return static_cast<double>(j / 1000); });
    expect([](auto&, int64_t j) { return static_cast<double>(j % 1000); });
  }
}

// A threshold guessed from a part of the row that says nothing of the rest: too high, so that it has to be dropped, or
// too low.
TYPED_TEST(Winners, OfRowsThatASampleMisjudges) {
  for (const int64_t period : {16, 32, 48, 64, 97, 625, 1000}) {
    for (const int64_t width : {int64_t{1}, int64_t{16}, period / 2}) {
      for (const double height : {8.0, -8.0}) {
        this->expect_all(20000, [&](auto& generator, int64_t j) {
          return TypeParam::of(this->normal(generator) / 8 + ((j + period / 2) % period < width ? height : 0));
        });
      }
    }
  }
}

TYPED_TEST(Winners, OfStridedRowsAndRangesOfRows) {
  std::mt19937_64 generator(5);
  const int64_t rows = 5, n = 2500, stride = 2611;
  std::vector<typename TypeParam::Bits> table(static_cast<size_t>(rows * stride));
  for (auto& element : table) {
    element = TypeParam::of(this->normal(generator));
  }
  this->expect_winners(table, rows, n, stride, 30);
  this->expect_winners(table, rows, n, stride, 30, 2);
  this->expect_winners(table, rows, n, 0, 30);
}

}  // namespace
}  // namespace torch_hrr::kernels
