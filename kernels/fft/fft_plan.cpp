// Builds and keeps the plans of fft_plan.h.
#include "kernels/fft/fft_plan.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/fft/roots.h"

namespace torch_hrr::kernels {
namespace {

template <typename T>
struct OwnedPlan {
  FftPlan<T> plan;
  std::unique_ptr<T[], void (*)(T*)> storage{nullptr, [](T* p) { ::operator delete[](p, std::align_val_t{64}); }};
};

// Radices after the first pass: fives, threes, then powers of two, as few as radix 16 allows and as even as possible.
void choose_radices(int64_t rest, int* radix, int& passes) {
  for (const int prime : {5, 3}) {
    for (; rest % prime == 0; rest /= prime) {
      radix[passes++] = prime;
    }
  }
  int log2_rest = 0;
  while ((int64_t{1} << log2_rest) < rest) {
    ++log2_rest;
  }
  for (int left = (log2_rest + 3) / 4; left > 0; --left) {
    const int bits = (log2_rest + left - 1) / left;
    radix[passes++] = 1 << bits;
    log2_rest -= bits;
  }
}

template <typename T>
std::unique_ptr<OwnedPlan<T>> make_plan(int64_t size, int width) {
  auto owned = std::make_unique<OwnedPlan<T>>();
  FftPlan<T>& plan = owned->plan;
  plan.size = size;
  plan.width = width;
  plan.radix[plan.passes++] = width;
  choose_radices(size / width, plan.radix, plan.passes);

  std::vector<T> values;
  std::vector<size_t> offsets(static_cast<size_t>(plan.passes), 0);
  const auto append_root = [&](int64_t index, int64_t n, bool imaginary) {
    const Complex<double> root = root_of_unity(index, n);
    values.push_back(static_cast<T>(imaginary ? root.im : root.re));
  };
  const int64_t columns = size / width;
  for (int64_t start = 0; start < columns; start += width) {
    const int64_t block = std::min(start, columns - width);
    for (int64_t k = 1; k < width; ++k) {
      for (const bool imaginary : {false, true}) {
        for (int64_t lane = 0; lane < width; ++lane) {
          append_root((block + lane) * k, size, imaginary);
        }
      }
    }
  }
  int64_t n = columns;
  for (int pass = 1; pass + 1 < plan.passes; ++pass) {
    offsets[static_cast<size_t>(pass)] = values.size();
    const int64_t radix = plan.radix[pass];
    for (int64_t p = 0; p < n / radix; ++p) {
      for (int64_t k = 1; k < radix; ++k) {
        append_root(p * k, n, false);
        append_root(p * k, n, true);
      }
    }
    n /= radix;
  }
  while (values.size() % 16 != 0) {
    values.push_back(T{0});
  }
  const size_t coupling = values.size();
  for (const bool imaginary : {false, true}) {
    for (int64_t k = 0; k < size / 2; ++k) {
      const Complex<double> root = root_of_unity(k, size);
      values.push_back(static_cast<T>(imaginary ? root.im / 4 : (1 + root.re) / 4));
    }
  }
  const size_t half_roots = values.size();
  for (const bool imaginary : {false, true}) {
    for (int64_t k = 0; k < size / 2; ++k) {
      append_root(k, 2 * size, imaginary);
    }
  }

  T* storage = static_cast<T*>(::operator new[](values.size() * sizeof(T), std::align_val_t{64}));
  std::copy(values.begin(), values.end(), storage);
  owned->storage.reset(storage);
  for (int pass = 0; pass < plan.passes; ++pass) {
    plan.twiddles[pass] = storage + offsets[static_cast<size_t>(pass)];
  }
  plan.coupling_re = storage + coupling;
  plan.coupling_im = plan.coupling_re + size / 2;
  plan.half_root_re = storage + half_roots;
  plan.half_root_im = plan.half_root_re + size / 2;
  return owned;
}

// A slot for each multiple of 4 up to 8192 and for each larger power of two up to 2^20.
constexpr int64_t kMaxMixedSize = 8192;
constexpr int64_t kSlots = kMaxMixedSize / 4 + 1 + 7;

int64_t slot_of(int64_t size) {
  int64_t slot = std::min(size, kMaxMixedSize) / 4;
  for (int64_t n = kMaxMixedSize; n < size; n *= 2) {
    ++slot;
  }
  return slot;
}

}  // namespace

template <typename T>
const FftPlan<T>& fft_plan(int64_t size, int max_width) {
  constexpr int kWidths = 3;  // 4, 8, 16
  static std::atomic<const OwnedPlan<T>*> plans[kSlots][kWidths];
  static std::mutex mutex;
  const int width = fft_width(size, max_width);
  std::atomic<const OwnedPlan<T>*>& slot = plans[slot_of(size)][width == 16 ? 2 : width == 8 ? 1 : 0];
  const OwnedPlan<T>* found = slot.load(std::memory_order_acquire);
  if (found == nullptr) {
    const std::lock_guard<std::mutex> lock(mutex);
    found = slot.load(std::memory_order_acquire);
    if (found == nullptr) {
      found = make_plan<T>(size, width).release();
      slot.store(found, std::memory_order_release);
    }
  }
  return found->plan;
}

template const FftPlan<float>& fft_plan<float>(int64_t, int);
template const FftPlan<double>& fft_plan<double>(int64_t, int);

}  // namespace torch_hrr::kernels
