// Kernels of superpose: weighted sums of rows whose order of summation depends on K, D and the storage type alone.
//
// The items of a row form chunks of kChunkItems; within a chunk, group g of a block sums items g, g + groups, ... in
// ascending order, then the groups are added in ascending order, then the chunks. One chunk of a short row is done by
// one block in shared memory; otherwise a first kernel leaves the chunks' sums in a workspace, so that a single long
// superposition still fills the device.
#pragma once

#include "kernels/hrr/row_io.cuh"
#include "kernels/hrr/superposition.h"

namespace torch_hrr::kernels {

constexpr int kSuperposeThreads = 256;
constexpr int64_t kChunkItems = 64;
constexpr int64_t kMaxSharedSuperposeDim = 4096;

// How a row is divided, as data of its sizes.
struct SuperpositionPlan {
  int64_t chunks = 1;
  int lanes = 1;  // threads side by side in a row, each with `run` elements
  int run = 1;
  bool workspace = false;

  KERNEL_HOST_DEVICE int64_t tile() const {
    return static_cast<int64_t>(lanes) * run;
  }
};

inline SuperpositionPlan superposition_plan(int64_t items, int64_t dim, int storage_bytes) {
  SuperpositionPlan plan;
  plan.run = 16 / storage_bytes;
  while (plan.lanes < kSuperposeThreads && plan.tile() < dim) {
    plan.lanes *= 2;
  }
  plan.chunks = items <= kChunkItems ? 1 : (items + kChunkItems - 1) / kChunkItems;
  plan.workspace = plan.chunks > 1 || dim > kMaxSharedSuperposeDim;
  return plan;
}

// Elements of the compute type in the workspace of the two-kernel form, 0 for the other.
inline int64_t superposition_workspace_elements(const SuperpositionPlan& plan, int64_t rows, int64_t dim) {
  return plan.workspace ? rows * plan.chunks * dim : 0;
}

// Bytes of shared memory: the partial sums of a tile by group, warp partials, and (one block) the whole row.
inline std::size_t superposition_shared_bytes(const SuperpositionPlan& plan, int64_t dim, std::size_t compute_bytes) {
  const int64_t row = plan.workspace ? 0 : dim;
  return static_cast<std::size_t>(kSuperposeThreads * plan.run + kWarpSize + row) * compute_bytes;
}

// The items of one output row, as a thread of the block sees them; kElements of the storage type fill 16 bytes.
template <typename T, int kElements>
struct SuperpositionRow {
  struct Elements {
    T values[kElements];
  };

  StoredInput<T> vectors;
  StoredInput<T> weights;
  int64_t stride_vectors;
  int64_t stride_weights;
  int64_t items;
  int64_t dim;
  int lanes;
  T* partials;  // kSuperposeThreads * kElements + kWarpSize
  StoredOutput<T> out;
  double eps;
  bool normalize;
  bool aligned;

  KERNEL_DEVICE SuperpositionRow(const SuperpositionParams& params, const SuperpositionPlan& plan, Storage storage,
                                 int64_t r, T* shared)
      : vectors(stored_input<T>(params.vectors, storage) + placed_row(params.map, 0, r)),
        weights(stored_input<T>(params.weights, storage)),
        stride_vectors(params.item_stride_vectors),
        stride_weights(params.item_stride_weights),
        items(params.items),
        dim(params.dim),
        lanes(plan.lanes),
        partials(shared),
        out(stored_output<T>(params.out, storage) + r * params.dim),
        eps(params.eps),
        normalize(params.normalize) {
    if (weights.exists()) {
      weights = weights + placed_row(params.map, 1, r);
    }
    aligned = dim % kElements == 0 && stride_vectors % kElements == 0 &&
              reinterpret_cast<std::uintptr_t>(vectors.first) % 16 == 0;
  }

  KERNEL_DEVICE T weight(int64_t k) const {
    return weights.exists() ? weights[k * stride_weights] : T{1};
  }
  KERNEL_DEVICE int lane() const {
    return thread_rank() % lanes;
  }
  KERNEL_DEVICE int group() const {
    return thread_rank() / lanes;
  }
  KERNEL_DEVICE int groups() const {
    return kSuperposeThreads / lanes;
  }

  KERNEL_DEVICE Elements load(int64_t k, int64_t first) const {
    Elements result;
    const auto load_as = [&](auto zero) {
      using S = decltype(zero);
      const S* const item = reinterpret_cast<const S*>((vectors + k * stride_vectors + first).first);
      // Not load_run: its unrolled remainder takes 26 registers more for the half types.
      ElementRun<S, kElements> run{};
      if (aligned) {
        if (first < dim) {
          run = *reinterpret_cast<const ElementRun<S, kElements>*>(item);
        }
      } else {
        for (int i = 0; i < kElements; ++i) {
          if (first + i < dim) {
            run.elements[i] = item[i];
          }
        }
      }
      for (int i = 0; i < kElements; ++i) {
        result.values[i] = static_cast<T>(run.elements[i]);
      }
    };
    // kElements leaves but one type, or the half types.
    if constexpr (kElements * sizeof(T) == 16) {
      load_as(T{});
    } else if (vectors.storage == Storage::kHalf) {
      load_as(Half{});
    } else {
      load_as(BFloat16{});
    }
    return result;
  }

  // sum += w x, or with kScaled += w x 2^-exponent from fractions and exponents, whatever the range of w and x.
  template <bool kScaled>
  KERNEL_DEVICE static T add_term(T w, T x, int exponent, T sum) {
    if constexpr (kScaled) {
      int exponent_w = 0;
      int exponent_x = 0;
      const T fraction_w = ::frexp(w, &exponent_w);
      const T fraction_x = ::frexp(x, &exponent_x);
      return sum + ::ldexp(fraction_w * fraction_x, exponent_w + exponent_x - exponent);
    } else {
      return multiply_add(w, x, sum);
    }
  }

  // totals[i] = the sum over items [begin, end) of elements [first, first + tile), for the threads of group 0.
  template <bool kScaled>
  KERNEL_DEVICE void sum_tile(int64_t begin, int64_t end, int64_t first_of_tile, int exponent, T* totals) const {
    const int64_t first = first_of_tile + static_cast<int64_t>(lane()) * kElements;
    T sums[kElements] = {};
    for (int64_t k = begin + group(); k < end; k += groups()) {
      const Elements item = load(k, first);
      const T w = weight(k);
      for (int i = 0; i < kElements; ++i) {
        sums[i] = add_term<kScaled>(w, item.values[i], exponent, sums[i]);
      }
    }
    // Nobody reads what was summed before any more.
    block_sync();
    for (int i = 0; i < kElements; ++i) {
      partials[(group() * kElements + i) * lanes + lane()] = sums[i];
    }
    block_sync();
    if (group() == 0) {
      ElementRun<T, kElements> run;
      for (int i = 0; i < kElements; ++i) {
        for (int g = 1; g < groups(); ++g) {
          sums[i] += partials[(g * kElements + i) * lanes + lane()];
        }
        run.elements[i] = sums[i];
      }
      const int size = first + kElements <= dim ? kElements : static_cast<int>(dim - first);
      store_run(totals + first, run, size, is_run_aligned<T, kElements>(totals));
    }
  }

  // The largest exponent of a term w_k x_kd.
  KERNEL_DEVICE MeasuredRow measure() const {
    constexpr int kNone = -100000;
    int largest = kNone;
    bool bad = false;
    for (int64_t k = group(); k < items; k += groups()) {
      const T w = weight(k);
      bad = bad || !is_finite(w);
      for (int64_t d = lane(); d < dim; d += lanes) {
        const T x = vectors[k * stride_vectors + d];
        bad = bad || !is_finite(x);
        if (w != T{0} && x != T{0} && is_finite(w) && is_finite(x)) {
          const int exponent = ::ilogb(w) + ::ilogb(x);
          largest = largest < exponent ? exponent : largest;
        }
      }
    }
    const bool finite = !block_any(bad);
    largest = block_max(largest, reinterpret_cast<int*>(partials));
    return {largest == kNone ? 0 : largest, finite, finite && largest == kNone};
  }
};

// Normalises and stores a row of sums that stands for totals 2^exponent. Without kScaled, true if the sums left the
// range of T, with nothing stored.
template <bool kScaled, typename T, int kElements>
KERNEL_DEVICE bool finish_superposition(const SuperpositionRow<T, kElements>& row, const T* totals, int exponent) {
  T factor = 1;
  bool good = true;
  if (row.normalize) {
    T squared = 0;
    for (int64_t d = thread_rank(); d < row.dim; d += kSuperposeThreads) {
      squared = multiply_add(totals[d], totals[d], squared);
    }
    squared = block_sum(squared, row.partials);
    const NormalizingScale<T> scale(squared, exponent, row.eps);
    good = safe_squared_norm(squared);
    factor = scale.factor;
    exponent = scale.exponent;
  } else {
    for (int64_t d = thread_rank(); d < row.dim; d += kSuperposeThreads) {
      good = good && is_finite(totals[d]);
    }
  }
  if constexpr (!kScaled) {
    if (block_any(!good)) {
      return true;
    }
  }
  const ScaleFactors<T> power(exponent);
  row.out.visit([&](auto* out) {
    using S = std::remove_reference_t<decltype(*out)>;
    for (int64_t d = thread_rank(); d < row.dim; d += kSuperposeThreads) {
      out[d] = static_cast<S>(power.times(totals[d] * factor));
    }
  });
  return false;
}

// The row again from terms scaled by powers of two, or NaN where an input is not finite.
template <typename T, int kElements>
KERNEL_COLD void superpose_scaled(SuperpositionRow<T, kElements> row, T* totals) {
  const MeasuredRow terms = row.measure();
  if (!terms.finite) {
    row.out.visit([&](auto* out) {
      using S = std::remove_reference_t<decltype(*out)>;
      for (int64_t d = thread_rank(); d < row.dim; d += kSuperposeThreads) {
        out[d] = static_cast<S>(kNan<T>);
      }
    });
    return;
  }
  // Zeros sum to zeros as they stand.
  if (!terms.zero) {
    const int64_t tile = static_cast<int64_t>(row.lanes) * kElements;
    for (int64_t first = 0; first < row.dim; first += tile) {
      row.template sum_tile<true>(0, row.items, first, terms.exponent, totals);
    }
    block_sync();
  }
  finish_superposition<true>(row, totals, terms.exponent);
}

// workspace[r][chunk] = the sum of one chunk: a block for each tile of each chunk of each row.
template <typename T, int kElements>
__global__ void __launch_bounds__(kSuperposeThreads)
    superpose_chunks_kernel(SuperpositionParams params, SuperpositionPlan plan, Storage storage, T* workspace) {
  const int64_t tiles = (params.dim + plan.tile() - 1) / plan.tile();
  const int64_t blocks = params.rows * plan.chunks * tiles;
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t tile = block % tiles;
    const int64_t chunk = block / tiles % plan.chunks;
    const int64_t r = block / tiles / plan.chunks;
    const SuperpositionRow<T, kElements> row(params, plan, storage, r, dynamic_shared<T>());
    const int64_t begin = chunk * kChunkItems;
    const int64_t end = begin + kChunkItems < params.items ? begin + kChunkItems : params.items;
    row.template sum_tile<false>(begin, end, tile * plan.tile(), 0, workspace + (r * plan.chunks + chunk) * params.dim);
  }
}

// Blocks that a multiprocessor is to hold, 0 for the compiler's choice: here it would spill to make room for a fourth.
template <typename T, int kElements>
constexpr int kSuperposeBlocks = sizeof(T) == 8 && kElements == 2 ? 3 : 0;

// out[r] = sum_k w[r,k] x[r,k] / max(norm2, eps), a block a row.
template <typename T, int kElements>
__global__ void __launch_bounds__(kSuperposeThreads, kSuperposeBlocks<T, kElements>)
    superpose_kernel(SuperpositionParams params, SuperpositionPlan plan, Storage storage, T* workspace) {
  T* const partials = dynamic_shared<T>();
  for (int64_t r = blockIdx.x; r < params.rows; r += gridDim.x) {
    const SuperpositionRow<T, kElements> row(params, plan, storage, r, partials);
    T* totals = partials + kSuperposeThreads * kElements + kWarpSize;
    if (plan.workspace) {
      totals = workspace + r * plan.chunks * params.dim;
      for (int64_t d = thread_rank(); d < params.dim; d += kSuperposeThreads) {
        T sum = totals[d];
        for (int64_t chunk = 1; chunk < plan.chunks; ++chunk) {
          sum += totals[chunk * params.dim + d];
        }
        totals[d] = sum;
      }
    } else {
      for (int64_t first = 0; first < params.dim; first += plan.tile()) {
        row.template sum_tile<false>(0, params.items, first, 0, totals);
      }
    }
    block_sync();
    if (finish_superposition<false>(row, totals, 0)) {
      superpose_scaled(row, totals);
    }
  }
}

}  // namespace torch_hrr::kernels
