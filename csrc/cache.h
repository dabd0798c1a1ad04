// Bounded caches of tables: in main memory the most recently used, on a GPU the first ones made.
#pragma once

#include <ATen/core/Tensor.h>

#include <list>
#include <map>
#include <mutex>
#include <utility>

namespace torch_hrr {

// The values of the `capacity` most recently used keys. Keys need only operator==; values should be cheap to copy.
template <typename Key, typename Value>
class Recent {
 public:
  explicit Recent(size_t capacity) : capacity_(capacity) {}

  // Calls make(key) for a new key, outside the lock: two threads may both make the same value.
  template <typename Make>
  Value get(const Key& key, const Make& make) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (const Value* found = find(key)) {
        return *found;
      }
    }
    Value made = make(key);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const Value* found = find(key)) {
      return *found;
    }
    entries_.emplace_front(key, made);
    if (entries_.size() > capacity_) {
      entries_.pop_back();
    }
    return made;
  }

 private:
  // The value of a key, now the most recently used, or null.
  const Value* find(const Key& key) {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->first == key) {
        entries_.splice(entries_.begin(), entries_, entry);
        return &entry->second;
      }
    }
    return nullptr;
  }

  const size_t capacity_;
  std::mutex mutex_;
  std::list<std::pair<Key, Value>> entries_;
};

// Tables on GPUs. Tables that fit into a total of `bytes` are kept until the process ends, since a captured graph may
// hold their addresses. They are never freed: the CUDA context may be gone before static objects are, so an object of
// this type must never be destroyed. A table that no longer fits lives as long as its caller keeps it. The first use of
// a table uploads it and must not be captured in a graph.
template <typename Key>
class DeviceTables {
 public:
  explicit DeviceTables(int64_t bytes) : left_(bytes) {}

  template <typename Make>
  at::Tensor get(const Key& key, const Make& make) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = tables_.find(key); found != tables_.end()) {
      return found->second;
    }
    const at::Tensor table = make(key);
    const auto bytes = static_cast<int64_t>(table.nbytes());
    if (bytes <= left_) {
      left_ -= bytes;
      tables_.emplace(key, table);
    }
    return table;
  }

 private:
  int64_t left_;
  std::mutex mutex_;
  std::map<Key, at::Tensor> tables_;
};

}  // namespace torch_hrr
