// Keeps what is made once for a length and a vector width, for the life of the process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace torch_hrr::kernels {

template <typename Plan>
class PlanStore {
 public:
  // The plan for a length and width, made by make() if there is none.
  template <typename Make>
  const Plan& get(int64_t length, int width, const Make& make) {
    const std::pair<int64_t, int> key{length, width};
    {
      const std::shared_lock<std::shared_mutex> lock(mutex_);
      const auto found = plans_.find(key);
      if (found != plans_.end()) {
        return *found->second;
      }
    }
    // Made without the lock: a long plan must not hold up the others. Of two threads the first keeps its own.
    std::unique_ptr<const Plan> made = make();
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    return *plans_.try_emplace(key, std::move(made)).first->second;
  }

 private:
  std::shared_mutex mutex_;
  std::map<std::pair<int64_t, int>, std::unique_ptr<const Plan>> plans_;
};

// The numbers of a plan, on cache lines of their own.
template <typename T>
struct PlanNumbers {
  std::unique_ptr<T[], void (*)(T*)> storage{nullptr, [](T* p) { ::operator delete[](p, std::align_val_t{64}); }};

  T* allocate(size_t count) {
    storage.reset(static_cast<T*>(::operator new[](count * sizeof(T), std::align_val_t{64})));
    return storage.get();
  }
};

}  // namespace torch_hrr::kernels
