// Spectral maps of the bins that a library's transform gave, on the CPU; compiled once per instruction set.
#include "kernels/hrr/bin_maps.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

constexpr int kBinLanes = kVectorBytes / static_cast<int>(sizeof(double));
using L = Simd<double, kBinLanes>;

// Interleaved bins of a library's transform, mapped in place.
template <SpectralMap kMap>
void map_library_row(double* bins, const double* v, int64_t count, const BinScalars& row) {
  double block[4][kBinLanes];
  for (int64_t k = 0; k < count; k += kBinLanes) {
    const int64_t lanes = count - k < kBinLanes ? count - k : kBinLanes;
    for (int64_t i = 0; i < kBinLanes; ++i) {
      const bool exists = i < lanes;
      block[0][i] = exists ? bins[2 * (k + i)] : 0;
      block[1][i] = exists ? bins[2 * (k + i) + 1] : 0;
      block[2][i] = exists && takes_direction(kMap) ? v[2 * (k + i)] : 0;
      block[3][i] = exists && takes_direction(kMap) ? v[2 * (k + i) + 1] : 0;
    }
    const Complex<L> result =
        map_bin<kMap>(Complex<L>{L::load(block[0]), L::load(block[1])}, {L::load(block[2]), L::load(block[3])}, row);
    result.re.store(block[0]);
    result.im.store(block[1]);
    for (int64_t i = 0; i < lanes; ++i) {
      bins[2 * (k + i)] = block[0][i];
      bins[2 * (k + i) + 1] = block[1][i];
    }
  }
}

void map_library_rows(const LibraryBinsParams& params, int64_t begin, int64_t end, void*) {
  for (int64_t r = begin; r < end; ++r) {
    const BinScalars row = scalars_of(params, r);
    double* bins = params.bins + 2 * params.count * r;
    const double* v = params.v == nullptr ? nullptr : params.v + 2 * params.count * r;
    with_map(params.kind, [&](auto kind) { map_library_row<decltype(kind)::value>(bins, v, params.count, row); });
    bins[1] = 0;
    if (params.last_is_real) {
      bins[2 * params.count - 1] = 0;
    }
  }
}

}  // namespace

KERNEL_REGISTER(RowKernel<LibraryBinsParams>, {[](const LibraryBinsParams& params) { return params.dim; },
                                               [](const LibraryBinsParams&) { return int64_t{0}; }, map_library_rows})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
