// The bounded caches of tables (csrc/cache.h), on CPU tensors.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "csrc/cache.h"

namespace torch_hrr {
namespace {

TEST(Recent, KeepsTheKeysAskedForLast) {
  Recent<int, std::string> cache(2);
  int made = 0;
  const auto get = [&](int key) {
    return cache.get(key, [&](int wanted) {
      ++made;
      return std::to_string(wanted);
    });
  };
  EXPECT_EQ(get(1), "1");
  EXPECT_EQ(get(2), "2");
  EXPECT_EQ(get(1), "1");
  EXPECT_EQ(made, 2);
  EXPECT_EQ(get(3), "3");  // 2 was asked for longest ago
  EXPECT_EQ(get(1), "1");
  EXPECT_EQ(made, 3);
  EXPECT_EQ(get(2), "2");
  EXPECT_EQ(made, 4);
}

TEST(Recent, ServesThreads) {
  Recent<int, int> cache(3);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const int key = i % (3 + static_cast<int>(t));
        wrong[t] += cache.get(key, [](int wanted) { return 10 * wanted; }) != 10 * key;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(DeviceTables, KeepsTheFirstThatFitAndMakesTheOthersAnew) {
  DeviceTables<int> cache(/*bytes=*/2 * 8 * 100);
  int made = 0;
  const auto get = [&](int key, int64_t size) {
    return cache.get(key, [&](int wanted) {
      ++made;
      return at::full({size}, wanted, at::kLong);
    });
  };
  const at::Tensor first = get(1, 100);
  EXPECT_EQ(get(2, 150).size(0), 150);  // does not fit beside it
  EXPECT_TRUE(get(1, 100).is_same(first));
  EXPECT_EQ(made, 2);
  EXPECT_EQ(get(2, 150)[149].item<int64_t>(), 2);
  EXPECT_EQ(made, 3);
  EXPECT_TRUE(get(3, 100).is_same(get(3, 100)));  // fills what is left
  EXPECT_EQ(made, 4);
  EXPECT_FALSE(get(4, 1).is_same(get(4, 1)));
}

}  // namespace
}  // namespace torch_hrr
