// The CUDA entry points of the HRR family. Plain C++: includes no CUDA header.
//
// All pointers are device pointers; work is queued on the stream and nothing is synchronised or allocated, so calls
// can be captured in a graph. No rows launch nothing. Rows that a launcher does not take and failed launches throw
// std::runtime_error.
#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/fft/mixed_plan.h"
#include "kernels/fft/twiddles.h"
#include "kernels/hrr/chirp_rows.h"
#include "kernels/hrr/circular_convolution.h"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/spectral_map.h"
#include "kernels/hrr/superposition.h"
#include "kernels/storage.h"

namespace torch_hrr::kernels {

// The twiddle table that the launchers of transforms take: computed on the host, uploaded by the caller once a device
// and compute type (double for kDouble, float for the others), kept for as long as kernels may run.
constexpr int64_t twiddle_table_bytes(Storage storage) {
  return static_cast<int64_t>(kTwiddleTablePoints) *
         static_cast<int64_t>(storage == Storage::kDouble ? sizeof(TwiddlePoint<double>) : sizeof(TwiddlePoint<float>));
}
inline void fill_twiddle_table(Storage storage, void* host_memory) {
  if (storage == Storage::kDouble) {
    fill_twiddle_table(static_cast<TwiddlePoint<double>*>(host_memory));
  } else {
    fill_twiddle_table(static_cast<TwiddlePoint<float>*>(host_memory));
  }
}

// Rows of kHalf and kPadded.
void launch_bind(Storage storage, const BindParams& params, const void* twiddles, CudaStream stream);
void launch_bind_backward(Storage storage, const BindBackwardParams& params, const void* twiddles, CudaStream stream);
void launch_bind_superpose(Storage storage, const BindSuperposeParams& params, const void* twiddles, CudaStream stream);

// The rows of mixed_rows.cuh. `table` is one for each device, compute type and length, filled on the host.
inline int64_t mixed_table_bytes(Storage storage, int64_t dim) {
  const MixedPlan plan = mixed_plan(dim);
  return static_cast<int64_t>(storage == Storage::kDouble ? mixed_table_bytes<double>(plan)
                                                          : mixed_table_bytes<float>(plan));
}
inline void fill_mixed_table(Storage storage, int64_t dim, void* host_memory) {
  if (storage == Storage::kDouble) {
    fill_mixed_table<double>(mixed_plan(dim), host_memory);
  } else {
    fill_mixed_table<float>(mixed_plan(dim), host_memory);
  }
}
// The shared memory that a block of the current device may have.
int64_t device_shared_bytes();
void launch_mixed_bind(Storage storage, const BindParams& params, const void* table, CudaStream stream);
void launch_mixed_bind_backward(Storage storage, const BindBackwardParams& params, const void* table,
                                CudaStream stream);
void launch_mixed_bind_superpose(Storage storage, const BindSuperposeParams& params, const void* table,
                                 CudaStream stream);
void launch_mixed_map(Storage storage, const SpectralMapParams& params, const void* table, CudaStream stream);
void launch_mixed_multibind(Storage storage, const MultibindParams& params, const void* table, CudaStream stream);
void launch_mixed_packed(Storage storage, const PackedSpectrumParams& params, const void* table, CudaStream stream);
void launch_mixed_bind_spectrum(Storage storage, const SpectrumBindParams& params, const void* table,
                                CudaStream stream);

// Rows of kHalf.
void launch_spectral_map(Storage storage, const SpectralMapParams& params, const void* twiddles, CudaStream stream);
void launch_multibind(Storage storage, const MultibindParams& params, const void* twiddles, CudaStream stream);
void launch_packed_spectrum(Storage storage, const PackedSpectrumParams& params, const void* twiddles,
                            CudaStream stream);
void launch_bind_spectrum(Storage storage, const SpectrumBindParams& params, const void* twiddles, CudaStream stream);

// Rows of kDoubleChirp; twiddles are those of Storage::kDouble.
void launch_chirp_map(const ChirpMapParams& params, const void* twiddles, CudaStream stream);
void launch_chirp_multibind(const ChirpMultibindParams& params, const void* twiddles, CudaStream stream);
void launch_chirp_packed(const ChirpPackedParams& params, const void* twiddles, CudaStream stream);

// Bins in double whatever the storage type; see LibraryBinsParams.
void launch_map_library_bins(const LibraryBinsParams& params, CudaStream stream);

// workspace: superposition_workspace_bytes(storage, params) bytes, aligned to 16; null where that is 0.
int64_t superposition_workspace_bytes(Storage storage, const SuperpositionParams& params);
void launch_superposition(Storage storage, const SuperpositionParams& params, void* workspace, CudaStream stream);

}  // namespace torch_hrr::kernels
