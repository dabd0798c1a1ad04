// The decisions of row_plan.h, all in this file; their numbers were measured.
#include "kernels/hrr/row_plan.h"

#include <array>

#include "kernels/fft/chirp_plan.h"
#include "kernels/fft/in_register_plan.h"
#include "kernels/fft/lane_plan.h"
#include "kernels/fft/matrix_plan.h"
#include "kernels/fft/mixed_plan.h"
#include "kernels/hrr/chirp_rows.h"
#include "kernels/isa.h"

namespace torch_hrr::kernels {
namespace {

// Bluestein's algorithm over fewer numbers goes in double: the rounding of float would count beside the bins that are
// taken for empty.
constexpr int64_t kMinFloatChirp = 32;
// Up to this length rows are padded on the CPU, and Bluestein's algorithm has transforms.
constexpr int64_t kMaxCpuPaddedDim = kMaxRowTransform / 2;
// A power costs as much for one row as for a vector of them.
constexpr int64_t kMaxPowerLaneDim = 128;
// K D up to which the gradients of K factors go side by side: they keep W times the spectra, which must fit the
// second-level cache.
constexpr int64_t kMaxLaneElements = int64_t{1} << 14;

// GPUs transform powers of two in this range by kernels of their length, and pad up to kMaxPaddedDim.
constexpr int64_t kMinPowerOfTwo = int64_t{2} << kMinDeviceFftLog2;
constexpr int64_t kMaxPowerOfTwo = int64_t{2} << kMaxDeviceFftLog2;
constexpr int64_t kMaxPaddedDim = kMaxPowerOfTwo / 2;
// Rows that a block holds at once of products and spectra, and of sums of products.
constexpr int kBuffers = 2;
constexpr int kSumBuffers = 3;

bool is_product(RowFamily family) {
  return family == RowFamily::kProduct || family == RowFamily::kGradient || family == RowFamily::kProductSum;
}

// A table, since the divisions would show beside the time of a call.
bool has_lanes(int64_t dim) {
  static constexpr auto kHasLanes = [] {
    std::array<bool, kMaxLaneDim + 1> found{};
    for (int64_t n = 1; n <= kMaxLaneDim; ++n) {
      found[n] = is_smooth(n, kMaxPrimeRadix);
    }
    return found;
  }();
  return dim <= kMaxLaneDim && kHasLanes[dim];
}

// Whether matrices go side by side on vectors of `width` lanes: where that takes less time than one by one. It does
// from 97 floats on, up to 660 where bins fill more than 4/5 of the widest vectors, so that rows by themselves leave
// few lanes empty, and else up to kMaxMatrixLaneDim; of doubles, up to half as many.
bool has_matrix_lanes(int64_t dim, int64_t width, int64_t element_bytes) {
  constexpr int64_t kMinDim = 97;
  constexpr int64_t kMaxFilledDim = 660;
  const int64_t floats = element_bytes / static_cast<int64_t>(sizeof(float));
  if (dim < kMinDim || dim > kMaxMatrixLaneDim / floats) {
    return false;
  }
  const int64_t rows = matrix_rows(dim, static_cast<int>(width));
  const int64_t bins = (rows + 1) / 2;
  const bool filled = 5 * bins > 4 * ((bins + width - 1) / width * width);
  return dim >= kMinLaneColumns * rows && (!filled || dim <= kMaxFilledDim / floats);
}

RowPlan path_on_cpu(RowFamily family, int64_t dim, int64_t width) {
  const RowTransform transform = row_transform(dim);
  if (transform != RowTransform::kNone) {
    return {transform == RowTransform::kPairs ? RowPath::kHalf : RowPath::kMatrix, RowGroup::kAlone, dim};
  }
  if (dim > kMaxCpuPaddedDim || family == RowFamily::kSpectrumProduct) {
    return {RowPath::kLibrary, RowGroup::kAlone, dim};
  }
  if (is_product(family)) {
    return {RowPath::kPadded, RowGroup::kAlone, padded_row_length(dim)};
  }
  // Even rows go as half as many complex numbers, if those fill a vector from either end.
  const bool halved = dim % 2 == 0 && dim >= kMinFloatChirp && dim >= 4 * width;
  const RowPath path = dim < kMinFloatChirp ? RowPath::kDoubleChirp : halved ? RowPath::kHalfChirp : RowPath::kChirp;
  return {path, RowGroup::kAlone, chirp_shape(dim, halved).length};
}

RowGroup group_on_cpu(RowFamily family, Storage storage, int64_t dim, int64_t items, int64_t width, RowPath path) {
  const RowGroup lanes = has_lanes(dim) ? RowGroup::kLanes : RowGroup::kAlone;
  const auto matrix_or = [&](RowGroup other) {
    const int64_t bytes = storage == Storage::kDouble ? sizeof(double) : sizeof(float);
    return path == RowPath::kMatrix && has_matrix_lanes(dim, width, bytes) ? RowGroup::kMatrixLanes : other;
  };
  switch (family) {
    case RowFamily::kProduct:
    case RowFamily::kSpectrumProduct:
      return lanes == RowGroup::kLanes ? lanes : matrix_or(lanes);
    case RowFamily::kSpectrum:
      if (active_isa() == Isa::kAvx512 && storage != Storage::kDouble && in_register_radix(dim) != 0) {
        return RowGroup::kRegisters;
      }
      // Matrices take less time for short rows, too: their numbers are bins already.
      return matrix_or(lanes);
    case RowFamily::kPower:
      return dim <= kMaxPowerLaneDim ? lanes : RowGroup::kAlone;
    case RowFamily::kMultibindBackward:
      return items <= kMaxLaneElements / dim ? lanes : RowGroup::kAlone;
    default:
      return lanes;
  }
}

}  // namespace

RowPlan cpu_row_plan(RowFamily family, Storage storage, int64_t dim, int64_t items) {
  const int64_t width = row_lanes(active_isa(), storage);
  RowPlan plan = path_on_cpu(family, dim, width);
  if (plan.path != RowPath::kLibrary) {
    plan.group = group_on_cpu(family, storage, dim, items, width, plan.path);
  }
  return plan;
}

RowPlan cuda_row_plan(RowFamily family, Storage storage, int64_t dim, int64_t shared_bytes) {
  const auto planned = [](RowPath path, int64_t length) { return RowPlan{path, RowGroup::kAlone, length}; };
  const auto fits = [&](int buffers) {
    const MixedPlan plan = mixed_plan(dim);
    const std::size_t bytes = storage == Storage::kDouble ? mixed_shared_bytes<double>(plan, buffers)
                                                          : mixed_shared_bytes<float>(plan, buffers);
    return plan.points > 0 && bytes <= static_cast<std::size_t>(shared_bytes);
  };
  if (family == RowFamily::kMultibindBackward) {
    return planned(RowPath::kLibrary, dim);
  }
  if (dim >= kMinPowerOfTwo && dim <= kMaxPowerOfTwo && (dim & (dim - 1)) == 0) {
    return planned(RowPath::kHalf, dim);
  }
  if (!is_product(family)) {
    if (fits(kBuffers)) {
      return planned(RowPath::kMixed, dim);
    }
    return dim <= kMaxDeviceChirpDim && family != RowFamily::kSpectrumProduct
               ? planned(RowPath::kDoubleChirp, int64_t{1} << device_chirp_log2(dim))
               : planned(RowPath::kLibrary, dim);
  }
  const int buffers = family == RowFamily::kProductSum ? kSumBuffers : kBuffers;
  if (dim > kMaxPaddedDim) {
    return planned(fits(buffers) ? RowPath::kMixed : RowPath::kLibrary, dim);
  }
  int64_t padded = kMinPowerOfTwo;
  while (padded < 2 * dim - 1) {
    padded *= 2;
  }
  // Rows that could be padded are transformed at their own length where that is counted to ask for less. Of short rows
  // a block that pads takes several; odd rows have D points, not D/2.
  const bool counted = dim >= 192 && dim % 2 == 0 && 2 * padded >= 5 * dim;
  return counted && fits(buffers) ? planned(RowPath::kMixed, dim) : planned(RowPath::kPadded, padded);
}

}  // namespace torch_hrr::kernels
