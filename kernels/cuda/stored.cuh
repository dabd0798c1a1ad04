// Elements in memory whose storage type is known only at run time: one kernel serves all types of one compute type.
//
// The type is the same for a whole launch, so switching on it never diverges a warp. The switch encloses whole loops of
// loads or stores, which stay as wide as the type allows.
#pragma once

#include <type_traits>

#include "kernels/cuda/block.cuh"
#include "kernels/numeric.h"
#include "kernels/storage.h"

namespace torch_hrr::kernels {

constexpr KERNEL_HOST_DEVICE int storage_bytes(Storage storage) {
  switch (storage) {
    case Storage::kFloat:
      return sizeof(float);
    case Storage::kDouble:
      return sizeof(double);
    default:
      return sizeof(Half);
  }
}

// body(S{}) with the storage type S, on the host: for the choice of a kernel.
template <typename Body>
void with_storage(Storage storage, const Body& body) {
  switch (storage) {
    case Storage::kFloat:
      return body(float{});
    case Storage::kDouble:
      return body(double{});
    case Storage::kHalf:
      return body(Half{});
    case Storage::kBFloat16:
      return body(BFloat16{});
  }
}

// body(T{}) with the type that elements of this storage are computed in, on the host.
template <typename Body>
void with_compute_type(Storage storage, const Body& body) {
  if (storage == Storage::kDouble) {
    body(double{});
  } else {
    body(float{});
  }
}

// body(S{}) with the storage type S, one of those that are computed in T.
template <typename T, typename Body>
KERNEL_DEVICE void with_stored_type(Storage storage, const Body& body) {
  if constexpr (std::is_same_v<T, double>) {
    body(double{});
  } else if (storage == Storage::kFloat) {
    body(float{});
  } else if (storage == Storage::kHalf) {
    body(Half{});
  } else {
    body(BFloat16{});
  }
}

template <typename T, typename Byte>
struct StoredElements {
  Byte* first;
  Storage storage;

  KERNEL_DEVICE StoredElements operator+(int64_t count) const {
    return {first + count * bytes(), storage};
  }
  KERNEL_DEVICE int bytes() const {
    return std::is_same_v<T, double> ? 8 : storage_bytes(storage);
  }
  KERNEL_DEVICE bool exists() const {
    return first != nullptr;
  }

  // body(elements) with a pointer to the elements' own type
  template <typename Body>
  KERNEL_DEVICE void visit(const Body& body) const {
    with_stored_type<T>(storage, [&](auto zero) {
      using S = std::conditional_t<std::is_const_v<Byte>, const decltype(zero), decltype(zero)>;
      body(reinterpret_cast<S*>(first));
    });
  }

  KERNEL_DEVICE T operator[](int64_t i) const {
    T value = 0;
    visit([&](const auto* elements) { value = static_cast<T>(elements[i]); });
    return value;
  }
  KERNEL_DEVICE void set(int64_t i, T value) const {
    visit([&](auto* elements) { elements[i] = static_cast<std::remove_cvref_t<decltype(*elements)>>(value); });
  }
};

template <typename T>
using StoredInput = StoredElements<T, const char>;
template <typename T>
using StoredOutput = StoredElements<T, char>;

template <typename T>
KERNEL_DEVICE StoredInput<T> stored_input(const void* first, Storage storage) {
  return {static_cast<const char*>(first), storage};
}
template <typename T>
KERNEL_DEVICE StoredOutput<T> stored_output(void* first, Storage storage) {
  return {static_cast<char*>(first), storage};
}

}  // namespace torch_hrr::kernels
