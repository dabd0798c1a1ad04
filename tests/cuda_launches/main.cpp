// Prints, as JSON, the block and the shared memory of every launch of every kernel, without a GPU.
//
// Calls the CUDA entry points for every storage type, length and choice, as the operators do, over a runtime that only
// records. Pointers are never followed: the launch code of a GPU cannot follow them either.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/assembly/cuda_launch.h"
#include "kernels/assembly/rounds_launch.h"
#include "kernels/cuda/philox_fill.h"
#include "kernels/encoding/cuda_launch.h"
#include "kernels/field/cuda_launch.h"
#include "kernels/hierarchy/cuda_launch.h"
#include "kernels/hrr/cuda_launch.h"
#include "kernels/hrr/quantized_launch.h"
#include "tests/cuda_launches/cuda_runtime.h"

namespace torch_hrr::kernels {
namespace {

constexpr CudaStream kStream = nullptr;
constexpr int64_t kRows = 1000;
constexpr Storage kStorages[] = {Storage::kFloat, Storage::kDouble, Storage::kHalf, Storage::kBFloat16};
constexpr Element kElements[] = {Element::kFloat,    Element::kDouble, Element::kHalf,
                                 Element::kBFloat16, Element::kInt32,  Element::kInt64};
constexpr Product kProducts[] = {Product::kConvolution, Product::kCorrelation};
constexpr SpectralMap kMaps[] = {
    SpectralMap::kInverse,         SpectralMap::kCutInverse,      SpectralMap::kUnitary,      SpectralMap::kPower,
    SpectralMap::kInverseBackward, SpectralMap::kUnitaryJacobian, SpectralMap::kPowerBackward};

// Not null, aligned like device memory, never read.
template <typename T>
T* somewhere() {
  alignas(256) static unsigned char memory[256];
  return reinterpret_cast<T*>(memory);
}

template <typename Params>
Params shaped(int64_t dim) {
  Params params;
  params.rows = kRows;
  params.dim = dim;
  return params;
}

// launch(params) by the kernels of powers of two or mixed(params) by those in so much shared memory, as planned.
template <typename Params, typename Launch, typename Mixed>
void launch_planned(Storage storage, Params params, int64_t shared_bytes, const Launch& launch, const Mixed& mixed) {
  params.plan = cuda_row_plan(family_of(params), storage, params.dim, shared_bytes);
  if (params.plan.path == RowPath::kMixed) {
    mixed(storage, params, somewhere<void>(), kStream);
  } else if (params.plan.path != RowPath::kLibrary && params.plan.path != RowPath::kDoubleChirp) {
    launch(storage, params, somewhere<void>(), kStream);
  }
}

void launch_rows_of(Storage storage, int64_t dim, int64_t shared_bytes) {
  for (const Product product : kProducts) {
    auto binding = shaped<BindParams>(dim);
    auto backward = shaped<BindBackwardParams>(dim);
    backward.grad_a = backward.grad_b = somewhere<void>();
    auto of_bins = shaped<SpectrumBindParams>(dim);
    binding.product = backward.product = of_bins.product = product;
    launch_planned(storage, binding, shared_bytes, launch_bind, launch_mixed_bind);
    launch_planned(storage, backward, shared_bytes, launch_bind_backward, launch_mixed_bind_backward);
    launch_planned(storage, of_bins, shared_bytes, launch_bind_spectrum, launch_mixed_bind_spectrum);
  }
  auto record = shaped<BindSuperposeParams>(dim);
  record.items = 3;
  launch_planned(storage, record, shared_bytes, launch_bind_superpose, launch_mixed_bind_superpose);
  for (const SpectralMap kind : kMaps) {
    for (const void* const direction :
         {static_cast<const void*>(nullptr), static_cast<const void*>(somewhere<int>())}) {
      auto map = shaped<SpectralMapParams>(dim);
      map.kind = kind;
      map.v = direction;
      launch_planned(storage, map, shared_bytes, launch_spectral_map, launch_mixed_map);
    }
  }
  auto multibind = shaped<MultibindParams>(dim);
  multibind.items = 3;
  launch_planned(storage, multibind, shared_bytes, launch_multibind, launch_mixed_multibind);
  for (const bool inverse : {false, true}) {
    auto packed = shaped<PackedSpectrumParams>(dim);
    packed.inverse = inverse;
    launch_planned(storage, packed, shared_bytes, launch_packed_spectrum, launch_mixed_packed);
  }
}

void launch_chirps_of(int64_t dim) {
  const void* const twiddles = somewhere<void>();
  for (const SpectralMap map : kMaps) {
    ChirpMapParams params;
    params.map = shaped<SpectralMapParams>(dim);
    params.map.kind = map;
    launch_chirp_map(params, twiddles, kStream);
  }
  ChirpMultibindParams multibind;
  multibind.multibind = shaped<MultibindParams>(dim);
  multibind.multibind.items = 3;
  launch_chirp_multibind(multibind, twiddles, kStream);
  for (const bool inverse : {false, true}) {
    ChirpPackedParams packed;
    packed.packed = shaped<PackedSpectrumParams>(dim);
    packed.packed.inverse = inverse;
    launch_chirp_packed(packed, twiddles, kStream);
  }
}

void launch_hrr() {
  for (const Storage storage : kStorages) {
    for (int64_t dim = 1; dim <= 16384; ++dim) {
      launch_rows_of(storage, dim, 0);
      launch_rows_of(storage, dim, device_shared_bytes());
    }
    for (const int64_t dim : {1, 7, 64, 1000, 1024, 10000, 100000}) {
      for (const int64_t items : {1, 2, 8, 100, 1000, 100000}) {
        auto params = shaped<SuperpositionParams>(dim);
        params.items = items;
        launch_superposition(storage, params, somewhere<void>(), kStream);
      }
    }
  }
  for (int64_t dim = 1; dim <= kMaxDeviceChirpDim; ++dim) {
    launch_chirps_of(dim);
  }
  for (const Storage storage : kStorages) {
    auto params = shaped<QuantizeParams>(1000);
    params.storage = storage;
    launch_quantize_rows(params, kStream);
    for (const int64_t dim : {999, 1000}) {
      for (const int64_t count : {1, 100}) {
        DeviceCleanupParams cleanup;
        cleanup.items = 100000;
        cleanup.dim = dim;
        cleanup.count = count;
        cleanup.storage = storage;
        cleanup.is_double = storage == Storage::kDouble;
        launch_code_bounds(cleanup, kStream);
        launch_left_cosines(cleanup, kStream);
      }
    }
  }
  for (const SpectralMap map : kMaps) {
    auto params = shaped<LibraryBinsParams>(10000);
    params.count = 5001;
    params.kind = map;
    launch_map_library_bins(params, kStream);
  }
}

void launch_winners_and_caps() {
  for (const Element element : kElements) {
    for (const int64_t n : {10, 1000, 100000, 10000000}) {
      for (const int64_t rows : {int64_t{1}, kRows}) {
        WinnersParams params;
        params.rows = rows;
        params.n = params.row_stride = n;
        params.k = 5;
        params.element = element;
        launch_winners(params, somewhere<void>(), kStream);
      }
    }
    launch_winner_keys(element, somewhere<void>(), 5, somewhere<int64_t>(), kStream);
  }
  for (const Storage storage : kStorages) {
    for (const CapShape shape : {CapShape::kSigmoid, CapShape::kLaplace}) {
      for (const CapResult result : {CapResult::kSoft, CapResult::kJacobian}) {
        SoftCapParams params;
        params.rows = kRows;
        params.n = 1000;
        params.k = 30;
        params.storage = storage;
        params.shape = shape;
        params.result = result;
        launch_soft_cap(params, kStream);
      }
    }
  }
}

DeviceGapTables gap_tables(bool two_level) {
  DeviceGapTables tables;
  tables.tables = somewhere<GapTables>();
  tables.width = kLeastWidth;
  tables.two_level = two_level;
  tables.empty = false;
  return tables;
}

// An area of n neurons with every kind of history, and one that is fixed; between them fibers of every kind.
void launch_brains(bool two_level, int64_t n) {
  DeliverLaunch deliver;
  deliver.gaps = gap_tables(two_level);
  deliver.row_count = 10;
  deliver.n = 1000;
  launch_deliver(deliver, kStream);
  StimulusLaunch counts;
  counts.n = 1000;
  launch_stimulus_counts(counts, kStream);

  std::vector<Area> areas(2);
  for (Area& area : areas) {
    area.n = n;
    area.k = 30;
    area.capacity = 100;
  }
  areas[0].bias = somewhere<int64_t>();
  areas[0].last_win = somewhere<int32_t>();
  // Small areas with ties by key go the way of large ones.
  areas[0].keyed_ties = n > 4096;
  areas[1].fixed = true;
  std::vector<Fiber> fibers;
  std::vector<DeviceGapTables> gaps;
  for (const bool procedural : {false, true}) {
    for (const int32_t target : {0, 1}) {
      Fiber fiber;
      fiber.source = 1 - target;
      fiber.target = target;
      fiber.factor = 1.1f;
      fiber.scale = somewhere<double>();
      fiber.sums = somewhere<int64_t>();
      fiber.connectome = procedural ? somewhere<GapTables>() : nullptr;
      fibers.push_back(fiber);
      gaps.push_back(procedural ? gap_tables(two_level) : DeviceGapTables());
    }
  }
  Stimulus stimulus;
  stimulus.factor = 1.1f;
  RoundsLaunch params;
  params.brains = 2;
  params.rounds = 2;
  params.areas = areas.data();
  params.area_count = static_cast<int64_t>(areas.size());
  params.fibers = fibers.data();
  params.gaps = gaps.data();
  params.fiber_count = static_cast<int64_t>(fibers.size());
  params.stimuli = &stimulus;
  params.stimulus_count = 1;
  params.progress = somewhere<int64_t>();
  launch_rounds(params, somewhere<void>(), kStream);
}

void launch_sinusoids() {
  // Few frequencies, and more than one launch's parameters hold.
  for (const int64_t dim : {64, 10000}) {
    const std::vector<uint64_t> numbers(static_cast<size_t>(dim));
    const TurnArrays turns{numbers.data(), numbers.data(), numbers.data()};
    for (const Storage storage : kStorages) {
      for (const bool interleaved : {false, true}) {
        TableParams table;
        table.sinusoid = shaped<SinusoidParams>(dim);
        table.sinusoid.interleaved = interleaved;
        table.table_storage = storage;
        launch_sinusoids(storage, table.sinusoid, turns, kStream);
        launch_sinusoids(storage, table.sinusoid, HeldFrequencies(), kStream);
        launch_sinusoids(storage, table, turns, kStream);
        AngleGradientParams gradient;
        gradient.sinusoid = table.sinusoid;
        gradient.grad_storage = storage;
        launch_angle_gradient(gradient, HeldFrequencies(), kStream);
        RotationParams rotation;
        rotation.x = rotation.out = somewhere<void>();
        rotation.positions = table.sinusoid.positions;
        rotation.dim = rotation.turned = dim;
        rotation.interleaved = interleaved;
        launch_sinusoids(storage, rotation, turns, kStream);
        launch_sinusoids(storage, rotation, HeldFrequencies(), kStream);
      }
    }
  }
}

void launch_gradients() {
  for (const int64_t channels : {1, 3, 64}) {
    GradientParams params;
    params.batch = 2;
    params.depth = params.height = params.width = 22;
    params.channels = channels;
    for (const Storage storage : kStorages) {
      for (const GradientKind kind :
           {GradientKind::kDerivatives, GradientKind::kMagnitude, GradientKind::kTransposed}) {
        params.kind = kind;
        launch_gradient(storage, params, kStream);
      }
    }
  }
}

void launch_moments_of_all_types() {
  MomentsParams params;
  params.items = 2;
  params.places = 1000;
  params.channels = 3;
  for (const Storage storage : kStorages) {
    launch_moments(storage, params, kStream);
  }
}

void launch_controls() {
  ControlParams params;
  params.rows = 3;
  params.sizes[0] = params.sizes[1] = params.sizes[2] = 8;
  params.maps = params.channels = 8;
  for (const Storage storage : {Storage::kFloat, Storage::kDouble}) {
    launch_control(storage, params, somewhere<int64_t>(), kStream);
  }
}

void launch_layers() {
  // Rows in 4 to 32 registers and in memory, or of coupled units; one sample and several.
  for (const Storage storage : {Storage::kFloat, Storage::kDouble}) {
    for (const int64_t batch : {1, 4}) {
      for (const int64_t size : {128, 256, 512, 1024, 2048}) {
        PlasticParams params;
        params.learners = 1;
        params.ticks = 1000;
        params.batch = batch;
        params.units = 800;
        params.size = size;
        CompetingParams competing;
        competing.scan = params;
        launch_competing(storage, competing, kStream);
        for (const LearningRule rule : {LearningRule::kOja, LearningRule::kGha}) {
          params.rule = rule;
          launch_plastic(storage, params, kStream);
          PlasticBackwardParams backward;
          backward.scan = params;
          for (void* const grad_inputs : {somewhere<void>(), static_cast<void*>(nullptr)}) {
            backward.grad_inputs = grad_inputs;
            launch_plastic_backward(storage, backward, kStream);
          }
          PlasticTangentParams tangent;
          tangent.scan = params;
          launch_plastic_tangent(storage, tangent, kStream);
        }
      }
    }
  }
}

void launch_fields() {
  launch_gradients();
  launch_moments_of_all_types();
  launch_controls();
  // One step, and several that stay in shared memory.
  for (const int64_t steps : {1, 10}) {
    for (const int64_t channels : {1, 3, 64}) {
      for (const int64_t size : {5, 22, 64}) {
        EvolveParams params;
        params.batch = 2;
        params.depth = params.height = params.width = size;
        params.channels = channels;
        for (const Storage storage : kStorages) {
          for (const Stencil stencil : {Stencil::kLaplace, Stencil::kBox}) {
            for (const double noise : {0.0, 0.1}) {
              params.stencil = stencil;
              params.noise = noise;
              launch_evolve(storage, params, EvolveNumbers(), steps, somewhere<void>(), kStream);
            }
          }
        }
      }
    }
  }
}

void launch_everything() {
  launch_hrr();
  launch_sinusoids();
  launch_fields();
  launch_layers();
  launch_winners_and_caps();
  // The way of small areas, and of large ones.
  for (const int64_t n : {1000, 100000}) {
    launch_brains(false, n);
    launch_brains(true, n);
  }
  PhiloxFillParams fill;
  fill.words = 1000;
  philox_fill_cuda(fill, kStream);
}

}  // namespace
}  // namespace torch_hrr::kernels

int main() {
  using namespace torch_hrr;
  try {
    kernels::launch_everything();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_launches: %s\n", error.what());
    return 1;
  }
  std::printf("{\n  \"kernels\": [");
  const char* separator = "\n";
  for (const std::string& kernel : cuda_launches::registered_kernels()) {
    std::printf("%s    \"%s\"", separator, kernel.c_str());
    separator = ",\n";
  }
  std::printf("\n  ],\n  \"launches\": [");
  separator = "\n";
  for (const cuda_launches::Launch& launch : cuda_launches::launches()) {
    std::printf("%s    {\"kernel\": \"%s\", \"threads\": %d, \"shared\": %zu}", separator, launch.kernel.c_str(),
                launch.threads, launch.shared_bytes);
    separator = ",\n";
  }
  std::printf("\n  ]\n}\n");
  return 0;
}
