// Soft winners on the CPU; compiled once per instruction set.
#include "kernels/assembly/soft_cap.h"

#include <limits>

#include "kernels/assembly/cap_formulas.h"
#include "kernels/assembly/element_keys.h"
#include "kernels/assembly/selection.h"
#include "kernels/finite.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

constexpr int kLanes = kVectorBytes / 8;
using V = Simd<double, kLanes>;

// A sum over a row in 8 parts whatever the width of a vector: every instruction set adds in the same order.
constexpr int kSumLanes = 8;
constexpr int kSumParts = kSumLanes / kLanes;
struct RowSum {
  V parts[kSumParts];

  RowSum() {
    for (V& part : parts) {
      part = V::broadcast(0);
    }
  }
  double total() const {
    double lanes[kSumLanes];
    for (int part = 0; part < kSumParts; ++part) {
      parts[part].store(lanes + part * kLanes);
    }
    return sum_by_halves(lanes);
  }
};

// body(first element of a vector, part) for the vectors of count elements, a multiple of kSumLanes.
template <typename Body>
KERNEL_HOST_DEVICE void for_each_vector(int64_t count, const Body& body) {
  for (int64_t i = 0; i < count; i += kSumLanes) {
#pragma GCC unroll 4
    for (int part = 0; part < kSumParts; ++part) {
      body(i + part * kLanes, part);
    }
  }
}

template <typename T>
using order_key_t = typename ElementTraits<T>::Key;

// The row's cut at its k-th largest element, 0 < k < n; keys and work hold n elements and a vector.
template <typename T>
CapCut cut_row(const T* x, int64_t n, int64_t k, order_key_t<T>* keys, order_key_t<T>* work) {
  using Key = order_key_t<T>;
  using Keys = KeyVector<Key>;
  for (int64_t i = 0; i < n; i += Keys::kLanes) {
    Keys bits;
    __builtin_memcpy(&bits, x + i, sizeof(bits));
    ElementTraits<T>::keys_of(bits).store(keys + i);
  }
  pad_keys(keys, n);
  const Cut<Key> reached = cut(keys, n, k, /*tolerance=*/0, work);
  const Keys threshold = Keys::broadcast(reached.threshold);
  Keys least{~typename Keys::Lanes{}};
  Keys below = Keys::broadcast(0);
  for (int64_t i = 0; i < n; i += Keys::kLanes) {
    const Keys here = Keys::load(keys + i);
    least = smaller(least, Keys{here.lanes >= threshold.lanes ? here.lanes : ~typename Keys::Lanes{}});
    below = larger(below, Keys{here.lanes >= threshold.lanes ? typename Keys::Lanes{} : here.lanes});
  }
  const Key next = largest_lane(below);
  const auto value_of = [](Key key) { return static_cast<double>(number_of_order_key<T>(key)); };
  return {value_of(smallest_lane(least)), next == 0 ? 0 : value_of(next), reached.at_least - k};
}

// The arrays of one row: its elements and directions in the compute type, keys, and signed proximities.
template <typename S>
struct CapRow {
  using T = compute_t<S>;
  using Key = order_key_t<T>;

  T* x;
  T* v;
  Key* keys;
  // exp(-|z|), negative below c, and 0 at c, which no sum is to see, and up to whole vectors
  double* proximities;

  // n up to whole vectors, and the memory for that and a vector of keys.
  static int64_t whole(int64_t n) {
    return (n + 15) / 16 * 16;
  }
  static int64_t padded(int64_t n) {
    return whole(n) + 16;
  }
  static int64_t bytes(int64_t n) {
    return padded(n) * static_cast<int64_t>(2 * sizeof(T) + sizeof(Key) + sizeof(double));
  }
  CapRow(void* scratch, int64_t n) {
    proximities = static_cast<double*>(scratch);
    x = reinterpret_cast<T*>(proximities + padded(n));
    v = x + padded(n);
    keys = reinterpret_cast<Key*>(v + padded(n));
  }
  // Memory that the search for the cut may use: proximities come after it.
  Key* work() const {
    return reinterpret_cast<Key*>(proximities);
  }
};

KERNEL_HOST_DEVICE SimdMask<double, kLanes> sign_bits(V x) {
  return {(SimdMask<double, kLanes>::Lanes)x.lanes < 0};
}

// The row as find_offset asks for it.
template <CapShape kShape>
struct CapSearch {
  const double* proximities;
  int64_t count;
  CapCensus counted;

  CapCensus census() const {
    return counted;
  }
  CapPoint<double> point(double a) const {
    const CapPoint<V> lanes = cap_point<kShape>(V::broadcast(a));
    return {lanes.q.lanes[0], lanes.rest.lanes[0], lanes.d.lanes[0]};
  }
  CapSums sums(double w, double v) const {
    const V zero = V::broadcast(0);
    const V factor = V::broadcast(w);
    const V inverse = V::broadcast(-v);
    RowSum lacking, present, lacking_slope, present_slope;
    const auto add = [](V& sum, V term) { sum = sum + term; };
    for_each_vector(count, [&](int64_t i, int part) {
      const V p = V::load(proximities + i);
      const SimdMask<double, kLanes> below = sign_bits(p);
      const CapPoint<V> at = cap_point<kShape>(p * select(below, inverse, factor));
      add(lacking.parts[part], select(below, zero, at.q));
      add(present.parts[part], select(below, at.q, zero));
      add(lacking_slope.parts[part], select(below, zero, at.d));
      add(present_slope.parts[part], select(below, at.d, zero));
    });
    return {lacking.total(), present.total(), lacking_slope.total(), present_slope.total()};
  }
};

template <typename T>
KERNEL_HOST_DEVICE void fill(T* target, int64_t n, T value) {
  for (int64_t i = 0; i < n; ++i) {
    target[i] = value;
  }
}

// Fills the proximities; x, up to whole vectors, with NaN, which is neither c nor above or below it.
template <typename T>
CapCensus measure(T* x, const CapCut& cut, int64_t n, double temperature, double* proximities) {
  const CapScale scale(cut.value, temperature);
  const V center = V::broadcast(cut.value);
  const V zero = V::broadcast(0);
  const int64_t whole = CapRow<T>::whole(n);
  fill(x + n, whole - n, std::numeric_limits<T>::quiet_NaN());
  RowSum sum_above, sum_below;
  SimdMask<double, kLanes>::Lanes others{};  // minus the number of elements that are not c
  for_each_vector(whole, [&](int64_t i, int part) {
    const V elements = load_as<V>(x + i);
    const V p = scale.proximity(elements);
    const SimdMask<double, kLanes> above = center < elements;
    const SimdMask<double, kLanes> below = elements < center;
    const V p_above = select(above, p, zero);
    const V p_below = select(below, p, zero);
    sum_above.parts[part] = sum_above.parts[part] + p_above;
    sum_below.parts[part] = sum_below.parts[part] + p_below;
    others += above.lanes | below.lanes;
    select(below, -p, p_above).store(proximities + i);
  });
  int64_t tied = n;
  for (int lane = 0; lane < kLanes; ++lane) {
    tied += others[lane];
  }
  return {sum_above.total(), sum_below.total(), static_cast<double>(tied)};
}

// The points of a row at u, kLanes elements from i.
template <CapShape kShape, typename T>
struct CapPoints {
  const T* x;
  const double* proximities;
  V center;
  V factor;
  V inverse;

  CapPoints(const T* elements, const double* signed_proximities, const CapCut& cut, double u)
      : x(elements), proximities(signed_proximities), center(V::broadcast(cut.value)) {
    const double w = exponential(u);
    factor = V::broadcast(w);
    inverse = V::broadcast(-1 / w);
  }
  SimdMask<double, kLanes> below(int64_t i) const {
    return sign_bits(V::load(proximities + i));
  }
  CapPoint<V> at(int64_t i) const {
    const SimdMask<double, kLanes> tied{load_as<V>(x + i).lanes == center.lanes};
    const V p = V::load(proximities + i);
    return cap_point<kShape>(select(tied, V::broadcast(1), p) * select(sign_bits(p), inverse, factor));
  }
};

// y
template <CapShape kShape, typename T>
void soft_row(const CapPoints<kShape, T>& points, int64_t n, T* out) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const CapPoint<V> at = points.at(i);
    store_as(select(points.below(i), at.q, at.rest), out + i);
  }
}

// J v, which takes the place of v; d takes the place of the points' proximities.
template <CapShape kShape, typename T>
void jacobian_row(const CapPoints<kShape, T>& points, double* proximities, int64_t n, double temperature, T* v) {
  const int64_t whole = CapRow<T>::whole(n);
  RowSum weight, weighted;
  fill(v + n, whole - n, T{0});
  for_each_vector(whole, [&](int64_t i, int part) {
    const V d = points.at(i).d;
    d.store(proximities + i);
    weight.parts[part] = weight.parts[part] + d;
    weighted.parts[part] = fused_multiply_add(d, load_as<V>(v + i), weighted.parts[part]);
  });
  const double total = weight.total();
  double factor = 1;
  double mean = total > 0 ? weighted.total() / total : 0;
  if (!is_safe_mean(mean)) {
    factor = kSmallerDirections;
    weighted = RowSum();
    for_each_vector(whole, [&](int64_t i, int part) {
      const V direction = load_as<V>(v + i) * V::broadcast(factor);
      weighted.parts[part] = fused_multiply_add(V::load(proximities + i), direction, weighted.parts[part]);
    });
    mean = weighted.total() / total;
  }
  const CapJacobian jacobian(temperature, factor, mean);
  for (int64_t i = 0; i < n; i += kLanes) {
    store_as(jacobian(V::load(proximities + i), load_as<V>(v + i)), v + i);
  }
}

template <CapShape kShape, typename S>
void soften_row(const SoftCapParams& params, const CapRow<S>& row, compute_t<S>* out) {
  using T = compute_t<S>;
  const int64_t n = params.n;
  const int64_t k = params.k;
  const bool soft = params.result == CapResult::kSoft;
  if (k == 0 || k == n) {
    return fill(out, n, soft && k > 0 ? T{1} : T{0});
  }
  const CapCut cut = cut_row(row.x, n, k, row.keys, row.work());
  if (is_wide(cut, params.temperature)) {
    for (int64_t i = 0; i < n; ++i) {
      out[i] = soft && static_cast<double>(row.x[i]) >= cut.value ? T{1} : T{0};
    }
    return;
  }
  const CapCensus census = measure(row.x, cut, n, params.temperature, row.proximities);
  const CapSearch<kShape> search{row.proximities, CapRow<S>::whole(n), census};
  const double u = find_offset(search, cut, n, k, params.temperature);
  const CapPoints<kShape, T> points(row.x, row.proximities, cut, u);
  if (soft) {
    soft_row(points, n, out);
  } else {
    jacobian_row(points, row.proximities, n, params.temperature, out);
  }
}

template <typename S>
void cap_row(const SoftCapParams& params, int64_t r, void* scratch) {
  const int64_t n = params.n;
  const CapRow<S> row(scratch, n);
  S* out = static_cast<S*>(params.out) + r * n;
  widen_row<S>(operand_row<S>(params.inputs, params.map, 0, r), n, row.x);
  bool finite = all_finite(row.x, n);
  if (params.result == CapResult::kJacobian) {
    widen_row<S>(operand_row<S>(params.v, params.map, 1, r), n, row.v);
    finite = finite && all_finite(row.v, n);
  }
  if (!finite) {
    return fill_nan(out, n);
  }
  if (params.shape == CapShape::kSigmoid) {
    soften_row<CapShape::kSigmoid>(params, row, row.v);
  } else {
    soften_row<CapShape::kLaplace>(params, row, row.v);
  }
  narrow_row<S>(row.v, n, 1, out);
}

template <typename S>
void cap_rows(const SoftCapParams& params, int64_t begin, int64_t end, void* scratch) {
  for (int64_t r = begin; r < end; ++r) {
    cap_row<S>(params, r, scratch);
  }
}

int64_t soft_cap_scratch(const SoftCapParams& params) {
  return params.storage == Storage::kDouble ? CapRow<double>::bytes(params.n) : CapRow<float>::bytes(params.n);
}

void soft_cap(const SoftCapParams& params, int64_t begin, int64_t end, void* scratch) {
  switch (params.storage) {
    case Storage::kFloat:
      return cap_rows<float>(params, begin, end, scratch);
    case Storage::kDouble:
      return cap_rows<double>(params, begin, end, scratch);
    case Storage::kHalf:
      return cap_rows<Half>(params, begin, end, scratch);
    case Storage::kBFloat16:
      return cap_rows<BFloat16>(params, begin, end, scratch);
  }
}

}  // namespace

// An element costs about as much as sixteen that are only read and written.
KERNEL_REGISTER(RowKernel<SoftCapParams>,
                {[](const SoftCapParams& params) { return params.n * 16; }, soft_cap_scratch, soft_cap})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
