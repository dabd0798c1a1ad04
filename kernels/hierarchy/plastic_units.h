// Rows of units that learn, as the CPU takes them: a few at a time, one pass over a row both updating it and
// multiplying it with the next input. For files that are compiled once per instruction set.
#pragma once

#include "kernels/hierarchy/plastic.h"
#include "kernels/simd.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// A vector that is whole in this instruction set; kVectors of them hold the partial sums of a row, and a step takes as
// many rows as a vector has lanes.
template <typename T>
using Vector = Simd<T, kVectorBytes / static_cast<int>(sizeof(T))>;
template <typename T>
constexpr int kLanes = Vector<T>::kLanes;
template <typename T>
constexpr int kVectors = kSumLanes / kLanes<T>;
// Rows that one loop takes together: their partial sums fill half of the registers.
template <typename T>
constexpr int kTogether = kVectors<T> >= 8 ? 1 : 8 / kVectors<T>;
// Rows that one loop updates together: with factors of their own, more than one leave no register for their sums where
// there are 16.
template <typename T>
constexpr int kUpdatedTogether = kVectorBytes == 64 ? kTogether<T> : 1;
// Rows and samples whose products one loop takes together: two partial sums of each pair fill three quarters of the
// registers, of which there are twice as many with the widest vectors.
constexpr int kTileRows = kVectorBytes == 64 ? 4 : 2;
constexpr int kTileSamples = 3;

// Partial sums of a row, folded by halves into one vector.
template <typename T>
struct PartialSums {
  using V = Vector<T>;
  V lanes[kVectors<T>];

  KERNEL_HOST_DEVICE PartialSums() {
    for (V& lane : lanes) {
      lane = V::broadcast(0);
    }
  }
  KERNEL_HOST_DEVICE V folded() {
    return sum_by_halves(lanes);
  }
};

// The sums of the lanes of every row by halves, that of row r in lane r.
template <typename T>
KERNEL_HOST_DEVICE Vector<T> sums_of(Vector<T> (&rows)[kLanes<T>]) {
  transpose(rows);
  return sum_by_halves(rows);
}

// body(i, v) for every vector of a padded row, v being its place among the partial sums.
template <typename T, typename Body>
KERNEL_HOST_DEVICE void for_vectors(int64_t size, const Body& body) {
  int64_t i = 0;
  for (; i + kSumLanes <= size; i += kSumLanes) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors<T>; ++v) {
      body(i + v * kLanes<T>, v);
    }
  }
  if (i < size) {
    static_assert(kSumLanes == 2 * kRowPadding && kRowPadding % kLanes<T> == 0);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors<T> / 2; ++v) {
      body(i + v * kLanes<T>, v);
    }
  }
}

template <typename T>
KERNEL_HOST_DEVICE T dot(const T* a, const T* b, int64_t size) {
  using V = Vector<T>;
  PartialSums<T> sums;
  for_vectors<T>(
      size, [&](int64_t i, int v) __attribute__((always_inline)) {
        sums.lanes[v] = fused_multiply_add(V::load(a + i), V::load(b + i), sums.lanes[v]);
      });
  return horizontal_sum(sums.folded());
}

template <typename T>
KERNEL_HOST_DEVICE void multiply_row(T* row, int64_t size, T factor) {
  using V = Vector<T>;
  const V factors = V::broadcast(factor);
  for (int64_t i = 0; i < size; i += V::kLanes) {
    (V::load(row + i) * factors).store(row + i);
  }
}
// row / |row|; returns what the row was multiplied by.
template <typename T>
KERNEL_HOST_DEVICE T normalize_row(T* row, int64_t size) {
  T squares = dot(row, row, size);
  const T scale = norm_scale(squares);
  if (scale != T{1}) {
    multiply_row(row, size, scale);
    squares = dot(row, row, size);
  }
  multiply_row(row, size, norm_factor(squares));
  return whole_factor(squares, scale);
}

// a unless b is larger: never NaN unless a is.
template <typename L>
KERNEL_HOST_DEVICE L larger(L a, L b) {
  return select(b > a, b, a);
}
template <typename V>
KERNEL_HOST_DEVICE number_t<V> largest_lane(V vector) {
  number_t<V> lanes[V::kLanes];
  vector.store(lanes);
  for (int width = V::kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      lanes[i] = larger(lanes[i], lanes[i + width]);
    }
  }
  return lanes[0];
}

template <int kRows>
struct Together {
  static constexpr int value = kRows;
};
// body(r, together) for row r of `count` and those that go together with it, at most kMost.
template <int kMost, typename Body>
KERNEL_HOST_DEVICE void for_rows(int64_t count, const Body& body) {
  int64_t r = 0;
  for (; r + kMost <= count; r += kMost) {
    body(r, Together<kMost>{});
  }
  for (; r < count; ++r) {
    body(r, Together<1>{});
  }
}

// body(r, together, folded) for the rows as above, which folds the partial sums of row r + j into folded[j]; the sums
// of all rows.
template <typename T, int kMost, typename Body>
KERNEL_HOST_DEVICE Vector<T> sums_over_rows(int64_t count, const Body& body) {
  Vector<T> folded[kLanes<T>];
  for_rows<kMost>(
      count, [&](int64_t r, auto together) __attribute__((always_inline)) { body(r, together, folded + r); });
  // Few rows are summed one by one, by halves too.
  if (count <= kLanes<T> / 4) {
    T sums[kLanes<T>] = {};
    for (int64_t r = 0; r < count; ++r) {
      sums[r] = horizontal_sum(folded[r]);
    }
    return Vector<T>::load(sums);
  }
  for (int64_t r = count; r < kLanes<T>; ++r) {
    folded[r] = Vector<T>::broadcast(0);
  }
  return sums_of<T>(folded);
}

// Numbers of some units as a vector, with zeros past the last unit.
template <typename T>
KERNEL_HOST_DEVICE Vector<T> load_units(const T* source, int64_t count) {
  T units[kLanes<T>] = {};
  if (source != nullptr) {
    __builtin_memcpy(units, source, static_cast<size_t>(count) * sizeof(T));
  }
  return Vector<T>::load(units);
}
template <typename T>
KERNEL_HOST_DEVICE void store_units(Vector<T> value, T* target, int64_t count) {
  T units[kLanes<T>];
  value.store(units);
  __builtin_memcpy(target, units, static_cast<size_t>(count) * sizeof(T));
}

// The rows of up to kLanes units, and where they go when they change: over themselves or elsewhere.
template <typename T>
class UnitRows {
  using V = Vector<T>;

 public:
  UnitRows(const T* from, T* to, int64_t size, int64_t count) : from_(from), to_(to), size_(size), count_(count) {}

  int64_t count() const {
    return count_;
  }

  // w x
  V products(const T* x) const {
    return sums_over_rows<T, kTogether<T>>(
        count_, [&](int64_t r, auto together, V* folded) __attribute__((always_inline)) {
          constexpr int kRows = decltype(together)::value;
          PartialSums<T> sums[kRows];
          const T* const w = from_ + r * size_;
          for_vectors<T>(
              size_, [&](int64_t i, int v) __attribute__((always_inline)) {
                const V factor = V::load(x + i);
#pragma GCC unroll 8
                for (int j = 0; j < kRows; ++j) {
                  sums[j].lanes[v] = fused_multiply_add(V::load(w + j * size_ + i), factor, sums[j].lanes[v]);
                }
              });
          for (int j = 0; j < kRows; ++j) {
            folded[j] = sums[j].folded();
          }
        });
  }

  // put(b, w x_b) for every sample of a batch
  template <typename Put>
  void products(int64_t batch, const T* x, const Put& put) const {
    for_rows<kTileSamples>(
        batch, [&](int64_t b, auto samples) __attribute__((always_inline)) {
          constexpr int kSamples = decltype(samples)::value;
          if constexpr (kSamples == 1) {
            put(b, products(x + b * size_));
          } else {
            V folded[kSamples][kLanes<T>];
            for_rows<kTileRows>(
                count_, [&](int64_t r, auto together) __attribute__((always_inline)) {
                  product_tile<decltype(together)::value, kSamples>(from_ + r * size_, x + b * size_, folded, r);
                });
            for (int s = 0; s < kSamples; ++s) {
              for (int64_t r = count_; r < kLanes<T>; ++r) {
                folded[s][r] = V::broadcast(0);
              }
              put(b + s, sums_of<T>(folded[s]));
            }
          }
        });
  }

  // w v, row by row of others of the same number
  V products_of_rows(const T* others) const {
    T sums[kLanes<T>] = {};
    for (int64_t r = 0; r < count_; ++r) {
      sums[r] = dot(from_ + r * size_, others + r * size_, size_);
    }
    return V::load(sums);
  }

  // w += gain now - loss w, then w next
  V update(V gain, V loss, const T* now, const T* next) const {
    T gains[kLanes<T>];
    T losses[kLanes<T>];
    gain.store(gains);
    (-loss).store(losses);
    return sums_over_rows<T, kUpdatedTogether<T>>(
        count_, [&](int64_t r, auto together, V* folded) __attribute__((always_inline)) {
          constexpr int kRows = decltype(together)::value;
          PartialSums<T> sums[kRows];
          V gain_of[kRows];
          V loss_of[kRows];
          for (int j = 0; j < kRows; ++j) {
            gain_of[j] = V::broadcast(gains[r + j]);
            loss_of[j] = V::broadcast(losses[r + j]);
          }
          const T* const from = from_ + r * size_;
          T* const to = to_ + r * size_;
          for_vectors<T>(
              size_, [&](int64_t i, int v) __attribute__((always_inline)) {
                const V x = V::load(now + i);
                const V ahead = V::load(next + i);
#pragma GCC unroll 8
                for (int j = 0; j < kRows; ++j) {
                  const V old = V::load(from + j * size_ + i);
                  const V changed = fused_multiply_add(gain_of[j], x, fused_multiply_add(loss_of[j], old, old));
                  changed.store(to + j * size_ + i);
                  sums[j].lanes[v] = fused_multiply_add(changed, ahead, sums[j].lanes[v]);
                }
              });
          for (int j = 0; j < kRows; ++j) {
            folded[j] = sums[j].folded();
          }
        });
  }

  // w += sum_b gain_b x_b - loss w, for a batch of inputs and the gains of all rows for each; a block of columns for
  // all rows, which finds its inputs in the nearest cache.
  void update(int64_t batch, const T* gains, V loss, const T* x) const {
    T losses[kLanes<T>];
    (-loss).store(losses);
    for (int64_t i = 0; i < size_; i += kSumLanes) {
      for_rows<kTogether<T>>(
          count_, [&](int64_t r, auto together) __attribute__((always_inline)) {
            constexpr int kRows = decltype(together)::value;
            if (i + kSumLanes <= size_) {
              update_block<kRows, kVectors<T>>(r * size_ + i, batch, gains + r, losses + r, x + i);
            } else {
              update_block<kRows, kVectors<T> / 2>(r * size_ + i, batch, gains + r, losses + r, x + i);
            }
          });
    }
  }

  // The largest |sum_b gain_b x_b - loss w| of all rows.
  T largest_step(int64_t batch, const T* gains, V loss, const T* x) const {
    T losses[kLanes<T>];
    (-loss).store(losses);
    V largest = V::broadcast(0);
    for (int64_t r = 0; r < count_; ++r) {
      const V own = V::broadcast(losses[r]);
      for (int64_t i = 0; i < size_; i += kLanes<T>) {
        V step = own * V::load(from_ + r * size_ + i);
        for (int64_t b = 0; b < batch; ++b) {
          step = fused_multiply_add(V::broadcast(gains[b * kLanes<T> + r]), V::load(x + b * size_ + i), step);
        }
        largest = larger(largest, magnitude(step));
      }
    }
    return largest_lane(largest);
  }
  // |w|^2
  V squares() const {
    return products_of_rows(from_);
  }

  // Of the rows where they have gone; returns what they were multiplied by.
  V normalize() const {
    T factors[kLanes<T>] = {};
    for (int64_t r = 0; r < count_; ++r) {
      factors[r] = normalize_row(to_ + r * size_, size_);
    }
    return V::load(factors);
  }

  // Through the division of other rows by their norms, which made units of them by these factors: what lies across a
  // row, times its factor. The derivative and its transpose are the same.
  void move_across(const T* units, const T* factors) const {
    for (int64_t r = 0; r < count_; ++r) {
      const T* const from = from_ + r * size_;
      const T* const unit = units + r * size_;
      const V factor = V::broadcast(factors[r]);
      const V along = V::broadcast(-dot(unit, from, size_));
      for (int64_t i = 0; i < size_; i += kLanes<T>) {
        (fused_multiply_add(along, V::load(unit + i), V::load(from + i)) * factor).store(to_ + r * size_ + i);
      }
    }
  }

  // w -= factor v, row by row
  void subtract(V factor, const T* others) const {
    T factors[kLanes<T>];
    (-factor).store(factors);
    for (int64_t r = 0; r < count_; ++r) {
      const V own = V::broadcast(factors[r]);
      for (int64_t i = r * size_; i < (r + 1) * size_; i += kLanes<T>) {
        fused_multiply_add(own, V::load(others + i), V::load(from_ + i)).store(to_ + i);
      }
    }
  }

 private:
  // Partial sums are taken in pairs that are added first when they are folded: a pass over the rows for each pair.
  template <int kRows, int kSamples>
  KERNEL_HOST_DEVICE void product_tile(const T* w, const T* x, V (&folded)[kSamples][kLanes<T>], int64_t row) const {
    constexpr int kHalf = kVectors<T> / 2;
    V halves[kRows][kSamples][kHalf];
#pragma GCC unroll 1
    for (int v = 0; v < kHalf; ++v) {
      V sums[2][kRows][kSamples];
#pragma GCC unroll 2
      for (int k = 0; k < 2; ++k) {
#pragma GCC unroll 4
        for (int j = 0; j < kRows; ++j) {
#pragma GCC unroll 4
          for (int s = 0; s < kSamples; ++s) {
            sums[k][j][s] = V::broadcast(0);
          }
        }
      }
      const auto add = [&](int64_t i, V(&own)[kRows][kSamples]) __attribute__((always_inline)) {
        V factors[kSamples];
#pragma GCC unroll 4
        for (int s = 0; s < kSamples; ++s) {
          factors[s] = V::load(x + s * size_ + i);
        }
#pragma GCC unroll 4
        for (int j = 0; j < kRows; ++j) {
          const V element = V::load(w + j * size_ + i);
#pragma GCC unroll 4
          for (int s = 0; s < kSamples; ++s) {
            own[j][s] = fused_multiply_add(element, factors[s], own[j][s]);
          }
        }
      };
      int64_t i = v * kLanes<T>;
      for (; i + kRowPadding < size_; i += kSumLanes) {
        add(i, sums[0]);
        add(i + kRowPadding, sums[1]);
      }
      if (i < size_) {
        add(i, sums[0]);
      }
#pragma GCC unroll 4
      for (int j = 0; j < kRows; ++j) {
#pragma GCC unroll 4
        for (int s = 0; s < kSamples; ++s) {
          halves[j][s][v] = sums[0][j][s] + sums[1][j][s];
        }
      }
    }
    for (int j = 0; j < kRows; ++j) {
      for (int s = 0; s < kSamples; ++s) {
        folded[s][row + j] = sum_by_halves(halves[j][s]);
      }
    }
  }

  // kCount vectors of some rows stay in registers for the whole batch.
  template <int kRows, int kCount>
  KERNEL_HOST_DEVICE void update_block(int64_t place, int64_t batch, const T* gains, const T* losses,
                                       const T* x) const {
    V changed[kRows][kCount];
#pragma GCC unroll 8
    for (int j = 0; j < kRows; ++j) {
      const V loss = V::broadcast(losses[j]);
#pragma GCC unroll 16
      for (int v = 0; v < kCount; ++v) {
        const V old = V::load(from_ + place + j * size_ + v * kLanes<T>);
        changed[j][v] = fused_multiply_add(loss, old, old);
      }
    }
    for (int64_t b = 0; b < batch; ++b) {
#pragma GCC unroll 8
      for (int j = 0; j < kRows; ++j) {
        const V gain = V::broadcast(gains[b * kLanes<T> + j]);
#pragma GCC unroll 16
        for (int v = 0; v < kCount; ++v) {
          changed[j][v] = fused_multiply_add(gain, V::load(x + b * size_ + v * kLanes<T>), changed[j][v]);
        }
      }
    }
#pragma GCC unroll 8
    for (int j = 0; j < kRows; ++j) {
#pragma GCC unroll 16
      for (int v = 0; v < kCount; ++v) {
        changed[j][v].store(to_ + place + j * size_ + v * kLanes<T>);
      }
    }
  }

  const T* from_;
  T* to_;
  int64_t size_;
  int64_t count_;
};

// Ticks of units without coupling.
template <typename T>
struct UnitTicks {
  using V = Vector<T>;
  const PlasticParams& p;
  PlasticFormulas<T> formulas;

  explicit UnitTicks(const PlasticParams& params) : p(params), formulas(params) {}

  // Whether a tick is learn_one(), else learn().
  bool one_pass() const {
    return p.batch == 1 && !p.normalize;
  }
  const T* input(int64_t learner, int64_t tick) const {
    return static_cast<const T*>(p.inputs) + (learner * p.ticks + tick) * p.batch * p.size;
  }

  // E[y^2] of a tick's outputs, those of its samples `stride` apart.
  V mean_square(const T* outputs, int64_t stride) const {
    V squares = V::broadcast(0);
    for (int64_t b = 0; b < p.batch; ++b) {
      const V output = V::load(outputs + b * stride);
      squares = fused_multiply_add(output, output, squares);
    }
    return squares / V::broadcast(static_cast<T>(p.batch));
  }

  // A tick of one input: from the products with it to those with the next.
  V learn_one(const UnitRows<T>& rows, const T* now, const T* next, V products, T* output, V& theta) const {
    const V y = formulas.output(products);
    y.store(output);
    const V square = y * y;
    const V gain = formulas.gain(y, theta);
    theta = formulas.next_theta(theta, square);
    return rows.update(gain, formulas.loss(square), now, next);
  }

  // A tick of several inputs, or of rows that are scaled after it; returns what the rows were multiplied by. The
  // outputs of its samples are `stride` apart; gains is workspace for kLanes numbers a sample.
  V learn(const UnitRows<T>& rows, const T* x, T* outputs, int64_t stride, T* gains, V& theta) const {
    rows.products(p.batch, x, [&](int64_t b, V u) { formulas.output(u).store(outputs + b * stride); });
    const V square = mean_square(outputs, stride);
    for (int64_t b = 0; b < p.batch; ++b) {
      formulas.gain(V::load(outputs + b * stride), theta).store(gains + b * kLanes<T>);
    }
    rows.update(p.batch, gains, formulas.loss(square), x);
    theta = formulas.next_theta(theta, square);
    return p.normalize ? rows.normalize() : V::broadcast(1);
  }
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
