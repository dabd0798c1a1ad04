// Chooses the launcher of a storage type.
#include "kernels/hrr/cuda_launch.h"

#include <stdexcept>

#include "kernels/hrr/launch_rows.h"

namespace torch_hrr::kernels {
namespace {

// launch_as(S{}, table) with the storage type and its twiddle table
template <typename Launch>
void with_storage(Storage storage, const void* twiddles, const Launch& launch_as) {
  const auto* of_float = static_cast<const TwiddlePoint<float>*>(twiddles);
  switch (storage) {
    case Storage::kFloat:
      return launch_as(float{}, of_float);
    case Storage::kDouble:
      return launch_as(double{}, static_cast<const TwiddlePoint<double>*>(twiddles));
    case Storage::kHalf:
      return launch_as(Half{}, of_float);
    case Storage::kBFloat16:
      return launch_as(BFloat16{}, of_float);
  }
  throw std::runtime_error("torch_hrr: unknown storage type");
}

}  // namespace

void launch_binding(Storage storage, const BindingParams& params, const void* twiddles, CudaStream stream) {
  with_storage(storage, twiddles,
               [&](auto zero, const auto* table) { launch_binding_rows<decltype(zero)>(params, table, stream); });
}

void launch_binding_backward(Storage storage, const BindingBackwardParams& params, const void* twiddles,
                             CudaStream stream) {
  with_storage(storage, twiddles,
               [&](auto zero, const auto* table) { launch_backward_rows<decltype(zero)>(params, table, stream); });
}

void launch_record(Storage storage, const RecordParams& params, const void* twiddles, CudaStream stream) {
  with_storage(storage, twiddles,
               [&](auto zero, const auto* table) { launch_record_rows<decltype(zero)>(params, table, stream); });
}

void launch_spectral_map(Storage storage, const SpectralMapParams& params, const void* twiddles, CudaStream stream) {
  with_storage(storage, twiddles,
               [&](auto zero, const auto* table) { launch_spectral_map_rows<decltype(zero)>(params, table, stream); });
}

void launch_multibind(Storage storage, const MultibindParams& params, const void* twiddles, CudaStream stream) {
  with_storage(storage, twiddles,
               [&](auto zero, const auto* table) { launch_multibind_rows<decltype(zero)>(params, table, stream); });
}

void launch_packed_spectrum(Storage storage, const PackedSpectrumParams& params, const void* twiddles,
                            CudaStream stream) {
  with_storage(storage, twiddles, [&](auto zero, const auto* table) {
    launch_packed_spectrum_rows<decltype(zero)>(params, table, stream);
  });
}

void launch_bind_spectrum(Storage storage, const SpectrumBindingParams& params, const void* twiddles,
                          CudaStream stream) {
  with_storage(storage, twiddles,
               [&](auto zero, const auto* table) { launch_bind_spectrum_rows<decltype(zero)>(params, table, stream); });
}

}  // namespace torch_hrr::kernels
