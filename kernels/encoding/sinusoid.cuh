// Kernels of sinusoids: a thread keeps the frequencies of its columns, which fill 16 bytes, and strides through rows.
#pragma once

#include "kernels/cuda/element_run.cuh"
#include "kernels/cuda/stored.cuh"
#include "kernels/encoding/sinusoid.h"

namespace torch_hrr::kernels {

constexpr int kSinusoidThreads = 256;

// A frequency in turns per position, and the turns at position 0.
struct Angle {
  FixedPoint turn;
  uint64_t offset = 0;
  bool finite = true;
};

// The frequencies from `first` on, as many as a launch takes.
struct FrequencySlice {
  int64_t first = 0;
  int64_t count = 0;
};

// load(i, size, columns): the first `size` of kPairs angles from i on. Analytic frequencies come as a parameter of the
// kernel: nothing is uploaded.
template <int kCapacity>
struct LadderAngles {
  uint64_t offset;
  FixedPoint turns[kCapacity];

  template <int kPairs>
  KERNEL_DEVICE void load(int64_t i, int size, Angle (&columns)[kPairs]) const {
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      if (j < size) {
        columns[j] = {turns[i + j], offset};
      }
    }
  }
};

// Of all frequencies: those in memory need no slices.
struct HeldAngles {
  HeldFrequencies held;

  template <int kPairs>
  static KERNEL_DEVICE void load_numbers(const void* numbers, Storage storage, int64_t i, int size,
                                         double (&values)[kPairs]) {
    const auto load_as = [&](auto zero) {
      using S = decltype(zero);
      const S* const first = static_cast<const S*>(numbers) + i;
      const auto run = load_run<S, kPairs>(first, size, is_run_aligned<S, kPairs>(first));
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        values[j] = static_cast<double>(run.elements[j]);
      }
    };
    if (storage == Storage::kDouble) {
      load_as(double{});
    } else {
      with_stored_type<float>(storage, load_as);
    }
  }
  template <int kPairs>
  KERNEL_DEVICE void load(int64_t i, int size, Angle (&columns)[kPairs]) const {
    double frequencies[kPairs];
    double phases[kPairs] = {};
    load_numbers(held.frequencies, held.frequency_storage, i, size, frequencies);
    if (held.phases != nullptr) {
      load_numbers(held.phases, held.phase_storage, i, size, phases);
    }
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      columns[j] = {turns_of(frequencies[j]), turns_of(phases[j]).fraction,
                    frequencies[j] - frequencies[j] == 0 && phases[j] - phases[j] == 0};
    }
  }
};

template <typename T>
KERNEL_DEVICE SineCosine<T> sine_cosine_at(const LoadedPosition& position, const Angle& angle) {
  if (!position.finite || !angle.finite) {
    return {NumberLimits<T>::kNaN, NumberLimits<T>::kNaN};
  }
  const uint64_t phase = phase_of(position.value, angle.turn, angle.offset);
  if constexpr (sizeof(T) == 4) {
    return sine_cosine_of_phase<T>(short_phase(phase));
  } else {
    return sine_cosine_of_phase<T>(phase);
  }
}

// body(S{}) with the type S of which kElements fill 16 bytes.
template <int kElements, typename Body>
KERNEL_DEVICE void with_run_type(Storage storage, const Body& body) {
  if constexpr (kElements == 2) {
    body(double{});
  } else if constexpr (kElements == 4) {
    body(float{});
  } else if (storage == Storage::kHalf) {
    body(Half{});
  } else {
    body(BFloat16{});
  }
}

// Leaves sinusoids as they are.
struct PlainRows {
  template <typename T>
  struct Row {
    template <int kElements>
    KERNEL_DEVICE void finish(T (&)[kElements], int64_t, int) const {}
  };
  template <typename T>
  KERNEL_DEVICE Row<T> row(int64_t) const {
    return {};
  }
};

// Adds the row of a table that a token names, and divides. The table is stored in a type that is computed in T.
struct TableRows {
  TableLookup lookup;

  template <typename T>
  struct Row {
    const TableLookup& lookup;
    int64_t token;

    template <int kElements>
    KERNEL_DEVICE void finish(T (&values)[kElements], int64_t column, int size) const {
      const bool outside = token < 0 || token >= lookup.table_rows;
      if (outside || token == lookup.padding) {
        for (T& value : values) {
          value = outside ? NumberLimits<T>::kNaN : T{0};
        }
        return;
      }
      const auto temperature = static_cast<T>(lookup.temperature);
      const auto table = stored_input<T>(lookup.table, lookup.table_storage) + (token * lookup.table_stride + column);
      table.visit([&](const auto* elements) {
        using S = std::remove_cvref_t<decltype(*elements)>;
        const auto run = load_run<S, kElements>(elements, size, is_run_aligned<S, kElements>(elements));
        for (int i = 0; i < kElements; ++i) {
          values[i] = (static_cast<T>(run.elements[i]) + values[i]) / temperature;
        }
      });
    }
  };
  template <typename T>
  KERNEL_DEVICE Row<T> row(int64_t r) const {
    return {lookup, load_token(lookup, r)};
  }
};

// The columns of a thread, `each` from `first` on of `count`, and its rows: groups of threads side by side make a row.
struct ThreadRows {
  int64_t first;
  int64_t row;
  int64_t step;

  // Threads beyond the last full row of groups begin after the last row.
  KERNEL_DEVICE ThreadRows(int64_t count, int each, int64_t rows) {
    const int64_t groups = (count + each - 1) / each;
    const int64_t threads = static_cast<int64_t>(gridDim.x) * block_threads();
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * block_threads() + thread_rank();
    step = threads / groups;
    first = thread % groups * each;
    row = thread < step * groups ? thread / groups : rows;
  }
};

// T: of the results; kElements: as many as fill 16 bytes.
template <typename T, int kElements, bool kInterleaved, typename Angles, typename Finish>
__global__ void __launch_bounds__(kSinusoidThreads)
    sinusoid_kernel(SinusoidParams params, Storage storage, FrequencySlice slice, Angles angles, Finish finish) {
  constexpr int kPairs = kInterleaved ? kElements / 2 : kElements;
  const ThreadRows own(slice.count, kPairs, params.rows);
  const int64_t frequency = slice.first + own.first;
  Angle columns[kPairs];
  angles.load(own.first, static_cast<int>(slice.count - own.first < kPairs ? slice.count - own.first : kPairs),
              columns);
  const int64_t sines = params.frequencies();
  const int64_t cosines = params.dim / 2;
  // At most kElements: the rest of a row, or of its sines or cosines.
  const auto run_size = [](int64_t left) { return static_cast<int>(left < kElements ? left : kElements); };
  for (int64_t r = own.row; r < params.rows; r += own.step) {
    const LoadedPosition position = load_position(params.positions, r);
    const auto row = finish.template row<T>(r);
    T first[kElements];
    T second[kInterleaved ? 1 : kElements];
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const SineCosine<T> pair = sine_cosine_at<T>(position, columns[j]);
      first[kInterleaved ? 2 * j : j] = pair.sine;
      (kInterleaved ? first[2 * j + 1] : second[kInterleaved ? 0 : j]) = pair.cosine;
    }
    const auto store = [&](T(&values)[kElements], int64_t column, int size) {
      row.finish(values, column, size);
      with_run_type<kElements>(storage, [&](auto zero) {
        using S = decltype(zero);
        ElementRun<S, kElements> run;
        for (int i = 0; i < kElements; ++i) {
          run.elements[i] = static_cast<S>(values[i]);
        }
        S* const target = static_cast<S*>(params.out) + r * params.dim + column;
        store_run(target, run, size, is_run_aligned<S, kElements>(target));
      });
    };
    if constexpr (kInterleaved) {
      store(first, 2 * frequency, run_size(params.dim - 2 * frequency));
    } else {
      store(first, frequency, run_size(sines - frequency));
      if (frequency < cosines) {
        store(second, sines + frequency, run_size(cosines - frequency));
      }
    }
  }
}

// A thread keeps two frequencies: their gradients are 16 bytes of float.
constexpr int kGradientPairs = 2;

template <typename T, bool kInterleaved>
__global__ void __launch_bounds__(kSinusoidThreads)
    angle_gradient_kernel(AngleGradientParams params, HeldAngles angles) {
  constexpr int kPairs = kGradientPairs;
  const SinusoidParams& sinusoid = params.sinusoid;
  const int64_t count = sinusoid.dim / 2;
  const ThreadRows own(count, kPairs, sinusoid.rows);
  const auto size = static_cast<int>(count - own.first < kPairs ? count - own.first : kPairs);
  Angle columns[kPairs];
  angles.load(own.first, size, columns);
  for (int64_t r = own.row; r < sinusoid.rows; r += own.step) {
    const LoadedPosition position = load_position(sinusoid.positions, r);
    T sines[kPairs];
    T cosines[kPairs];
    stored_input<T>(params.grad, params.grad_storage).visit([&](const auto* elements) {
      using S = std::remove_cvref_t<decltype(*elements)>;
      const S* const row = elements + r * sinusoid.dim;
      if constexpr (kInterleaved) {
        const S* const first = row + 2 * own.first;
        const auto run = load_run<S, 2 * kPairs>(first, 2 * size, is_run_aligned<S, 2 * kPairs>(first));
        for (int j = 0; j < kPairs; ++j) {
          sines[j] = static_cast<T>(run.elements[2 * j]);
          cosines[j] = static_cast<T>(run.elements[2 * j + 1]);
        }
      } else {
        const auto load = [&](const S* first, T(&values)[kPairs]) {
          const auto run = load_run<S, kPairs>(first, size, is_run_aligned<S, kPairs>(first));
          for (int j = 0; j < kPairs; ++j) {
            values[j] = static_cast<T>(run.elements[j]);
          }
        };
        load(row + own.first, sines);
        load(row + count + own.first, cosines);
      }
    });
    ElementRun<T, kPairs> run;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const SineCosine<T> pair = sine_cosine_at<T>(position, columns[j]);
      run.elements[j] = sines[j] * pair.cosine - cosines[j] * pair.sine;
    }
    T* const target = static_cast<T*>(sinusoid.out) + r * count + own.first;
    store_run(target, run, size, is_run_aligned<T, kPairs>(target));
  }
}

}  // namespace torch_hrr::kernels
