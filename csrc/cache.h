// Bounded caches of tables that are made once: the ones used last in main memory, the first ones on a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <list>
#include <map>
#include <mutex>
#include <utility>

namespace torch_hrr {

// Values of the keys asked for last, at most `capacity`. Keys compare equal or not; values are cheap to copy.
template <typename Key, typename Value>
class Recent {
 public:
  explicit Recent(size_t capacity) : capacity_(capacity) {}

  // make(key) where the key is new; outside the lock, so two threads may both make the same value.
  template <typename Make>
  Value get(const Key& key, const Make& make) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
        if (entry->first == key) {
          entries_.splice(entries_.begin(), entries_, entry);
          return entry->second;
        }
      }
    }
    Value made = make(key);
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.emplace_front(key, made);
    if (entries_.size() > capacity_) {
      entries_.pop_back();
    }
    return made;
  }

 private:
  const size_t capacity_;
  std::mutex mutex_;
  std::list<std::pair<Key, Value>> entries_;
};

// Tables on GPUs. Those that fit into `bytes` a process are kept until it ends, for a captured graph may hold their
// addresses, and never freed: the CUDA context may be gone before the statics are, so an object of this type must not
// be destroyed. Later ones live as long as their caller keeps them. The first use of a table uploads it and must not be
// captured.
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
