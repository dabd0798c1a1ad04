// The CPU entry points of the HRR family, one table an instruction set and storage type.
#pragma once

#include "kernels/fft/chirp_plan.h"
#include "kernels/hrr/circular_convolution.h"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/spectral_map.h"
#include "kernels/hrr/superposition.h"
#include "kernels/storage.h"

namespace torch_hrr::kernels {

// Every entry computes output rows [begin, end) with a 64-byte aligned scratch buffer of the size its companion names.
struct HrrKernels {
  int64_t (*bind_scratch)(int64_t dim);
  void (*bind)(const BindingParams&, int64_t begin, int64_t end, void* scratch);
  int64_t (*bind_backward_scratch)(int64_t dim);
  void (*bind_backward)(const BindingBackwardParams&, int64_t begin, int64_t end, void* scratch);
  int64_t (*record_scratch)(const RecordParams&);
  void (*record)(const RecordParams&, int64_t begin, int64_t end, void* scratch);
  int64_t (*superpose_scratch)(int64_t dim);
  void (*superpose)(const SuperpositionParams&, int64_t begin, int64_t end, void* scratch);
  // Rows of cpu_has_bins(dim), items at least 1.
  int64_t (*multibind_scratch)(int64_t dim);
  void (*multibind)(const MultibindParams&, int64_t begin, int64_t end, void* scratch);
  // Rows of cpu_has_bins(dim); of cpu_has_native_bins(dim) for bind_spectrum.
  int64_t (*spectral_scratch)(int64_t dim);
  void (*spectral_map)(const SpectralMapParams&, int64_t begin, int64_t end, void* scratch);
  void (*packed_spectrum)(const PackedSpectrumParams&, int64_t begin, int64_t end, void* scratch);
  void (*bind_spectrum)(const SpectrumBindingParams&, int64_t begin, int64_t end, void* scratch);
  // What a ChirpLease of this instruction set is made with.
  ChirpTransform chirp_transform;
  // Bins of any length, in double for every storage type; no scratch.
  void (*map_library_bins)(const LibraryBinsParams&, int64_t begin, int64_t end, void* scratch);
};

// The table for the instruction set chosen for this process (isa.h).
const HrrKernels& hrr_kernels(Storage storage);

}  // namespace torch_hrr::kernels
