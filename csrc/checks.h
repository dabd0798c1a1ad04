// Checks of arguments, shared by all operators: every kernel, Meta included, calls them before any work.
//
// Templates over the type of sizes: int64_t for real kernels, c10::SymInt for Meta.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>
#include <c10/util/Exception.h>
#include <c10/util/SmallVector.h>
#include <c10/util/safe_numerics.h>

#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace torch_hrr {

// A tensor argument and the name its schema gives it.
struct Argument {
  const char* name;
  const at::Tensor& tensor;
};

template <typename Int>
using Sizes = c10::SmallVector<Int, 6>;

template <typename Int>
c10::ArrayRef<Int> sizes_of(const at::Tensor& tensor) {
  if constexpr (std::is_same_v<Int, c10::SymInt>) {
    return tensor.sym_sizes();
  } else {
    return tensor.sizes();
  }
}

template <typename Int>
c10::ArrayRef<Int> all_but_last(c10::ArrayRef<Int> sizes) {
  return sizes.slice(0, sizes.size() - 1);
}

inline bool holds(bool condition) {
  return condition;
}
inline bool holds(const c10::SymBool& condition) {
  return condition.expect_true(__FILE__, __LINE__);
}
inline bool equal(int64_t a, int64_t b) {
  return a == b;
}
inline bool equal(const c10::SymInt& a, const c10::SymInt& b) {
  return holds(a.sym_eq(b));
}
inline bool is_one(int64_t a) {
  return a == 1;
}
inline bool at_most(int64_t a, int64_t b) {
  return a <= b;
}
inline c10::SymBool at_most(const c10::SymInt& a, const c10::SymInt& b) {
  return a.sym_le(b);
}
// An unknown size counts as not 1: only a known 1 broadcasts.
inline bool is_one(const c10::SymInt& a) {
  return a.sym_eq(1).guard_or_false(__FILE__, __LINE__);
}

inline bool is_supported_float(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
}

// Undefined tensors pass: another check decides whether an argument may be absent.
inline void check_strided(const char* op, const Argument& argument) {
  TORCH_CHECK_TYPE(!argument.tensor.defined() || !argument.tensor.is_quantized(), op, ": ", argument.name,
                   " must not be quantized, got ", argument.tensor.scalar_type());
  TORCH_CHECK_TYPE(
      !argument.tensor.defined() || (argument.tensor.layout() == at::kStrided && !argument.tensor.is_nested()), op,
      ": ", argument.name, " must be a strided tensor, got layout ",
      argument.tensor.is_nested() ? "nested" : c10::str(argument.tensor.layout()));
}

inline void check_strided(const char* op, std::initializer_list<Argument> arguments) {
  for (const Argument& argument : arguments) {
    check_strided(op, argument);
  }
}

inline void check_same_device(const char* op, const Argument& first, const Argument& other) {
  TORCH_CHECK(first.tensor.device() == other.tensor.device(), op, ": ", first.name, " and ", other.name,
              " must be on the same device, got ", first.tensor.device(), " and ", other.tensor.device());
}

// Defined, strided, real floating point, and all on one device.
inline void check_floating(const char* op, std::initializer_list<Argument> arguments) {
  const Argument* first = nullptr;
  for (const Argument& argument : arguments) {
    TORCH_CHECK_TYPE(argument.tensor.defined(), op, ": ", argument.name,
                     " must be a defined tensor, got an undefined one");
    check_strided(op, argument);
    TORCH_CHECK_TYPE(is_supported_float(argument.tensor.scalar_type()), op, ": ", argument.name,
                     " must be float32, float64, float16 or bfloat16, got ", argument.tensor.scalar_type());
    if (first == nullptr) {
      first = &argument;
    }
    check_same_device(op, *first, argument);
  }
}

inline void check_rank(const char* op, const Argument& argument, int64_t least, const char* shape) {
  TORCH_CHECK_VALUE(argument.tensor.dim() >= least, op, ": ", argument.name, " must have at least ", least,
                    least == 1 ? " dimension " : " dimensions ", shape, ", got ", argument.tensor.dim());
}

inline void check_eps(const char* op, double eps) {
  TORCH_CHECK_VALUE(eps >= 0, op, ": eps must be a number >= 0, got ", eps);
}

// The last dimension of two arguments, which must be equal.
template <typename Int>
Int check_same_last(const char* op, const Argument& a, const Argument& b) {
  const Int dim_a = sizes_of<Int>(a.tensor).back();
  const Int dim_b = sizes_of<Int>(b.tensor).back();
  TORCH_CHECK_VALUE(equal(dim_a, dim_b), op, ": ", a.name, " and ", b.name, " must have the same last dimension, got ",
                    dim_a, " and ", dim_b);
  return dim_a;
}

template <typename Int>
void check_not_empty_last(const char* op, const Argument& a) {
  TORCH_CHECK_VALUE(!equal(sizes_of<Int>(a.tensor).back(), Int(0)), op, ": ", a.name,
                    " must have a last dimension of at least 1, got 0");
}
template <>
inline void check_not_empty_last<c10::SymInt>(const char* op, const Argument& a) {
  TORCH_CHECK_VALUE(holds(a.tensor.sym_sizes().back().sym_gt(0)), op, ": ", a.name,
                    " must have a last dimension of at least 1, got 0");
}

// A string option: a name and what it stands for.
template <typename Value>
struct Choice {
  const char* name;
  Value value;
};

template <typename Value, size_t N>
Value choice(const char* op, const char* argument, std::string_view name, const Choice<Value> (&table)[N]) {
  for (const Choice<Value>& known : table) {
    if (name == known.name) {
      return known.value;
    }
  }
  std::string names;
  for (size_t i = 0; i < N; ++i) {
    names.append(i == 0 ? "'" : (i + 1 < N ? ", '" : " or '")).append(table[i].name).append("'");
  }
  C10_THROW_ERROR(ValueError, c10::str(op, ": ", argument, " must be ", names, ", got '", name, "'"));
}

template <typename Value, size_t N>
std::string_view name_of(Value value, const Choice<Value> (&table)[N]) {
  for (const Choice<Value>& known : table) {
    if (value == known.value) {
      return known.name;
    }
  }
  return "";
}

// Broadcasts `sizes` into `result` as torch.mul does; `description` says in an error what they are sizes of.
template <typename Int, typename Description>
void broadcast_into(const char* op, c10::ArrayRef<Int> sizes, Description description, Sizes<Int>& result) {
  while (result.size() < sizes.size()) {
    result.insert(result.begin(), Int(1));
  }
  const size_t offset = result.size() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    Int& target = result[offset + i];
    if (is_one(sizes[i])) {
      continue;
    }
    if (is_one(target)) {
      target = sizes[i];
      continue;
    }
    TORCH_CHECK_VALUE(equal(target, sizes[i]), op, ": ", description, " must broadcast, got sizes ", target, " and ",
                      sizes[i], " at dimension ", offset + i);
  }
}

inline std::optional<int64_t> size_if_known(int64_t size) {
  return size;
}
inline std::optional<int64_t> size_if_known(const c10::SymInt& size) {
  return size.maybe_as_int();
}

// Whether sizes are the same, in number and each.
template <typename Int>
bool same_sizes(c10::ArrayRef<Int> a, c10::ArrayRef<Int> b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) {
    same = equal(a[i], b[i]);
  }
  return same;
}

// Rejects a result whose bytes, counted for the widest type, do not fit an int64.
template <typename Int>
void check_numel(const char* op, c10::ArrayRef<Int> sizes) {
  uint64_t bytes = 8;
  bool fits = true;
  for (const Int& size : sizes) {
    std::optional<int64_t> known = size_if_known(size);
    if (!known.has_value() || *known == 0) {
      return;
    }
    fits = fits && !c10::mul_overflows(bytes, static_cast<uint64_t>(*known), &bytes) && bytes <= INT64_MAX;
  }
  TORCH_CHECK_VALUE(fits, op, ": the result must have fewer than 2^60 elements, got sizes ", sizes);
}

}  // namespace torch_hrr
